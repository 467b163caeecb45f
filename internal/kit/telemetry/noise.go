package telemetry

import (
	"fmt"
	"os"
	"slices"
	"time"

	"assay/internal/kit/proc"
)

const (
	noisy      = 0.1 // of a processor: from here on a process is noise
	noisyNames = 8   // the busiest of them are named
)

// noiseSource looks for processes beside the target and the kit that use the
// processor. Threads of the kernel are left out: they work for the target, too.
type noiseSource struct {
	root   root
	ours   func() []int // the target's tree
	self   int
	before map[int]proc.Stat
	at     time.Time
	names  []string // that were noise at any time, so that their silence is seen
}

func (*noiseSource) source() string { return "noise" }

func (s *noiseSource) read(r *reading) {
	now := r.at
	span := now.Sub(s.at).Seconds()
	if s.before != nil && span < 0.5 {
		// Processor time comes in hundredths of a second: too coarse for less.
		r.fail(fmt.Errorf("the last look was %.1f s ago, half a second is needed", span), NoiseProcs)
		return
	}
	all := s.root.Processes()
	if len(all) == 0 {
		r.fail(fmt.Errorf("/proc: no process can be read"), NoiseProcs)
		return
	}
	before := s.before
	s.before, s.at = all, now
	if before == nil {
		r.fail(fmt.Errorf("two looks are needed, half a second apart"), NoiseProcs)
		return
	}
	ours := map[int]bool{s.self: true}
	for _, pid := range s.ours() {
		ours[pid] = true
	}
	count := 0
	shares := map[string]float64{}
	for pid, st := range all {
		if st.Kernel || ours[pid] || ours[st.Parent] || (s.self != 0 && descends(all, pid, s.self)) {
			continue
		}
		was, ok := before[pid]
		if !ok || was.Start != st.Start {
			was = proc.Stat{}
		}
		if share := (st.CPU - was.CPU) / span; share >= noisy {
			count++
			shares[st.Name] += share
		}
	}
	r.set(NoiseProcs, "", float64(count))
	s.name(r, shares)
}

// name tells who was noise. A name that was noise before and is not now is told
// with 0.
func (s *noiseSource) name(r *reading, shares map[string]float64) {
	var names []string
	for name := range shares {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case shares[a] > shares[b]:
			return -1
		case shares[a] < shares[b]:
			return 1
		}
		return compareText(a, b)
	})
	for _, name := range names[:min(len(names), noisyNames)] {
		if !slices.Contains(s.names, name) && len(s.names) < 64 {
			s.names = append(s.names, name)
		}
	}
	for _, name := range s.names {
		r.set(NoiseCPU, name, shares[name])
	}
}

func compareText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// descends says whether a process is one of ours by its parents.
func descends(all map[int]proc.Stat, pid, of int) bool {
	for range 64 {
		s, ok := all[pid]
		if !ok {
			return false
		}
		if s.Parent == of {
			return true
		}
		pid = s.Parent
	}
	return false
}

// selfPID is the kit's own process, which a record of another machine's tree
// does not have.
func selfPID(from root) int {
	if from == "/" {
		return os.Getpid()
	}
	return 0
}
