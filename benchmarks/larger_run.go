//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/engine"
	"assay/internal/engine/expert"
	"assay/internal/gguf"
)

const (
	largerContext = 2048             // positions: enough for what is measured
	readyLimit    = 40 * time.Second // for loading a model
	replyLimit    = 90 * time.Second // for a run of a few tokens
	directTurn    = 700 * time.Millisecond
)

// measure fills one case. That an engine is killed is a result, not an error.
func (o *largerOptions) measure(ctx context.Context, c *largeOne, p *peer) (err error) {
	file := o.path(c)
	if err := dropPages(file); err != nil {
		return err
	}
	g, err := newLimited(c.Limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := []string{self, "-child-larger", file, strconv.Itoa(o.threads), "auto"}
	switch c.Engine {
	case "ours-mmap":
		argv[len(argv)-1] = "mmap"
	case "llama.cpp", "llama.cpp-norepack":
		repack := map[string]string{"llama.cpp": "1", "llama.cpp-norepack": "0"}[c.Engine]
		argv = []string{p.driver, file, strconv.Itoa(o.threads), strconv.Itoa(largerContext), "mmap", repack}
	}
	began := time.Now()
	r, err := o.start(ctx, g, append([]string{self, "-child-in", g.dir}, argv...))
	if err == nil {
		c.Ready = time.Since(began).Seconds()
		err = o.tokens(ctx, c, r, file)
		err = errors.Join(err, r.stop())
	}
	if c.Peak = g.number("memory.max_usage_in_bytes"); ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case g.killed():
		c.Failed = "killed: out of memory"
	case err != nil:
		c.Failed = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return nil
}

// limitedChild is a child that is watched: one that takes too long is killed.
type limitedChild struct {
	*child
	depth int
	timer *time.Timer
	late  atomic.Bool
}

func (o *largerOptions) start(ctx context.Context, g *limited, argv []string) (*limitedChild, error) {
	r := &limitedChild{}
	r.timer = time.AfterFunc(readyLimit, func() {
		r.late.Store(true)
		g.kill()
	})
	var err error
	if r.child, err = startChild(ctx, argv, nil); err != nil {
		r.timer.Stop()
		return nil, r.why(err, fmt.Sprintf("not loaded after %s", readyLimit))
	}
	r.timer.Stop()
	return r, nil
}

// why is err, or what it comes from: the child was ended for being late.
func (r *limitedChild) why(err error, late string) error {
	if r.late.Load() {
		return errors.New(late)
	}
	return err
}

func (r *limitedChild) stop() error {
	_ = r.in.Close() // ends it
	return r.cmd.Wait()
}

// largeReply is what a child answers to a run.
type largeReply struct {
	NS      int64   `json:"ns"`
	Hits    int64   `json:"hits"`
	Ahead   int64   `json:"ahead_hits"`
	Lookups int64   `json:"lookups"`
	Missed  int64   `json:"missed"`
	Slots   int     `json:"slots"`
	Uses    []int64 `json:"uses"` // of each expert
}

// run generates n tokens.
func (r *limitedChild) run(n int) (a largeReply, err error) {
	late := time.AfterFunc(replyLimit, func() {
		r.late.Store(true)
		_ = r.cmd.Process.Kill()
	})
	defer late.Stop()
	if _, err := fmt.Fprintf(r.in, "tg %d %d\n", n, r.depth); err != nil {
		return a, err
	}
	if err := r.answer(&a); err != nil {
		return a, r.why(err, fmt.Sprintf("%d tokens took longer than %s", n, replyLimit))
	}
	if r.depth += n; r.depth+64 > largerContext {
		r.depth = 0
	}
	if a.NS <= 0 {
		return a, fmt.Errorf("a run of %d tokens took %d ns", n, a.NS)
	}
	return a, nil
}

// tokens warms the child up and measures it.
func (o *largerOptions) tokens(ctx context.Context, c *largeOne, r *limitedChild, file string) error {
	perRun := 1
	for end := time.Now().Add(o.warm); time.Now().Before(end) && ctx.Err() == nil; {
		a, err := r.run(perRun)
		if err != nil {
			return err
		}
		if per := float64(a.NS) / 1e9 / float64(perRun); per > 0 { // runs of a second
			perRun = min(max(int(1/per), 1), 48)
		}
	}
	c.PerRun = perRun
	var d *directReads
	if c.Engine == "ours" {
		var err error
		if d, err = openDirect(file); err != nil {
			return err
		}
		defer d.close()
		c.Experts = len(d.pieces) / 3
	}
	var uses []int64
	before := faultsOf(r.pid())
	meter := newMeter([]int{os.Getpid(), r.pid()})
	var direct, took time.Duration
	var read int64
	for took < o.seconds && ctx.Err() == nil {
		if d != nil {
			began := time.Now()
			n, err := d.read(directTurn)
			if err != nil {
				return err
			}
			read += n
			direct += time.Since(began)
		}
		a, err := r.run(perRun)
		if err != nil {
			return err
		}
		took += time.Duration(a.NS)
		c.RunsNS = append(c.RunsNS, a.NS)
		c.Tokens += perRun
		c.Hits += a.Hits
		c.Ahead += a.Ahead
		c.Lookups += a.Lookups
		c.Missed += a.Missed
		c.Slots = max(c.Slots, a.Slots)
		if uses == nil {
			uses = make([]int64, len(a.Uses))
		}
		for i, n := range a.Uses {
			uses[i] += n
		}
	}
	c.Seconds = took.Seconds()
	if direct > 0 {
		c.Direct = float64(read) / direct.Seconds()
	}
	if foreign, _ := meter.shares(); foreign != nil {
		c.Foreign = *foreign
	}
	c.Faults = faultsOf(r.pid()) - before
	slices.SortFunc(uses, func(a, b int64) int { return int(b - a) })
	for _, n := range uses[:min(c.Slots, len(uses))] {
		c.Best += n
	}
	return ctx.Err()
}

// directReads reads matrices of experts past the page cache.
type directReads struct {
	reader expert.Reader
	pieces []directPiece
	seed   uint64
}

type directPiece struct {
	shard     int
	offset, n int64
}

// sector is what direct reads are multiples of.
const sector = 4096

func openDirect(file string) (*directReads, error) {
	f, err := gguf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := &directReads{}
	for _, t := range f.Tensors() {
		if !strings.Contains(t.Name, "_exps.") {
			continue
		}
		n := t.Dims[len(t.Dims)-1]
		each := t.Bytes() / n
		for i := range n {
			d.pieces = append(d.pieces, directPiece{t.Shard, int64(t.Offset + i*each), int64(each)})
		}
	}
	d.reader, err = expert.OpenFiles(f)
	return d, err
}

func (d *directReads) close() { _ = d.reader.Close() } // it was only read

// read reads random pieces for some time, as many at once as a store does.
func (d *directReads) read(t time.Duration) (int64, error) {
	var n atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	end := time.Now().Add(t)
	d.seed++
	for i := range expert.DefaultReaders {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(d.seed, uint64(i)))
			var buf []byte
			for time.Now().Before(end) {
				p := d.pieces[r.IntN(len(d.pieces))]
				from := p.offset / sector * sector
				size := (p.offset + p.n - from + sector - 1) / sector * sector
				if int64(len(buf)) < size+sector {
					buf = make([]byte, size+2*sector)
				}
				o := int(-uintptr(unsafe.Pointer(&buf[0])) & (sector - 1))
				for got := int64(0); got < p.offset+p.n-from; {
					k, err := d.reader.ReadAt(p.shard, buf[o:][got:size], from+got)
					if err == nil && k == 0 {
						err = io.ErrUnexpectedEOF
					}
					if err != nil {
						failed.Store(&err)
						return
					}
					got += int64(k)
				}
				n.Add(p.n)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return n.Load(), nil
}

// largerChild is our engine as a child: args are a file, threads and what experts
// may have: auto, mmap or bytes.
func largerChild(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: -child-larger FILE THREADS auto|mmap|BYTES")
	}
	threads, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	o := engine.Options{Threads: threads, Context: largerContext}
	switch args[2] {
	case "mmap":
		o.Mmap = true
	case "auto":
		o.ExpertRAM = engine.ExpertAuto
	default:
		if o.ExpertRAM, err = strconv.ParseInt(args[2], 10, 64); err != nil {
			return err
		}
	}
	ctx := context.Background()
	f, err := gguf.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := engine.Load(ctx, f, o, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	b, err := e.Bench(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	say := json.NewEncoder(out)
	if err := say.Encode(hello{Ready: true, Batch: engine.BatchTokens, KVType: e.Options().CacheType}); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	var id [1]int32
	before, _ := e.ExpertStats()
	uses := e.ExpertUses(nil)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var t test
		if _, err := fmt.Sscan(lines.Text(), &t.Kind, &t.N, &t.Depth); err != nil || t.Kind != "tg" {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if b.Len() > t.Depth {
			b.Truncate(t.Depth)
		}
		start := time.Now()
		for range t.N {
			id[0] = r.Int32N(int32(e.Info().Vocabulary))
			if err := b.Feed(ctx, id[:]); err != nil {
				return err
			}
		}
		a := largeReply{NS: time.Since(start).Nanoseconds()}
		if st, ok := e.ExpertStats(); ok {
			now := e.ExpertUses(nil)
			a.Hits, a.Lookups, a.Missed, a.Slots = st.Hits-before.Hits, st.Lookups-before.Lookups, st.BytesRead-before.BytesRead, st.Slots
			a.Ahead = st.AheadHits - before.AheadHits
			for i, n := range now {
				a.Uses = append(a.Uses, n-uses[i])
			}
			before, uses = st, now
		}
		if err := say.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// limited is a control group of version 1 with a limit of memory.
type limited struct{ dir string }

func newLimited(limit int64) (*limited, error) {
	g := &limited{filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("assay-larger-%d", os.Getpid()))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("a control group of version 1 for memory can't be made: %w", err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// execIn joins a group and becomes the program of argv.
func execIn(args []string) error {
	if err := os.WriteFile(filepath.Join(args[0], "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return err
	}
	return unix.Exec(args[1], args[1:], os.Environ())
}

func (g *limited) text(name string) string {
	raw, _ := os.ReadFile(filepath.Join(g.dir, name)) // what can't be read is not there
	return strings.TrimSpace(string(raw))
}

func (g *limited) number(name string) int64 {
	n, _ := strconv.ParseInt(g.text(name), 10, 64) // likewise
	return n
}

// killed says whether the kernel ended a process of the group.
func (g *limited) killed() bool {
	for line := range strings.Lines(g.text("memory.oom_control")) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
			return true
		}
	}
	return false
}

// kill ends the processes of the group.
func (g *limited) kill() {
	for line := range strings.Lines(g.text("cgroup.procs")) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

func (g *limited) close() error {
	g.kill()
	var err error
	for range 100 { // busy until its processes are gone entirely
		if err = os.Remove(g.dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// dropPages takes a file out of the page cache.
func dropPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fsync(int(f.Fd())); err != nil { // pages that are not on the disk yet stay
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// faultsOf is how many pages a process had to read.
func faultsOf(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 10 {
		return 0
	}
	n, _ := strconv.ParseInt(f[9], 10, 64) // majflt
	return n
}
