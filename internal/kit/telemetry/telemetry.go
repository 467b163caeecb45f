// Package telemetry samples the machine around a run: one sample before the
// window, one after it, and one a second in between. What is read of the target
// is summed over its whole tree of processes.
//
// A source that can't be read gives no number, and its reason stays with the
// sample. Summarize is a pure function of the samples, so that it can be done
// again from the evidence.
package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Every is the time between samples.
const Every = time.Second

// Source is one thing that is read.
type Source string

// The sources.
const (
	Load1        Source = "load1"         // runnable and waiting tasks, mean of the last minute
	MemAvailable Source = "mem_available" // bytes
	VmRSS        Source = "vmrss"         // bytes, of the target's tree; pages that processes share count for each
	VmLck        Source = "vmlck"         // bytes, of the target's tree
	VmPin        Source = "vmpin"         // bytes, of the target's tree
)

// Sources lists all of them.
var Sources = []Source{Load1, MemAvailable, VmRSS, VmLck, VmPin}

// Sample is one reading of everything. A source is in Values or in Why.
type Sample struct {
	UnixNS int64              `json:"unix_ns"`
	Values map[Source]float64 `json:"values"`
	Why    map[Source]string  `json:"why,omitempty"`
}

// Sampler takes samples until it is stopped.
type Sampler struct {
	root string
	pid  int
	why  string
	stop chan struct{}
	done chan []Sample
}

// Start takes the first sample before it returns. root is "/" but in tests; pid
// is the target's first process, 0 when it is not known because of why.
func Start(root string, pid int, why string) *Sampler {
	s := &Sampler{root: root, pid: pid, why: why, stop: make(chan struct{}), done: make(chan []Sample, 1)}
	samples := []Sample{s.sample()}
	go func() {
		tick := time.NewTicker(Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				samples = append(samples, s.sample())
			case <-s.stop:
				s.done <- append(samples, s.sample())
				return
			}
		}
	}()
	return s
}

// Stop takes the last sample and returns all of them, in order.
func (s *Sampler) Stop() []Sample {
	close(s.stop)
	return <-s.done
}

func (s *Sampler) sample() Sample {
	out := Sample{UnixNS: time.Now().UnixNano(), Values: map[Source]float64{}, Why: map[Source]string{}}
	fail := func(err error, sources ...Source) {
		for _, src := range sources {
			out.Why[src] = err.Error()
		}
	}
	proc, err := procfs.NewFS(filepath.Join(s.root, "proc"))
	if err != nil {
		fail(err, Sources...)
		return out
	}
	if l, err := proc.LoadAvg(); err != nil {
		fail(err, Load1)
	} else {
		out.Values[Load1] = l.Load1
	}
	if m, err := proc.Meminfo(); err != nil {
		fail(err, MemAvailable)
	} else if m.MemAvailableBytes == nil {
		fail(fmt.Errorf("/proc/meminfo has no MemAvailable"), MemAvailable)
	} else {
		out.Values[MemAvailable] = float64(*m.MemAvailableBytes)
	}
	if s.pid == 0 {
		fail(fmt.Errorf("%s", s.why), VmRSS, VmLck, VmPin)
		return out
	}
	if err := s.tree(proc, out.Values); err != nil {
		fail(err, VmRSS, VmLck, VmPin)
	}
	return out
}

// tree sums the memory of the target's processes.
func (s *Sampler) tree(proc procfs.FS, values map[Source]float64) error {
	var rss, lck, pin uint64
	for i, pid := range s.processes(proc) {
		p, err := proc.Proc(pid)
		if err == nil {
			var st procfs.ProcStatus
			if st, err = p.NewStatus(); err == nil {
				rss, lck, pin = rss+st.VmRSS, lck+st.VmLck, pin+st.VmPin
				continue
			}
		}
		if i == 0 { // a child may have ended meanwhile
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	values[VmRSS], values[VmLck], values[VmPin] = float64(rss), float64(lck), float64(pin)
	return nil
}

// processes lists the target's first process and all that descend from it.
// Where the kernel keeps no lists of children every process is asked for its
// parent.
func (s *Sampler) processes(proc procfs.FS) []int {
	children := s.listed
	if files, _ := filepath.Glob(s.childFiles(s.pid)); len(files) == 0 {
		all := parents(proc)
		children = func(pid int) []int { return all[pid] }
	}
	pids, seen := []int{s.pid}, map[int]bool{s.pid: true}
	for i := 0; i < len(pids); i++ {
		for _, pid := range children(pids[i]) {
			if !seen[pid] {
				pids, seen[pid] = append(pids, pid), true
			}
		}
	}
	return pids
}

func (s *Sampler) childFiles(pid int) string {
	return filepath.Join(s.root, "proc", strconv.Itoa(pid), "task", "*", "children")
}

// listed reads a process's children from the kernel's lists, one a thread.
func (s *Sampler) listed(pid int) []int {
	var out []int
	files, _ := filepath.Glob(s.childFiles(pid))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for w := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(w); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// parents maps each process to its children.
func parents(proc procfs.FS) map[int][]int {
	out := map[int][]int{}
	all, err := proc.AllProcs()
	if err != nil {
		return out
	}
	for _, p := range all {
		if st, err := p.Stat(); err == nil {
			out[st.PPID] = append(out[st.PPID], p.PID)
		}
	}
	return out
}

// Summary is what the samples of one run say of one source.
type Summary struct {
	Mean, Min, Max float64
	N              int
}

// Summarize describes one source. It fails, with the samples' own reason, when
// no sample has it.
func Summarize(samples []Sample, src Source) (Summary, error) {
	var s Summary
	why := "no samples"
	for _, one := range samples {
		v, ok := one.Values[src]
		if !ok {
			why = one.Why[src]
			continue
		}
		if s.N == 0 {
			s.Min, s.Max = v, v
		}
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		s.Mean += v
		s.N++
	}
	if s.N == 0 {
		return s, fmt.Errorf("%s", why)
	}
	s.Mean /= float64(s.N)
	return s, nil
}
