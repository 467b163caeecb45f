package keeper

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/kit/proc"
)

// A program that imports this package plays these roles when it is started under
// these names, before its own main.
const (
	keeperName  = Name
	starterName = "assay-starter" // what becomes the program
)

func init() {
	switch os.Args[0] {
	case keeperName:
		keep()
		os.Exit(0)
	case starterName:
		start()
		os.Exit(127)
	}
}

// The keeper's files beside the standard ones.
const (
	ordersFile = 3 // from the caller; its end is the caller's
	reportFile = 4 // to the caller
)

// orders tell the keeper what to run, and that it may be run now.
type orders struct {
	Path  string   `json:"path"`
	Argv  []string `json:"argv"`
	After []string `json:"after,omitempty"` // once all is gone
}

// report is a line from the keeper. Of the fields one is set.
type report struct {
	PID     int     `json:"pid,omitempty"` // of the process that becomes the program
	Started bool    `json:"started,omitempty"`
	Failed  string  `json:"failed,omitempty"` // why it did not start
	Status  *uint32 `json:"status,omitempty"` // wait status of the first process: the last line
}

// keep is the keeper. It runs on the main thread, which ends with the process and
// not before, as the death signal of the child needs it.
func keep() {
	syscall.CloseOnExec(ordersFile)
	syscall.CloseOnExec(reportFile)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0) // what ps and telemetry call it
	from, to := os.NewFile(ordersFile, "orders"), json.NewEncoder(os.NewFile(reportFile, "report"))
	fail := func(err error) {
		_ = to.Encode(report{Failed: err.Error()})
	}
	var gate, started [2]int
	if err := syscall.Pipe2(gate[:], syscall.O_CLOEXEC); err != nil {
		fail(err)
		return
	}
	if err := syscall.Pipe2(started[:], syscall.O_CLOEXEC); err != nil {
		fail(err)
		return
	}
	first, err := syscall.ForkExec(self, []string{starterName}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2, uintptr(gate[0]), uintptr(started[1])},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		fail(err)
		return
	}
	syscall.Close(gate[0])
	syscall.Close(started[1])
	_ = to.Encode(report{PID: first})

	var killing atomic.Bool
	alone := make(chan struct{}) // closed when the caller closed the orders, or has died
	told := make(chan struct{})  // whether the program started; how it ended comes after that
	var o orders                 // read after told
	var last sync.Mutex          // of gone: nothing of the program is left, so what comes last is not to be killed
	gone := false
	go func() {
		lines := json.NewDecoder(from)
		if lines.Decode(&o) == nil {
			w := os.NewFile(uintptr(gate[1]), "gate")
			_ = json.NewEncoder(w).Encode(o)
			w.Close()
			why, _ := io.ReadAll(os.NewFile(uintptr(started[0]), "started"))
			_ = to.Encode(report{Started: len(why) == 0, Failed: string(why)})
			close(told)
			_, _ = io.Copy(io.Discard, lines.Buffered())
			_, _ = io.Copy(io.Discard, from)
		} else {
			close(told)
		}
		close(alone)
		killing.Store(true)
		last.Lock()
		defer last.Unlock()
		if !gone {
			killDescendants(first)
		}
	}()
	var status uint32
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break // no child is left, and so no descendant
		}
		if pid == first {
			status = uint32(ws)
			killing.Store(true)
		}
		if killing.Load() {
			killDescendants(first)
		}
	}
	<-told
	last.Lock()
	gone = true
	last.Unlock()
	after(o.After)
	_ = to.Encode(report{Status: &status})
	// The caller, while it lives, reads from the cgroup what the kernel did, and closes
	// the orders. It may die at any moment before that: then nobody else is there to
	// remove the cgroup.
	<-alone
	_, _ = reapCgroups(os.Args[1:])
}

// after runs the command that comes last, for at most a while.
func after(argv []string) {
	if len(argv) == 0 {
		return
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return
	}
	late := time.AfterFunc(30*time.Second, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	defer late.Stop()
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// self is this program, even when its file has been replaced meanwhile.
const self = "/proc/self/exe"

// start waits at the gate and becomes the program.
func start() {
	gate, started := os.NewFile(3, "gate"), os.NewFile(4, "started")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	var o orders
	if json.NewDecoder(gate).Decode(&o) != nil {
		return // the caller has died, or changed its mind
	}
	// The death signal belongs to the main thread, on which this runs.
	err := syscall.Exec(o.Path, o.Argv, os.Environ())
	_, _ = io.WriteString(started, o.Path+": "+err.Error())
}

// killDescendants kills everything that descends from this process. What forks
// meanwhile becomes our child when its parent dies, and is killed when that death
// is told to us. Without /proc only the first process's group is known.
func killDescendants(first int) {
	_ = syscall.Kill(-first, syscall.SIGKILL)
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// root is this machine's.
const root = proc.Root("/")

// descendants lists the processes below one. The kernel's own lists of children
// are not used: of processes that fork meanwhile they may leave some out.
func descendants(of int) []int {
	children := map[int][]int{}
	for pid, s := range root.Processes() {
		children[s.Parent] = append(children[s.Parent], pid)
	}
	found := children[of]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}
