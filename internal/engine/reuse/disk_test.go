package reuse

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

var identity = Identity{Model: "a model", Layout: "2 layers"}

// fixture is a Cache with a folder.
type fixture struct {
	*Cache
	store *kv.Store
	dir   string
	log   *log
}

func open(t *testing.T, dir string, memory, disk int64, id Identity) *fixture {
	t.Helper()
	return openShape(t, dir, memory, disk, id, plain)
}

func openShape(t *testing.T, dir string, memory, disk int64, id Identity, shape kv.Shape) *fixture {
	t.Helper()
	f := &fixture{store: kv.NewStore(shape), dir: dir, log: &log{}}
	d, err := OpenDisk(dir, disk, id, f.store, f.log.add)
	if err != nil {
		t.Fatal(err)
	}
	f.Cache = New(memory, d, f.log.add)
	return f
}

func (f *fixture) keep(tokens []int32) {
	seq := f.store.NewCache()
	extend(seq, tokens)
	f.Keep(tokens, seq)
	seq.Release()
}

// take returns how many tokens were there, all right.
func (f *fixture) take(t *testing.T, prompt []int32) int {
	t.Helper()
	seq := f.store.NewCache()
	defer seq.Release()
	n := f.Take(context.Background(), prompt, seq)
	if err := check(seq, prompt[:n]); err != nil {
		t.Error(err)
	}
	return n
}

// files are those of the folder; it waits for as many.
func (f *fixture) files(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	for range 1000 {
		if got, _ = filepath.Glob(filepath.Join(f.dir, "*"+extension)); len(got) == n {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d files, want %d: %v", len(got), n, got)
	return nil
}

// What has to leave memory is found on the disk, by this run and by the next one.
func TestSpill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	f := open(t, dir, 3*pageBytes, 1<<20, identity)
	f.keep(text(1, 700))
	f.keep(text(2, 300)) // the first has to go
	f.files(t, 1)
	if n := f.take(t, text(1, 700)); n != 699 {
		t.Errorf("%d tokens were taken, want 699", n)
	}
	if n := f.take(t, append(text(1, 300), text(3, 100)...)); n != 300 {
		t.Errorf("%d tokens were taken, want the 300 that begin alike", n)
	}
	if n := f.take(t, text(2, 301)); n != 300 {
		t.Errorf("%d tokens were taken from memory, want 300", n)
	}
	if s := f.Stats(); s.Spilled != 1 || s.DiskHits != 2 || s.Hits != 3 || s.Lookups != 3 || s.DiskEntries != 1 || s.DiskBytes < 3*pageBytes {
		t.Errorf("%+v", s)
	}
	f.Close(context.Background())
	f.files(t, 2) // what was in memory is there too

	again := open(t, dir, 3*pageBytes, 1<<20, identity)
	for seed, n := range map[int]int{1: 700, 2: 300} {
		if got := again.take(t, text(seed, n+1)); got != n {
			t.Errorf("the next run found %d tokens, want %d", got, n)
		}
	}
	// A longer one takes the place of what it begins with.
	again.keep(text(1, 750))
	again.Close(context.Background())
	again.files(t, 2)
	if again.log.String() != "" {
		t.Errorf("log: %s", again.log)
	}
}

// A file with a recurrent state is used as a whole or not at all.
func TestSpillRecurrent(t *testing.T) {
	dir := t.TempDir()
	f := openShape(t, dir, 1<<20, 1<<20, identity, recurrent)
	f.keep(text(1, 300))
	f.keep(text(1, 400))
	f.Close(context.Background())
	f.files(t, 2)
	again := openShape(t, dir, 1<<20, 1<<20, identity, recurrent)
	for n, want := range map[int]int{401: 400, 400: 300, 301: 300, 300: 0, 40: 0} {
		if got := again.take(t, text(1, n)); got != want {
			t.Errorf("%d tokens of a prompt of %d, want %d", got, n, want)
		}
	}
	again.Close(context.Background())
	if again.log.String() != "" {
		t.Errorf("log: %s", again.log)
	}
}

// The folder's limit holds, and the file that was not used for the longest time goes
// first.
func TestDiskLimit(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, pageBytes, 2*pageBytes+pageBytes/2, identity)
	for seed := range 3 {
		f.keep(text(seed, 100))
		f.files(t, min(seed, 2))
		if seed == 2 {
			f.take(t, text(0, 100)) // is used
		}
	}
	f.Close(context.Background())
	f.files(t, 2)
	again := open(t, dir, pageBytes, 1<<20, identity)
	for seed, want := range []int{99, 0, 99} {
		if got := again.take(t, text(seed, 100)); got != want {
			t.Errorf("text %d: %d tokens, want %d", seed, got, want)
		}
	}
	again.keep(text(4, 600)) // more than memory may hold
	again.Close(context.Background())

	tiny := open(t, t.TempDir(), 3*pageBytes, pageBytes, identity)
	tiny.keep(text(1, 600))
	tiny.Close(context.Background())
	if !strings.Contains(tiny.log.String(), "more than the limit of the folder") {
		t.Errorf("log: %s", tiny.log)
	}
}

// A file that is of no use is told of, is gone, and harms nobody.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 10*pageBytes, 1<<20, identity)
	f.keep(text(1, 700))
	f.Close(context.Background())
	path := f.files(t, 1)[0]
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		b := bytes.Clone(good)
		b[(at+len(b))%len(b)] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":        {nil, "the header is cut off"},
		"half":         {good[:len(good)/2], "bytes, where 700 tokens"},
		"a byte less":  {good[:len(good)-1], "bytes, where 700 tokens"},
		"magic":        {flipped(0), "it begins with"},
		"header":       {flipped(20), ""},
		"tokens":       {flipped(120), "sum is"},
		"first page":   {flipped(-3*int(pageBytes+4) + 100), "page 0: its sum is"},
		"last page":    {flipped(-100), "page 2: its sum is"},
		"header bytes": {append([]byte(magic+"\xff\xff\xff\x7f"), good[12:]...), "its header is said to have"},
	} {
		t.Run(name, func(t *testing.T) {
			// It was good when the program started, and breaks then.
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
			f := open(t, dir, 10*pageBytes, 1<<20, identity)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if n := f.take(t, text(1, 700)); n != 0 {
				t.Errorf("%d tokens of a broken file were used", n)
			}
			if log := f.log.String(); !strings.Contains(log, c.want) || !strings.Contains(log, path) || !strings.Contains(log, "goes on without it") {
				t.Errorf("log %q, want %q", log, c.want)
			}
			if s := f.Stats(); s.DiskFailed != 1 || s.DiskEntries != 0 {
				t.Errorf("%+v", s)
			}
			f.Close(context.Background())
			f.files(t, 0)

			// It was broken before: of pages, nothing is read at the start.
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			f = open(t, dir, 10*pageBytes, 1<<20, identity)
			if log := f.log.String(); !strings.Contains(c.want, "page") && !strings.Contains(log, "it is removed") {
				t.Errorf("log %q", log)
			}
			f.take(t, text(1, 700))
			f.Close(context.Background())
			f.files(t, 0)
		})
	}
	// The first page alone is good enough for what begins alike in it.
	if err := os.WriteFile(path, flipped(-100), 0o600); err != nil {
		t.Fatal(err)
	}
	f = open(t, dir, 10*pageBytes, 1<<20, identity)
	if n := f.take(t, append(text(1, 200), text(2, 100)...)); n != 200 {
		t.Errorf("%d tokens of the first page, want 200", n)
	}
	f.Close(context.Background())
	// One that is gone is as good as none.
	f = open(t, dir, 10*pageBytes, 1<<20, identity)
	os.Remove(path)
	if n := f.take(t, text(1, 700)); n != 0 {
		t.Errorf("%d tokens of a file that is gone", n)
	}
	f.Close(context.Background())
}

// Files that somebody else removes are no failure: what they had is computed again,
// the next best file is used, and what they had is written again when it leaves memory.
func TestFilesRemovedByOthers(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "d"), pageBytes, 1<<20, identity)
	f.keep(text(1, 100))
	f.keep(text(2, 100)) // text 1 goes to a file
	long := append(text(1, 50), text(3, 100)...)
	f.files(t, 1)
	f.keep(long)
	f.keep(text(4, 100)) // text 2 has gone, and now this
	for _, path := range f.files(t, 3) {
		if filepath.Base(path) == f.disk.name(long) {
			os.Remove(path)
		}
	}
	if n := f.take(t, long); n != 50 {
		t.Errorf("%d tokens, want the 50 of the file that is left", n)
	}
	if s := f.Stats(); s.DiskMissing != 1 || s.DiskFailed != 0 || s.DiskEntries != 2 || f.log.String() != "" {
		t.Errorf("%+v, log %q", s, f.log)
	}
	for _, path := range f.files(t, 2) {
		os.Remove(path)
	}
	f.keep(text(1, 100)) // drives text 4 out, and goes itself
	f.keep(text(5, 100))
	f.files(t, 2)
	if n := f.take(t, append(text(1, 100), 7)); n != 100 {
		t.Errorf("%d tokens of what was written again, want 100", n)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	f.keep(text(6, 100))
	f.files(t, 1) // text 5, in a folder that was made again
	f.Close(context.Background())
	if s := f.Stats(); s.SpillFailed != 0 || s.DiskFailed != 0 || f.log.String() != "" {
		t.Errorf("%+v, log %q", s, f.log)
	}
}

// What belongs to another model is left alone.
func TestOtherModels(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 10*pageBytes, 1<<20, identity)
	f.keep(text(1, 100))
	f.Close(context.Background())
	for _, id := range []Identity{{"another model", identity.Layout}, {identity.Model, "3 layers"}} {
		f := open(t, dir, 10*pageBytes, 1<<20, id)
		if n := f.take(t, text(1, 100)); n != 0 {
			t.Errorf("%+v: %d tokens of another model were used", id, n)
		}
		f.Close(context.Background())
	}
	f.files(t, 1)
}

// What a killed program left half written is swept up, once nobody can be at it.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "new-1.part"), filepath.Join(dir, "new-2.part")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	open(t, dir, pageBytes, 1<<20, identity).Close(context.Background())
	if _, err := os.Stat(old); err == nil {
		t.Error("the old one is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
}

func FuzzReadHeader(f *testing.F) {
	var good bytes.Buffer
	h := header{Model: "m", Layout: "l", Tokens: 3, Pages: 1, PageBytes: 4}
	if err := writeHeader(&good, h, []int32{1, 2, 3}); err != nil {
		f.Fatal(err)
	}
	if err := writePiece(&good, []byte("page"), func() error { return nil }); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:30])
	f.Add([]byte(magic + "\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, tokens, at, err := readHeader(bytes.NewReader(data), int64(len(data)))
		if err == nil && (len(tokens) != h.Tokens || at > int64(len(data))) {
			t.Errorf("%+v, %d tokens, pages at %d of %d", h, len(tokens), at, len(data))
		}
	})
}

// What waits for the disk when there is no time left is not written either.
func TestCloseInAHurry(t *testing.T) {
	f := open(t, t.TempDir(), pageBytes, 1<<30, identity)
	f.disk.mu.Lock() // the disk is slow
	for seed := range 4 {
		f.keep(text(seed, 100))
	}
	hurried, cancel := context.WithCancel(context.Background())
	cancel()
	go func() {
		for {
			f.mu.Lock()
			closing := f.closing != nil
			f.mu.Unlock()
			if closing {
				f.disk.mu.Unlock()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	f.Close(hurried)
	if s := f.Stats(); s.Evicted != 3 || s.Spilled > 1 || s.Entries != 0 || s.Bytes != 0 { // one may be at it
		t.Errorf("%+v", s)
	}
}

// slow is a file that takes its time: what is written waits for the end of wait.
type slow struct {
	io.Writer
	begun  func()
	wait   context.Context
	writes *atomic.Int64
}

func (s slow) Write(p []byte) (int, error) {
	s.begun()
	<-s.wait.Done()
	s.writes.Add(1)
	return s.Writer.Write(p)
}

// A large file that is being written when no time is left ends within a chunk, and
// nothing of it stays: one of what left memory before the end, and one of what does
// then.
func TestCloseDuringALargeFile(t *testing.T) {
	big := kv.Shape{Layers: []kv.Layer{{Heads: 8, Layout: kernel.KVLayout{Dim: 256, Format: kernel.KVF32}}}}
	for name, texts := range map[string]int{"before": 2, "then": 1} {
		t.Run(name, func(t *testing.T) {
			f := openShape(t, t.TempDir(), 4*int64(big.PageBytes()), 1<<30, identity, big)
			limit, end := context.WithCancel(context.Background())
			begun := make(chan struct{})
			var writes atomic.Int64
			f.disk.slow = func(w io.Writer) io.Writer {
				return slow{w, sync.OnceFunc(func() { close(begun) }), limit, &writes}
			}
			for seed := range texts { // the second drives the first out
				seq := f.store.NewCache()
				seq.Extend(4 * kv.PageSize)
				seq.Commit()
				f.Keep(text(seed, seq.Len()), seq)
				seq.Release()
			}
			go func() {
				<-begun
				for closing := false; !closing; time.Sleep(time.Millisecond) {
					f.mu.Lock()
					closing = f.closing != nil
					f.mu.Unlock()
				}
				end()
			}()
			f.Close(limit)
			if n := writes.Load(); n > 2 {
				t.Errorf("%d writes of up to %d bytes", n, chunk)
			}
			if names, err := os.ReadDir(f.dir); err != nil || len(names) != 0 {
				t.Errorf("what is left: %v, %v", names, err)
			}
			if s := f.Stats(); s.SpillFailed != 1 || !strings.Contains(f.log.String(), "there was no time left at the end; 1024 tokens are forgotten") {
				t.Errorf("%+v, log %q", s, f.log)
			}
		})
	}
}
