package keeper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests start this test binary again: role says as what, and mark is in the
// environment of all that a test starts, so that what is left of it can be found.
const (
	role = "TEST_KEEPER_ROLE"
	mark = "TEST_KEEPER_MARK"
)

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		goleak.VerifyTestMain(m)
	case "caller": // runs a wrapper until it is killed
		p, err := Start(again("wrapper", os.Getenv(mark), os.Stdout, os.Getenv("TEST_KEEPER_NOTE")))
		if err != nil {
			panic(err)
		}
		fmt.Println("runs", p.PID)
		time.Sleep(time.Hour)
	case "wrapper": // a shell script of a wrapper: the engine is its child
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), role+"=daemon")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			panic(err)
		}
		time.Sleep(time.Hour)
	case "daemon": // an engine that leaves its session, its group and its parent
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), role+"=engine")
		c.Stdout = os.Stdout
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
	case "engine":
		fmt.Println("engine", os.Getpid())
		time.Sleep(time.Hour)
	case "tell": // what the program finds: its arguments, environment and files
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			panic(err)
		}
		var open []string
		for _, fd := range fds {
			to, err := os.Readlink("/proc/self/fd/" + fd.Name())
			if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") {
				open = append(open, fd.Name())
			}
		}
		group, _ := syscall.Getpgid(0)
		out, _ := json.Marshal(map[string]any{"args": os.Args[1:], "env": os.Environ(), "open": strings.Join(open, " "), "leads": group == os.Getpid()})
		fmt.Println(string(out))
	case "status":
		os.Exit(3)
	case "eater":
		fmt.Println("eats")
		time.Sleep(200 * time.Millisecond) // until its limit is set
		eat()
	case "eater's boss":
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), role+"=eater")
		c.Stdout = os.Stdout
		if c.Run() != nil {
			os.Exit(1)
		}
	case "deaf":
		time.Sleep(time.Hour)
	}
}

// again is this test binary in a role.
func again(as, marked string, out *os.File, note string) Command {
	return Command{Argv: []string{os.Args[0]}, Env: []string{role + "=" + as, mark + "=" + marked, "PATH=" + os.Getenv("PATH")}, Output: out, Note: note}
}

// started runs the test binary in a role and gives what it prints, line by line.
func started(t *testing.T, as, note string) (*Process, func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	p, err := Start(again(as, t.Name(), w, note))
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	lines := bufio.NewReader(r)
	return p, func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(line)
	}
}

// marked are the processes that have a mark in their environment, but for callers.
func marked(t *testing.T, with string) []int {
	t.Helper()
	var out []int
	for _, pid := range root.PIDs() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && pid != os.Getpid() && slices.Contains(strings.Split(string(env), "\x00"), mark+"="+with) {
			if s, err := root.Stat(pid); err == nil && s.State != 'Z' && s.State != 'X' {
				out = append(out, pid)
			}
		}
	}
	return out
}

// noneLeft waits until nothing with the mark is left.
func noneLeft(t *testing.T, with string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := marked(t, with)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				s, _ := root.Stat(pid)
				t.Errorf("left: %d %+v", pid, s)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
	}
}

// The program finds what it would find when started without a keeper: nothing of
// it is in its arguments, environment and open files.
func TestProgramIsItself(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := again("tell", t.Name(), w, "")
	c.Argv = append(c.Argv, "-m", "a model.gguf", "")
	plain := exec.Command(c.Argv[0], c.Argv[1:]...)
	plain.Env, plain.Stdout, plain.Stderr = c.Env, w, w
	plain.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := plain.Run(); err != nil {
		t.Fatal(err)
	}
	p, err := Start(c)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	lines := bufio.NewReader(r)
	want, _ := lines.ReadString('\n')
	got, _ := lines.ReadString('\n')
	if got != want || !strings.Contains(got, `"leads":true`) || !strings.Contains(got, `["-m","a model.gguf",""]`) {
		t.Errorf("plainly: %sby its keeper: %s", want, got)
	}
	if !p.Clean() || p.Ending() != "exit status 0" {
		t.Errorf("%q", p.Ending())
	}
}

func TestEnding(t *testing.T) {
	p, _ := started(t, "status", "")
	<-p.Done()
	if p.Clean() || p.Ending() != "exit status 3" {
		t.Errorf("%q", p.Ending())
	}
	p, _ = started(t, "deaf", "")
	p.Terminate()
	<-p.Done()
	if p.Ending() != "signal: terminated" {
		t.Errorf("%q", p.Ending())
	}
	p, _ = started(t, "deaf", "")
	_ = syscall.Kill(p.PID, syscall.SIGKILL)
	<-p.Done()
	if p.Ending() != "signal: killed" {
		t.Errorf("%q", p.Ending())
	}
}

func TestDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "note")
	for argv, want := range map[string]string{"": "no program is given", "/no/such/engine": "no such file", plain: plain + ": exec format error"} {
		c := Command{Argv: strings.Fields(argv), Output: os.Stdout, Note: note}
		if _, err := Start(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", argv, err)
		}
		if _, err := os.Stat(note); err == nil {
			t.Errorf("%q: a note is left", argv)
		}
	}
}

// An engine that has left its parent, group and session is killed with the rest,
// and its cgroup and note are gone.
func TestKillReachesAll(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	p, line := started(t, "wrapper", note)
	if !strings.HasPrefix(line(), "engine ") {
		t.Fatal("no engine")
	}
	if _, err := os.Stat(note); err != nil {
		t.Error(err)
	}
	if len(marked(t, t.Name())) < 3 { // keeper, wrapper, engine
		t.Errorf("only %v run", marked(t, t.Name()))
	}
	p.Kill()
	<-p.Done()
	if left := marked(t, t.Name()); len(left) > 0 {
		t.Errorf("%v are left when Done is closed", left)
	}
	for _, path := range append([]string{note}, p.cgroups...) {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// The first process ends by itself and leaves an engine behind.
func TestEndReachesAll(t *testing.T) {
	p, line := started(t, "wrapper", "")
	line()
	_ = syscall.Kill(p.PID, syscall.SIGTERM)
	<-p.Done()
	if left := marked(t, t.Name()); len(left) > 0 || p.Ending() != "signal: terminated" {
		t.Errorf("%v are left, %s", left, p.Ending())
	}
}

// caller starts a caller of its own process and gives its number.
func caller(t *testing.T, with, note string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = []string{role + "=caller", mark + "=" + with, "TEST_KEEPER_NOTE=" + note, "PATH=" + os.Getenv("PATH")}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(out)
}

// The caller, its keeper, its program, or several at once are killed at 20
// moments from before the launch until well after it. Nothing outlives that, and
// Reap finds the rest where the keeper can't.
func TestKilledAtAnyMoment(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	own, _ := makeCgroups(func(string) error { return nil }) // none: there can be none
	defer reapCgroups(own)
	moments := 20
	if testing.Short() {
		moments = 8
	}
	for n := range moments {
		with := fmt.Sprintf("%s-%d", t.Name(), n)
		note := filepath.Join(t.TempDir(), "note")
		c, out := caller(t, with, note)
		delay := time.Duration(rnd.Int64N(int64(150 * time.Millisecond)))
		if n%4 == 0 { // in any case once when all runs
			for range 2 {
				if _, err := out.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		} else {
			time.Sleep(delay)
		}
		if keepers := children(c.Process.Pid); n%4 == 3 && own != nil {
			// Both at one moment: stopped first, so that neither sees the other's end.
			for _, pid := range keepers {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
			_ = c.Process.Kill()
			for _, pid := range keepers {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		} else {
			_ = c.Process.Kill()
		}
		_ = c.Wait()
		if n%4 != 3 {
			noneLeft(t, with)
		}
		killed, err := Reap(note)
		if err != nil {
			t.Errorf("%d, after %v: %v", n, delay, err)
		}
		noneLeft(t, with)
		if _, err := os.Stat(note); err == nil {
			t.Errorf("%d: the note is left", n)
		}
		for _, dir := range own {
			if left, _ := filepath.Glob(fmt.Sprintf("%s/%s%d-*", filepath.Dir(dir), cgroupPrefix, c.Process.Pid)); len(left) > 0 {
				t.Errorf("%d: %v is left", n, left)
			}
		}
		if n%4 == 3 {
			t.Logf("%d, after %v: reaped %v", n, delay, killed)
		}
	}
}

func children(of int) []int {
	var out []int
	for _, pid := range root.PIDs() {
		if s, err := root.Stat(pid); err == nil && s.Parent == of {
			out = append(out, pid)
		}
	}
	return out
}

// A keeper that is killed takes the first process with it, and the caller does
// the rest.
func TestKeeperIsKilled(t *testing.T) {
	p, line := started(t, "wrapper", "")
	line()
	_ = p.keeper.Process.Kill()
	<-p.Done()
	if p.Clean() || !strings.Contains(p.Ending(), "the process that kept it was") {
		t.Errorf("%q", p.Ending())
	}
	if p.Cgroup == "" {
		t.Skip(p.CgroupWhy)
	}
	if left := marked(t, t.Name()); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// The keeper sleeps: it must take nothing from what it keeps.
func TestKeeperSleeps(t *testing.T) {
	p, _ := started(t, "deaf", "")
	time.Sleep(100 * time.Millisecond)
	switches := func() int {
		n := 0
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.keeper.Process.Pid))
		if err != nil || len(tasks) == 0 {
			t.Fatal(err, "no threads")
		}
		for _, f := range tasks {
			data, _ := os.ReadFile(f)
			for line := range strings.Lines(string(data)) {
				if name, v, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "_ctxt_switches") {
					k, _ := strconv.Atoi(strings.TrimSpace(v))
					n += k
				}
			}
		}
		return n
	}
	before := switches()
	time.Sleep(time.Second)
	if n := switches() - before; n > 5 {
		t.Errorf("it woke %d times in a second", n)
	}
}
