package expert

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// faulty reads with faults that fault decides on.
type faulty struct {
	Reader
	mu    sync.Mutex
	fault func() fault
}

type fault int

const (
	fine fault = iota
	broken
	short // some bytes less
	ended // no more bytes
)

func (r *faulty) ReadAt(shard int, b []byte, off int64) (int, error) {
	r.mu.Lock()
	kind := fine
	if r.fault != nil {
		kind = r.fault()
	}
	r.mu.Unlock()
	switch kind {
	case broken:
		return 0, syscall.EIO
	case ended:
		return 0, nil
	case short:
		if n := len(b) / 3 / sector * sector; n > 0 {
			b = b[:n]
		}
	}
	return r.Reader.ReadAt(shard, b, off)
}

func (r *faulty) set(f func() fault) {
	r.mu.Lock()
	r.fault = f
	r.mu.Unlock()
}

// A fault is an error for who asked for the expert; afterwards all is well.
func TestFaults(t *testing.T) {
	f := model(t)
	files, err := OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	r := &faulty{Reader: files}
	s, err := Open(f, testShape, Options{Bytes: 64 << 20, Reader: r})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ref := &reference{f: f, shape: testShape}
	take := func(id int32) error {
		b, err := s.Begin(1, []int32{0, id}, nil)
		if err != nil {
			return err
		}
		_, err = all(b, func(x Expert) error { return ref.check(s, 1, x) })
		return err
	}
	for i, c := range []struct {
		fault fault
		want  string
	}{
		{fine, ""},
		{short, ""},
		{broken, "blk.1.ffn_"},
		{ended, "the file ends before; it was longer when it was opened"},
	} {
		r.set(func() fault { return c.fault })
		err := take(int32(i + 1))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("fault %d: %v", c.fault, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("fault %d: %v, want %q", c.fault, err, c.want)
		case c.fault == broken && !errors.Is(err, syscall.EIO):
			t.Errorf("%v does not wrap the disk's error", err)
		}
		r.set(nil)
		if err := take(int32(i + 1)); err != nil {
			t.Errorf("after fault %d: %v", c.fault, err)
		}
	}
	if st := s.Stats(); st.Errors < 2 || st.InFlight != 0 {
		t.Errorf("%+v", st)
	}
}

// Who joins a read that another asked for, and that then fails, is not told of that: the
// expert is read once more.
func TestJoinedFault(t *testing.T) {
	f := model(t)
	files, err := OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the store
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &faulty{Reader: files}
	s := open(t, f, testShape, Options{Bytes: 64 << 20, Reader: r})
	gate, parts := make(chan struct{}), 0
	r.set(func() fault { // the first reads of all parts wait, and then fail
		if parts++; parts > len(partNames) {
			return fine
		}
		<-gate
		return broken
	})
	asked, err := s.Begin(1, []int32{3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	joined, done := make(chan error), make(chan error)
	go func() {
		b, err := s.Begin(1, []int32{3}, nil)
		joined <- err
		if err == nil {
			n := 0
			if n, err = all(b, func(x Expert) error { return (&reference{f: f, shape: testShape}).check(s, 1, x) }); err == nil && n != 1 {
				err = fmt.Errorf("%d experts, want 1", n)
			}
		}
		done <- err
	}()
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	close(gate)
	if _, err := all(asked, func(Expert) error { return nil }); !errors.Is(err, syscall.EIO) {
		t.Errorf("who asked for it: %v, want the disk's error", err)
	}
	if err := <-done; err != nil {
		t.Errorf("who joined: %v", err)
	}
}

// With random faults, many at work and little memory, each batch ends with all
// its experts or an error.
func TestRandomFaults(t *testing.T) {
	f := model(t)
	files, err := OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	r := &faulty{Reader: files}
	s, err := Open(f, testShape, Options{Bytes: least(t, f, 6), Readers: 6, Reader: r})
	if err != nil {
		t.Fatal(err)
	}
	n := rand.New(rand.NewPCG(3, 4))
	r.set(func() fault {
		switch n.IntN(20) {
		case 0:
			return broken
		case 1:
			return ended
		case 2, 3, 4:
			return short
		}
		return fine
	})
	ref := &reference{f: f, shape: testShape}
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed, whole := 0, 0
	for g := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for range 40 {
				layer := r.IntN(testShape.Layers)
				s.Ahead((layer+1)%testShape.Layers, 1, ids(r, testShape.Experts, 2))
				want := ids(r, testShape.Experts, 1+r.IntN(3))
				b, err := s.Begin(layer, want, nil)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := all(b, func(x Expert) error {
					if err := ref.check(s, layer, x); err != nil {
						t.Error(err)
					}
					return nil
				})
				mu.Lock()
				if err != nil {
					failed++
				} else if whole++; got != len(want) {
					t.Errorf("%d of %d experts without an error", got, len(want))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed == 0 || whole == 0 {
		t.Errorf("%d batches failed, %d did not: nothing was tried", failed, whole)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A file that is cut short under us is an error, not a crash.
func TestTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	writeModel(t, path, testShape, 1, q8)
	f := openModel(t, path)
	s := open(t, f, testShape, Options{Bytes: 64 << 20})
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	b, err := s.Begin(2, []int32{11}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(b, func(Expert) error { return nil }); err == nil || !strings.Contains(err.Error(), "the file ends before") {
		t.Errorf("%v", err)
	}
	if _, err := OpenFiles(f); err == nil || !strings.Contains(err.Error(), "1048576 bytes; it had") {
		t.Errorf("opened again: %v", err)
	}
}

// Close waits for a batch and for reads under way.
func TestCloseWaits(t *testing.T) {
	f := model(t)
	s, err := Open(f, testShape, Options{Bytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Begin(0, []int32{0, 1, 2, 3, 4, 5, 6, 7}, nil)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	if _, err := b.Next(); err != nil {
		t.Error(err)
	}
	select {
	case <-closed:
		t.Fatal("closed while a batch was open")
	default:
	}
	b.End()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
