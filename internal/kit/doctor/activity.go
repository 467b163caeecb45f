package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Activity is what has run on a machine until a moment. Two of them say what ran
// in between.
type Activity struct {
	At        time.Time
	Busy      float64         // s of processor time spent, all processors together
	All       float64         // s of processor time there was
	Steal     float64         // s that a hypervisor took away
	Processes map[int]Process // by number
	SwapIn    float64         // pages read from swap
	SwapOut   float64         // pages written to it
}

// Process is one process so far.
type Process struct {
	Name    string  // kernel threads change theirs
	Started uint64  // in ticks since the system started: with the number, it names the process
	Seconds float64 // of processor time
}

// Look takes one Activity from /proc below root.
func Look(root string) (*Activity, error) {
	proc, err := procfs.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		return nil, err
	}
	st, err := proc.Stat()
	if err != nil {
		return nil, fmt.Errorf("/proc/stat: %w", err)
	}
	t := st.CPUTotal
	a := &Activity{At: time.Now(), Steal: t.Steal, Processes: map[int]Process{}}
	a.Busy = t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ // guests are in User already
	a.All = a.Busy + t.Idle + t.Iowait + t.Steal
	all, err := proc.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("/proc: %w", err)
	}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it has ended
			a.Processes[p.PID] = Process{s.Comm, s.Starttime, s.CPUTime()}
		}
	}
	a.SwapIn, a.SwapOut = swapped(root)
	return a, nil
}

// swapped reads vmstat, zeros where the kernel has no swap.
func swapped(root string) (in, out float64) {
	data, err := os.ReadFile(filepath.Join(root, "proc/vmstat"))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		var name string
		var v float64
		if n, _ := fmt.Sscan(line, &name, &v); n != 2 {
			continue
		}
		switch name {
		case "pswpin":
			in = v
		case "pswpout":
			out = v
		}
	}
	return in, out
}

// busyShare is from how much of a processor on a process is counted as busy.
const busyShare = 0.10

// between is what ran from one look to the next.
type between struct {
	seconds  float64
	others   float64 // % of one processor, of all processes but our own
	busy     []string
	steal    float64 // % of all processors' time
	swapping float64 // pages a second, in and out
}

// since compares two looks; self is our own process, which is no noise.
func (a *Activity) since(before *Activity, self int) between {
	b := between{seconds: a.At.Sub(before.At).Seconds()}
	if b.seconds <= 0 {
		return b
	}
	type one struct {
		name  string
		share float64
	}
	var found []one
	ours := 0.0
	for pid, p := range a.Processes {
		used := p.Seconds
		if old, ok := before.Processes[pid]; ok && old.Started == p.Started {
			used = max(p.Seconds-old.Seconds, 0)
		}
		if pid == self {
			ours = used
			continue
		}
		if used >= busyShare*b.seconds {
			found = append(found, one{p.Name, used / b.seconds})
		}
	}
	slices.SortFunc(found, func(x, y one) int {
		return cmp.Or(cmp.Compare(y.share, x.share), cmp.Compare(x.name, y.name))
	})
	for _, f := range found {
		b.busy = append(b.busy, fmt.Sprintf("%s %.0f %%", f.name, 100*f.share))
	}
	// By the total, since processes that began and ended in between are in no list.
	b.others = 100 * max(a.Busy-before.Busy-ours, 0) / b.seconds
	if all := a.All - before.All; all > 0 {
		b.steal = 100 * max(a.Steal-before.Steal, 0) / all
	}
	b.swapping = max(a.SwapIn-before.SwapIn+a.SwapOut-before.SwapOut, 0) / b.seconds
	return b
}
