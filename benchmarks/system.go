//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent kills a child when this program dies, however it does.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// execPlainPages becomes the program of argv, to which huge pages are
// forbidden: the kernel keeps that over exec, and madvise does not lift it.
func execPlainPages(argv []string) error {
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbidding huge pages: %w", err)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, argv, os.Environ())
}

// spinChild keeps one processor busy until it is killed.
func spinChild(processor string) error {
	n, err := strconv.Atoi(processor)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(n)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	for x := uint64(1); x != 0; { // an odd number stays odd
		x *= 0x9e3779b97f4a7c15
	}
	return nil
}

// ticks are processor times of the whole machine, in hundredths of a second.
type ticks struct {
	busy, steal, all int64
	at               time.Time
}

// readTicks reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal.
func readTicks() (ticks, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	t := ticks{at: time.Now()}
	for i, s := range strings.Fields(line)[1:] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		switch i {
		case 0, 1, 2, 5, 6:
			t.busy += n
			t.all += n
		case 7:
			t.steal += n
			t.all += n
		case 3, 4:
			t.all += n
		}
	}
	return t, nil
}

// idleShare is how much of one processor others may use before a measurement.
const idleShare = 0.1

// idle watches the machine for two seconds and says what keeps it busy.
func idle(ctx context.Context) error {
	a, err := readTicks()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Second):
	}
	b, err := readTicks()
	if err != nil {
		return err
	}
	used := float64(b.busy-a.busy) / 100 / b.at.Sub(a.at).Seconds()
	stolen := float64(b.steal-a.steal) / 100 / b.at.Sub(a.at).Seconds()
	if used > idleShare || stolen > idleShare {
		return fmt.Errorf("the machine is busy: programs use %.2f processors, other guests of the host %.2f", used, stolen)
	}
	return nil
}

// meter tells how much processor time others used while a test ran.
type meter struct {
	start ticks
	own   int64
	known []int // processes that are no others
}

func newMeter(known []int) *meter {
	m := &meter{known: known}
	m.start, _ = readTicks() // shares looks for a zero
	m.own = m.ownTicks()
	return m
}

// ownTicks is the time of the known processes, in hundredths of a second.
func (m *meter) ownTicks() (n int64) {
	for _, pid := range m.known {
		n += ticksOf(pid)
	}
	return n
}

// shares are how many processors other programs used on average, and how many
// the host gave to other guests; nil where that can't be read.
func (m *meter) shares() (foreign, steal *float64) {
	now, err := readTicks()
	seconds := now.at.Sub(m.start.at).Seconds()
	if err != nil || m.start.all == 0 || seconds <= 0 {
		return nil, nil
	}
	f := max(float64(now.busy-m.start.busy-(m.ownTicks()-m.own))/100/seconds, 0)
	s := float64(now.steal-m.start.steal) / 100 / seconds
	return &f, &s
}

// ticksOf is user and system time of a process.
func ticksOf(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return user + system
}

// hugeOf reads how much of a process's memory lies in huge pages, and how much
// is resident; both in bytes, nil where that can't be read.
func hugeOf(pid int) (huge, rss *int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		n <<= 10
		switch name {
		case "AnonHugePages":
			huge = &n
		case "Rss":
			rss = &n
		}
	}
	return huge, rss
}
