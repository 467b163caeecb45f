package guard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/kit/plan"
	"assay/internal/kit/proc"
	"assay/internal/kit/proc/machines"
)

// eaterVariable makes the test binary a process that eats memory until it ends.
const eaterVariable = "ASSAY_TEST_EAT"

func TestMain(m *testing.M) {
	if os.Getenv(eaterVariable) != "" {
		eat()
	}
	machines.Main(m)
}

// eaten keeps what was taken from the garbage collector.
var eaten [][]byte

// eat takes 2 MiB of memory every 5 ms, 400 MiB a second.
func eat() {
	os.Stdin.Read(make([]byte, 1)) // until it has been put into its cgroup
	for {
		b := make([]byte, 2*mib)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		eaten = append(eaten, b)
		time.Sleep(5 * time.Millisecond)
	}
}

// A process that eats memory in a cgroup with a limit is stopped by the guard
// before the kernel kills it. This needs root and a memory cgroup to make a
// folder in.
func TestStopsBeforeTheKernelDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second and 300 MiB")
	}
	const limit = 300 * mib
	dir, oomKills := limitedCgroup(t, limit)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), eaterVariable+"=1")
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Skip(err)
	}
	limits := []plan.Limit{{Quantity: plan.MemoryAvailable, Value: 150 * mib, Then: plan.Next}}
	tripped := make(chan Trip, 1)
	w := Start(Config{
		Limits: limits, Every: 20 * time.Millisecond,
		Read: Source{Root: "/", PID: cmd.Process.Pid}.Reader(limits),
		Stop: func(trip Trip) {
			cmd.Process.Signal(syscall.SIGTERM)
			tripped <- trip
		},
	})
	fmt.Fprintln(begin, "go")
	err = cmd.Wait()
	report := w.End()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v, not by the guard's signal", err)
	}
	if report.Trip == nil || len(tripped) != 1 || report.Trip.Value >= 150*mib || report.Trip.Value <= 0 {
		t.Errorf("%+v", report)
	}
	if n := oomKills(); n != 0 {
		t.Errorf("the kernel killed %d processes", n)
	}
	t.Logf("%s, after %d readings", report.Trip, report.Readings)
}

// limitedCgroup makes a cgroup with a limit beside the test's own, and a way to
// read how often the kernel killed in it.
func limitedCgroup(t *testing.T, limit int) (dir string, oomKills func() int) {
	t.Helper()
	cg, err := proc.Root("/").MemoryCgroup("self")
	if err != nil {
		t.Skip(err)
	}
	names := map[int][2]string{1: {"memory.limit_in_bytes", "memory.oom_control"}, 2: {"memory.max", "memory.events"}}[cg.Version]
	dir = filepath.Join("/", cg.Dirs[len(cg.Dirs)-1], fmt.Sprintf("assay-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for range 100 { // until the kernel has let go of the process
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s is left behind", dir)
	})
	if err := os.WriteFile(filepath.Join(dir, names[0]), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skip(err)
	}
	return dir, func() int {
		data, err := os.ReadFile(filepath.Join(dir, names[1]))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
				n, _ := strconv.Atoi(f[1])
				return n
			}
		}
		t.Fatalf("%s: no oom_kill", names[1])
		return 0
	}
}
