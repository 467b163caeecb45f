//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"assay/internal/engine/machine"
	"assay/internal/kit/stats"
)

var columnNames = []string{"huge", "4k", "user", "busy"}

// runner is one engine on one number of threads in a group.
type runner struct {
	*child
	ours    bool
	threads int
}

// run measures a group.
func (g group) run(ctx context.Context, p *peer, pairs int) (cells []*cell, err error) {
	context := 0
	for _, t := range g.tests {
		context = max(context, t.N+t.Depth)
	}
	var all []runner
	defer func() {
		for _, r := range all {
			err = errors.Join(err, r.close())
		}
	}()
	for _, n := range g.threads {
		ours, err := g.startOurs(ctx, n, context)
		if err != nil {
			return nil, err
		}
		all = append(all, runner{ours, true, n})
		theirs, err := g.startPeer(ctx, p, n, context)
		if err != nil {
			return nil, err
		}
		all = append(all, runner{theirs, false, n})
	}
	known := []int{os.Getpid()}
	for _, r := range all {
		known = append(known, r.pid())
	}
	if g.column == "busy" {
		neighbour, err := startNeighbour(ctx)
		if err != nil {
			return nil, err
		}
		defer func() {
			_ = neighbour.Kill()    // it may have ended
			_, _ = neighbour.Wait() // "signal: killed"
		}()
		known = append(known, neighbour.Pid)
	}
	reader, err := machine.NewReader(512<<20, g.column != "4k")
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for _, t := range g.tests {
		more, err := g.test(ctx, t, all, known, pairs, reader)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		cells = append(cells, more...)
	}
	return cells, nil
}

// test measures one test with all runners in turn. known are the processes
// that belong to the measurement.
func (g group) test(ctx context.Context, t test, all []runner, known []int, pairs int, reader *machine.Reader) ([]*cell, error) {
	cells := map[int]*cell{}
	var out []*cell
	for _, n := range g.threads {
		c := &cell{File: g.name, Column: g.column, Threads: n, Test: t}
		cells[n], out = c, append(out, c)
	}
	warm := test{t.Kind, min(t.N, 512), t.Depth} // of a prompt a batch of either
	for _, r := range all {
		if _, err := r.time(warm); err != nil {
			return nil, err
		}
	}
	meter := newMeter(known)
	for i := range pairs {
		order := slices.Clone(all)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range order {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			time.Sleep(30 * time.Millisecond) // until the other's threads have stopped spinning
			ns, err := r.time(t)
			if err != nil {
				return nil, err
			}
			c := cells[r.threads]
			if r.ours {
				c.Ours = append(c.Ours, ns)
			} else {
				c.Theirs = append(c.Theirs, ns)
			}
		}
		// What the machine gives changes within seconds, so each pair has its own.
		for _, n := range g.threads {
			c := cells[n]
			c.Read = append(c.Read, middle(reader.Read(ctx, n, 5).Passes))
			c.Peak = append(c.Peak, middle(machine.Arithmetic(ctx, n, 5).Passes))
		}
	}
	foreign, steal := meter.shares()
	for _, r := range all {
		c := cells[r.threads]
		huge, rss := hugeOf(r.pid())
		c.Foreign, c.Steal = foreign, steal
		if r.ours {
			c.OursHuge, c.OursRSS, c.Model, c.OursInfo = huge, rss, r.hello.Model, r.hello.info()
		} else {
			c.TheirsHuge, c.TheirsRSS, c.TheirsInfo = huge, rss, r.hello.info()
		}
	}
	return out, nil
}

// middle is the median; 0 where a pass was not made.
func middle(passes []float64) float64 {
	s, _ := stats.Summarize(passes)
	return s.Median
}

func (g group) startOurs(ctx context.Context, threads, context int) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startChild(ctx, g.pages(self, "-child-engine", g.file, strconv.Itoa(threads), strconv.Itoa(context)), nil)
}

func (g group) startPeer(ctx context.Context, p *peer, threads, context int) (*child, error) {
	mode := "none"
	var env []string
	switch g.column {
	case "huge", "busy":
		env = []string{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}
	case "user":
		mode = "auto"
	}
	// llama.cpp wants contexts in steps of 256.
	return startChild(ctx, g.pages(p.driver, g.file, strconv.Itoa(threads), strconv.Itoa((context+255)/256*256), mode, "1"), env)
}

// pages is a command line, with huge pages forbidden in column 4k.
func (g group) pages(argv ...string) []string {
	if g.column != "4k" {
		return argv
	}
	self, _ := os.Executable() // startOurs has asked before
	return append([]string{self, "-child-plain-pages"}, argv...)
}

// startNeighbour starts a process that keeps the first processor busy.
func startNeighbour(ctx context.Context) (*os.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, "-child-spin", "0")
	c.Stderr = os.Stderr
	c.SysProcAttr = dieWithParent()
	if err := c.Start(); err != nil {
		return nil, err
	}
	return c.Process, nil
}
