package telemetry

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what a Recorder reads and how often.
type Options struct {
	Root string // folder that holds proc and sys; empty: "/"

	NVML        string // path of assay-nvml; empty: beside this program, else in PATH; NotUsed
	NVMLLibrary string // path of NVIDIA's library; empty: by the loader
	SMI         string // path of nvidia-smi; empty: in PATH; NotUsed

	WallCommand []string // a program and its arguments, which prints watts, a line a reading
	WallFile    string   // or a file that holds watts

	Disk    string // that holds the model ("nvme0n1", see DiskOf)
	DiskWhy string // why it is not known

	Fast   time.Duration // between readings of energy and power; 0: 100 ms
	Slow   time.Duration // between those of everything else; 0: 1 s
	Seldom time.Duration // between those that cost the machine something; 0: 5 s
}

// Recorder reads all sources until it is closed, each at its own rate and in its
// own goroutine, so that a slow one does not hold up the others.
type Recorder struct {
	opt    Options
	root   root
	origin time.Time
	cancel context.CancelFunc
	work   sync.WaitGroup

	helpers   helpers
	pollCPU   atomic.Int64 // ns
	helperCPU atomic.Int64 // ns, of helpers that have ended

	mu     sync.Mutex
	zero   int64 // Unix time of origin in ns
	tracks map[string]*track
	order  []string
	news   chan struct{} // closed and made anew with each reading
	feeds  int           // helpers that have neither given a reading nor up
	pid    int
	why    string
	tree   []int // processes of the target at the last look

	asks []chan chan struct{} // one a poller: read now
	pss  pssSource
}

// Open starts to read. No target is known yet.
func Open(o Options) *Recorder {
	if o.Root == "" {
		o.Root = "/"
	}
	for _, d := range []struct {
		v        *time.Duration
		standard time.Duration
	}{{&o.Fast, 100 * time.Millisecond}, {&o.Slow, time.Second}, {&o.Seldom, 5 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.standard
		}
	}
	if o.Disk == "" && o.DiskWhy == "" {
		o.DiskWhy = "the disk of the model is not known"
	}
	ctx, cancel := context.WithCancel(context.Background())
	from, now := root(o.Root), time.Now()
	r := &Recorder{
		opt: o, root: from, origin: now, zero: now.UnixNano(), cancel: cancel,
		helpers: newHelpers(), tracks: map[string]*track{}, news: make(chan struct{}),
		why: "no target was named",
	}
	r.pss = pssSource{from, r.targetPID}
	r.poll(ctx, o.Fast, raplSource{from})
	r.poll(ctx, o.Fast, &drmSource{root: from, fast: true})
	r.poll(ctx, o.Slow, &drmSource{root: from})
	r.poll(ctx, o.Slow, hostSource{from})
	r.poll(ctx, o.Slow, psiSource{from})
	r.poll(ctx, o.Slow, treeSource{from, r.targetPID, r.setTree})
	r.poll(ctx, o.Slow, cgroupSource{from, r.targetPID})
	r.poll(ctx, o.Slow, &noiseSource{root: from, ours: r.targetTree, self: selfPID(from)})
	r.poll(ctx, o.Slow, diskSource{from, o.Disk, o.DiskWhy})
	r.poll(ctx, o.Slow, &selfSource{rec: r})
	r.poll(ctx, o.Seldom, hwmonSource{from})
	r.poll(ctx, o.Seldom, freqSource{from})
	r.feed(ctx, r.nvidia)
	switch {
	case len(o.WallCommand) > 0:
		r.feed(ctx, r.wallCommand)
	case o.WallFile != "":
		r.poll(ctx, o.Slow, wallFile{o.WallFile})
	default:
		r.poll(ctx, o.Seldom, noWall{})
	}
	r.work.Go(func() { r.lag(ctx) })
	return r
}

// Target names the first process of the target from now on; 0: it is not known,
// because of why.
func (r *Recorder) Target(pid int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.why, r.tree = pid, why, nil
}

func (r *Recorder) targetPID() (pid int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid, r.why
}

func (r *Recorder) targetTree() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tree
}

func (r *Recorder) setTree(pids []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(pids) > 0 && pids[0] == r.pid { // else the target has changed meanwhile
		r.tree = pids
	}
}

// Close ends all reading and all helpers.
func (r *Recorder) Close() {
	r.cancel()
	r.work.Wait()
}

const (
	patience = 2 * time.Second  // for sources that are asked
	warmUp   = 10 * time.Second // for a helper that is still starting
)

// Begin starts a window: it forgets what was read before, reads everything once
// and returns then. Within the first seconds it waits for helpers to start.
func (r *Recorder) Begin() {
	if left := warmUp - time.Since(r.origin); left > 0 {
		r.waitFor(left, func() bool { return r.feeds == 0 })
	}
	now := time.Now()
	r.mu.Lock()
	// By the wall clock as it stands now, which may have been set since Open.
	r.zero = now.UnixNano() - int64(now.Sub(r.origin))
	for _, t := range r.tracks {
		// A second more is kept, for counters that are brought up to date now and
		// then only.
		t.forget(int64(now.Sub(r.origin) - time.Second))
	}
	r.mu.Unlock()
	r.readAll(now)
}

// End reads everything once more, the proportional memory of the target last,
// and returns what was read since Begin.
func (r *Recorder) End() *Record {
	r.readAll(time.Now())
	// A counter that is brought up to date every 100 ms may not have been yet.
	time.Sleep(r.opt.Fast)
	r.readAll(time.Now())
	rd := &reading{at: time.Now()}
	r.pss.read(rd)
	r.add(r.pss.source(), 0, rd.at, rd)
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Record{Form: Form, Origin: r.zero}
	for _, name := range r.order {
		out.Tracks = append(out.Tracks, r.tracks[name].copied())
	}
	return out
}

// Last is a metric's newest readings, for who has to act on them.
func (r *Recorder) Last(m Metric) []Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Reading
	for _, name := range r.order {
		t := r.tracks[name]
		for i := range t.Series {
			s := &t.Series[i]
			if s.Metric != m {
				continue
			}
			rd := Reading{Source: name, Of: s.Of, Why: s.Why}
			if n := len(s.V); n > 0 && s.V[n-1] == s.V[n-1] {
				rd.Value, rd.Why = new(s.V[n-1]), ""
				rd.Age = time.Since(r.origin) - time.Duration(t.At[n-1])
			}
			out = append(out, rd)
		}
	}
	return out
}

// Reading is the newest value of a metric.
type Reading struct {
	Source, Of string
	Value      *float64 // nil: because of Why
	Why        string
	Age        time.Duration
}

// poll starts to read a source that is asked. One that has nothing to tell is
// asked seldom.
func (r *Recorder) poll(ctx context.Context, every time.Duration, p poller) {
	asked := make(chan chan struct{})
	r.asks = append(r.asks, asked)
	read := func() bool {
		runtime.LockOSThread() // so that the thread's time is this reading's
		defer runtime.UnlockOSThread()
		before, _ := threadCPU()
		rd := &reading{at: time.Now()}
		p.read(rd)
		r.add(p.source(), every, rd.at, rd)
		after, _ := threadCPU()
		r.pollCPU.Add(int64(after - before))
		return len(rd.values) > 0
	}
	r.work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		quiet := time.Time{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if time.Now().Before(quiet) {
					continue
				}
				if !read() {
					quiet = time.Now().Add(r.opt.Seldom)
				}
			case done := <-asked:
				read()
				close(done)
			}
		}
	})
}

// feed starts to read a helper program.
func (r *Recorder) feed(ctx context.Context, run func(context.Context, *feed)) {
	r.mu.Lock()
	r.feeds++
	r.mu.Unlock()
	f := &feed{rec: r}
	r.work.Go(func() {
		run(ctx, f)
		f.started()
	})
}

// feed is one source that tells of its own accord.
type feed struct {
	rec  *Recorder
	once sync.Once
}

// started says that the feed has given its first reading, or never will.
func (f *feed) started() {
	f.once.Do(func() {
		f.rec.mu.Lock()
		defer f.rec.mu.Unlock()
		f.rec.feeds--
		f.rec.tell()
	})
}

// add puts a reading into its track, for which End then waits.
func (f *feed) add(name string, every time.Duration, at time.Time, rd *reading) {
	f.rec.add(name, every, at, rd)
	f.rec.mu.Lock()
	f.rec.tracks[name].fed = true
	f.rec.mu.Unlock()
	f.started()
}

// each does something to all tracks whose names begin with prefix.
func (f *feed) each(prefix string, do func(*track)) {
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	for name, t := range f.rec.tracks {
		if strings.HasPrefix(name, prefix) {
			do(t)
		}
	}
}

// ended records why a source tells nothing more.
func (f *feed) ended(prefix, why string) {
	f.each(prefix, func(t *track) { t.Ended = why })
}

// lost records a reading that is only a reason.
func (f *feed) lost(prefix string, at time.Time, why error) {
	f.each(prefix, func(t *track) {
		rd := &reading{}
		for i := range t.Series {
			rd.fail(why, t.Series[i].Metric)
		}
		t.add(int64(at.Sub(f.rec.origin)), rd)
	})
}

// readAll asks every source for a reading that is not older than at.
func (r *Recorder) readAll(at time.Time) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	r.helpers.ask()
	var waiting []chan struct{}
	for _, ask := range r.asks {
		done := make(chan struct{})
		select {
		case ask <- done:
			waiting = append(waiting, done)
		case <-deadline.C:
			return // a source hangs; what it lacks shows in its samples
		}
	}
	for _, done := range waiting {
		select {
		case <-done:
		case <-deadline.C:
			return
		}
	}
	want := int64(at.Sub(r.origin))
	r.waitFor(patience, func() bool {
		for _, t := range r.tracks {
			// One that has been silent for so long is not waited for.
			if t.fed && t.Ended == "" && t.last < want && want-t.last < int64(3*time.Second) {
				return false
			}
		}
		return true
	})
}

// waitFor waits until ok, which is called with the lock held, or for so long.
func (r *Recorder) waitFor(most time.Duration, ok func() bool) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		done, news := ok(), r.news
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-deadline.C:
			return
		}
	}
}

// add puts a reading into its track.
func (r *Recorder) add(name string, every time.Duration, at time.Time, rd *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[name]
	if t == nil {
		t = &track{Track: Track{Source: name}}
		r.tracks[name] = t
		r.order = append(r.order, name)
	}
	if every > 0 {
		t.Hz = float64(time.Second) / float64(every)
	}
	t.add(int64(at.Sub(r.origin)), rd)
	r.tell()
}

// tell wakes who waits for news; the lock is held.
func (r *Recorder) tell() {
	close(r.news)
	r.news = make(chan struct{})
}
