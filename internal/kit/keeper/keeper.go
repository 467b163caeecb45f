// Package keeper runs a program that can't outlive its caller, however the
// caller dies, with all that the program starts.
//
// A death signal reaches only the process that was forked, and a process group
// only those that stay in it. So a keeper stands between the two: this program
// once more, under another name, which does nothing but wait. It is the parent
// in the kernel's eyes of everything that loses its own (a "child subreaper"), it
// holds one end of a pipe whose other end only the caller has, and it kills
// all of its descendants when that pipe closes or the program's first process
// ends. When the keeper itself is killed the first process dies by its death
// signal and the caller does the rest. Where a cgroup can be made, the program
// gets one of its own, in which nothing gets lost, and whose memory is its own.
//
// What is left when the caller and the keeper are killed at one moment is found
// by a note on the disk: Reap. Without a cgroup a process that has left both its
// parent and its process group is out of reach in that one case.
//
// The keeper does not change the program: argv and environment are its own, it
// leads a process group of its own, and the keeper sleeps while it runs. It
// belongs to a new session, so a terminal's hang-up does not reach it. On systems
// other than Linux there is no keeper, and a caller that is killed leaves the
// program behind.
package keeper

import (
	"fmt"
	"os"
	"time"
)

// Name is how the system calls a keeper.
const Name = "assay-keeper"

// Command is what to run.
type Command struct {
	Argv   []string
	Env    []string // all of it
	Output *os.File // gets what it prints; it can be closed after Start
	Note   string   // path of the note for Reap; empty: none is written
	// After is a command that is run once all of the program is gone, however that
	// came, for what it left elsewhere; its program is a path.
	After []string
}

// Process is a program that runs, or has ended.
type Process struct {
	PID       int       // of its first process, the program itself
	Began     time.Time // when the program was let go
	Cgroup    string    // folder of its own cgroup; empty because of CgroupWhy
	CgroupWhy string

	done   chan struct{}
	ending string // in words; read after done
	clean  bool   // it ended with status 0

	system // what the system needs to know
}

// Done is closed when the first process has ended and nothing that it started is
// left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ending says how the first process ended, as "exit status 1" or "signal:
// killed", and by whom where that was the kernel. Call it after Done.
func (p *Process) Ending() string { return p.ending }

// Clean says whether it ended with status 0. Call it after Done.
func (p *Process) Clean() bool { return p.clean }

// Killed is a process that Reap found and killed.
type Killed struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

func (k Killed) String() string { return fmt.Sprintf("%s (process %d)", k.Name, k.PID) }
