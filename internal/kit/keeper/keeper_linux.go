package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// system is the caller's side.
type system struct {
	note     string
	cgroups  []string // folders of those that are its own
	keeper   *exec.Cmd
	orders   *os.File // closed: everything is killed
	closing  sync.Once
	reports  *json.Decoder
	kills    kills // of the kernel, before the start
	asked    bool  // the end was asked for; guarded by mu
	mu       sync.Mutex
	shutDown func() // closes what is left open
}

// Start runs a program and returns when it has begun. On an error nothing is left
// running.
func Start(c Command) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("no program is given")
	}
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{})}
	p.note = c.Note
	planned := func(dir string) error {
		p.cgroups = append(p.cgroups, dir)
		return p.write(nil, nil)
	}
	if p.cgroups, err = makeCgroups(planned); err != nil {
		p.CgroupWhy = "no cgroup of its own could be made: " + err.Error()
	}
	if err := p.start(c, path); err != nil {
		p.abort()
		return nil, err
	}
	go p.wait()
	return p, nil
}

// start is the launch up to the moment when the program runs.
func (p *Process) start(c Command, path string) error {
	if err := p.write(nil, nil); err != nil {
		return err
	}
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ordersR.Close()
	p.orders = ordersW
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reportW.Close()
	p.shutDown = func() { reportR.Close() }
	p.reports = json.NewDecoder(reportR)

	k := exec.Command(self)
	k.Args = append([]string{keeperName}, p.cgroups...)
	k.Env, k.Stdout, k.Stderr = c.Env, c.Output, c.Output
	k.ExtraFiles = []*os.File{ordersR, reportW}
	k.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := k.Start(); err != nil {
		return fmt.Errorf("the target's keeper: %w", err)
	}
	p.keeper = k
	reportW.Close() // so that the keeper's end is told

	r, err := p.report()
	if err != nil {
		return err
	}
	p.PID = r.PID
	for i, dir := range p.cgroups {
		if err := enterCgroup(dir, p.PID); err != nil && i == 0 { // without the others it has no pressure of its own
			p.CgroupWhy = "it could not be put into a cgroup of its own: " + err.Error()
			break
		}
	}
	if p.CgroupWhy == "" {
		p.Cgroup = p.cgroups[0]
	}
	if err := p.write(&k.Process.Pid, &p.PID); err != nil {
		return err
	}
	p.kills = countKills(p.PID)
	p.Began = time.Now()
	if err := json.NewEncoder(p.orders).Encode(orders{path, c.Argv, c.After}); err != nil {
		return fmt.Errorf("the target's keeper: %w", err)
	}
	_, err = p.report()
	return err
}

// report reads the keeper's next line.
func (p *Process) report() (report, error) {
	var r report
	if err := p.reports.Decode(&r); err != nil {
		return r, fmt.Errorf("the target's keeper has ended: %w", err)
	}
	if r.Failed != "" {
		return r, errors.New(r.Failed)
	}
	return r, nil
}

// abort takes back a launch that failed.
func (p *Process) abort() {
	p.release()
	if p.keeper != nil {
		_ = p.keeper.Wait() // it kills what it has, and ends
	}
	p.clear()
}

// release lets the keeper kill everything.
func (p *Process) release() {
	p.closing.Do(func() {
		if p.orders != nil {
			p.orders.Close()
		}
	})
}

// wait is there until all has ended.
func (p *Process) wait() {
	var r report
	err := p.reports.Decode(&r)
	if err != nil || r.Status == nil {
		// The keeper was killed. Its death has killed the first process.
		_ = p.keeper.Wait()
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		p.ending = "signal: killed, since the process that kept it was"
	} else {
		ws := syscall.WaitStatus(*r.Status)
		p.ending, p.clean = inWords(ws), ws == 0
		if !p.wasAsked() {
			p.ending += p.kills.since(ws)
		}
	}
	p.release()
	_ = p.keeper.Wait() // where that was done above it is an error, and no news
	p.clear()
	close(p.done)
}

// clear removes what a launch leaves on the disk and in the kernel.
func (p *Process) clear() {
	if p.shutDown != nil {
		p.shutDown()
	}
	if _, err := reapCgroups(p.cgroups); err != nil {
		return // the note stays: the next Reap tries again
	}
	if p.note != "" {
		os.Remove(p.note)
	}
}

// inWords is a wait status as package os writes it.
func inWords(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		s := "signal: " + ws.Signal().String()
		if ws.CoreDump() {
			s += " (core dumped)"
		}
		return s
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// Root is the process from which all that the program starts descends.
func (p *Process) Root() int { return p.keeper.Process.Pid }

// Terminate asks the first process to end.
func (p *Process) Terminate() {
	p.ask()
	_ = syscall.Kill(p.PID, syscall.SIGTERM)
}

// Kill kills everything. Done is closed when that is done.
func (p *Process) Kill() {
	p.ask()
	p.release()
}

// ask keeps in mind that an end was asked for: the kernel is not to blame then.
func (p *Process) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
}

func (p *Process) wasAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}
