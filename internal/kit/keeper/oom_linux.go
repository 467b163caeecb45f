package keeper

import (
	"fmt"
	"strconv"
	"syscall"

	"assay/internal/kit/proc"
)

// kills is how often the kernel had killed for memory when the program began, in
// its cgroup and on the whole machine.
type kills struct {
	group   proc.Cgroup
	inGroup *int64 // nil: not told
	machine *int64
}

func countKills(pid int) kills {
	var k kills
	if g, err := root.MemoryCgroup(strconv.Itoa(pid)); err == nil {
		k.group = g
		if n, err := g.OOMKills(); err == nil {
			k.inGroup = &n
		}
	}
	if n, err := root.OOMKills(); err == nil {
		k.machine = &n
	}
	return k
}

// since says what the kernel did to a program that ended by itself, as an
// addition to how it ended; empty: nothing that is known of.
func (k *kills) since(ws syscall.WaitStatus) string {
	killed := ws.Signaled() && ws.Signal() == syscall.SIGKILL
	if k.inGroup != nil {
		now, err := k.group.OOMKills()
		switch {
		case err != nil || now <= *k.inGroup:
		case killed:
			return ": killed by the kernel for memory: " + k.memory()
		default: // one of those that the program started
			return fmt.Sprintf("; the kernel killed %d processes of it for memory: %s", now-*k.inGroup, k.memory())
		}
		if err == nil {
			return ""
		}
	}
	if k.machine != nil && killed {
		if now, err := root.OOMKills(); err == nil && now > *k.machine {
			return fmt.Sprintf(": killed by the kernel for memory, it seems: in that time it killed %d processes for it on this machine", now-*k.machine)
		}
	}
	return ""
}

// memory says which limit it was, as far as that can be told: the lowest that
// holds for the program.
func (k *kills) memory() string {
	dir, limit, err := k.group.Limit()
	if err != nil {
		return err.Error()
	}
	if dir == "" {
		dir = k.group.Dirs[0]
		return fmt.Sprintf("cgroup /%s, no limit: the machine itself had none left, peak %s", dir, peak(k.group, dir))
	}
	return fmt.Sprintf("cgroup /%s, limit %s, peak %s", dir, mebibytes(limit), peak(k.group, dir))
}

func peak(g proc.Cgroup, dir string) string {
	n, err := g.Peak(dir)
	if err != nil {
		return "not known (" + err.Error() + ")"
	}
	return mebibytes(n)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
