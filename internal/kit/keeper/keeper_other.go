//go:build !linux

package keeper

import (
	"os/exec"
	"time"
)

// system is the program itself: it has no keeper here.
type system struct{ cmd *exec.Cmd }

// Start runs a program.
func Start(c Command) (*Process, error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, c.Output, c.Output
	p := &Process{done: make(chan struct{}), Began: time.Now(), CgroupWhy: "only Linux has cgroups"}
	p.cmd = cmd
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.PID = cmd.Process.Pid
	go func() {
		p.ending, p.clean = "exit status 0", true
		if err := cmd.Wait(); err != nil {
			p.ending, p.clean = err.Error(), false
		}
		close(p.done)
	}()
	return p, nil
}

// Root is the process from which all that the program starts descends.
func (p *Process) Root() int { return p.PID }

// Terminate ends the program.
func (p *Process) Terminate() { p.Kill() }

// Kill kills the program.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Reap does nothing: no note is written here.
func Reap(string) ([]Killed, error) { return nil, nil }
