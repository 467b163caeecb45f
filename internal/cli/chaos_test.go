package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/kit/proc"
)

// Whoever is killed, and whenever: no engine lives on, nor its keeper, nor its
// cgroup, and the plan goes on where it was, until every cell has its rows and none
// of them twice. ASSAY_WIDE=1 kills 20 times.
func TestNothingOutlivesAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("whole programs")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	kills := 3
	if os.Getenv("ASSAY_WIDE") == "1" {
		kills = 20
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("ASSAY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("ASSAY_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := newChaos(t, fmt.Sprintf("chaos-%d", seed))
	who := []string{"kit", "target", "both"}
	tries := 0
	for ; c.hits < kills && tries < 4*kills; tries++ { // one that comes when the plan is over kills nobody
		c.kill(who[c.hits%len(who)], time.Duration(50+rnd.IntN(2500))*time.Millisecond)
	}
	c.finish()
	if c.hits < kills {
		t.Errorf("in %d tries only %d of %d kills found their victim alive", tries, c.hits, kills)
	}
	t.Logf("%d kills of a living kit or target, in %d tries and %d plans; %d rows of status ok, %d of others; %d were killed before they had a keeper", c.hits, tries, c.plans, c.ok, c.other, c.noted)
}

// chaos is a plan that is killed and taken up again.
type chaos struct {
	t      *testing.T
	exe    string
	marker string // in the command line of every engine, and in the environment of all that is started
	dir    string // of the rows; empty: the next start begins a new plan
	plan   string
	kits   []int // process numbers, which are in the names of the cgroups that they make

	plans, hits, noted int
	ok, other          int // rows of complete plans
}

// markVariable is inherited by everything that a kit starts.
const markVariable = "CHAOS_MARK"

func newChaos(t *testing.T, marker string) *chaos {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{t: t, exe: filepath.Join(t.TempDir(), "assay"), marker: marker}
	if err := os.Link(own, c.exe); err != nil { // another file system
		copyFile(t, own, c.exe)
	}
	c.plan = filepath.Join(t.TempDir(), "plan.yaml")
	text := fmt.Sprintf(`arms:
  - name: $(arm)
    flags: [--threads, 1, --alias, %s]
    matrix: {arm: [a, b]}
contexts: [32, 48]
max_tokens: 8
repeats: 4
blocks: 2
order: blocks
idle: 150ms
guard: {memory_available: 64MiB, run_time: 1m}
`, marker)
	if err := os.WriteFile(c.plan, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

func copyFile(t *testing.T, from, to string) {
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// start begins the plan or goes on with it.
func (c *chaos) start() (kit *exec.Cmd, output *bytes.Buffer) {
	args := []string{"run", "--resume", c.dir}
	if c.dir == "" {
		c.plans++
		c.dir = filepath.Join(c.t.TempDir(), fmt.Sprintf("rows-%d", c.plans))
	}
	if _, err := os.Stat(filepath.Join(c.dir, "plan.json")); errors.Is(err, os.ErrNotExist) {
		args = []string{"run", c.plan, "--out", c.dir} // killed before it had begun, or new
	}
	kit, output = exec.Command(c.exe, args...), new(bytes.Buffer)
	kit.Stdout, kit.Stderr = output, output
	kit.Env = append(os.Environ(), markVariable+"="+c.marker)
	if err := kit.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.kits = append(c.kits, kit.Process.Pid)
	return kit, output
}

// kill lets the plan run for a while and kills.
func (c *chaos) kill(who string, after time.Duration) {
	c.t.Helper()
	kit, output := c.start()
	ended := make(chan error, 1)
	go func() { ended <- kit.Wait() }()
	select {
	case err := <-ended:
		c.done(err, output)
		return
	case <-time.After(after):
	}
	engines := c.bearers("cmdline")
	if who != "kit" {
		for _, pid := range engines {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if who != "target" {
		_ = kit.Process.Kill()
	}
	if who != "target" || len(engines) > 0 {
		c.hits++
	}
	select {
	case err := <-ended:
		if who == "target" {
			c.done(err, output)
		}
	case <-time.After(2 * time.Minute):
		_ = kit.Process.Kill()
		c.t.Fatalf("killed the %s after %v: the kit hangs\n%s", who, after, output)
	}
	c.nothingLeft(fmt.Sprintf("killed the %s after %v", who, after))
}

// done takes note of a try that ended by itself: a plan that is complete is looked
// at, one that is not goes on.
func (c *chaos) done(err error, output *bytes.Buffer) {
	c.t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.As(err, &exit) && exit.ExitCode() == ExitWithheld:
		c.check()
		c.dir = ""
	case errors.As(err, &exit) && exit.ExitCode() == ExitFailed:
	default:
		c.t.Fatalf("the kit: %v\n%s", err, output)
	}
}

// finish goes on until the plan is complete.
func (c *chaos) finish() {
	c.t.Helper()
	for range 5 {
		if c.dir == "" {
			if left := c.cgroups(c.kits...); len(left) > 0 {
				c.t.Errorf("at the end: cgroups %v are left", left)
			}
			return
		}
		kit, output := c.start()
		c.done(kit.Wait(), output)
		c.nothingLeft("at the end")
	}
	c.t.Fatal("the plan does not come to its end")
}

// bearers are the processes that have the marker in a file of theirs in /proc:
// cmdline or environ.
func (c *chaos) bearers(where string) []int {
	all, err := filepath.Glob("/proc/[0-9]*/" + where)
	if err != nil {
		c.t.Fatal(err)
	}
	var out []int
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, []byte(c.marker)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// cgroups are the folders of those that kits made for their targets. A kit makes
// them below its own group, which is the test's.
func (c *chaos) cgroups(kits ...int) []string {
	const root = proc.Root("/")
	var out []string
	for _, of := range []func(string) (proc.Cgroup, error){root.MemoryCgroup, root.UnifiedCgroup} {
		own, err := of("self")
		if err != nil {
			continue // there is none of this kind, for kits neither
		}
		for _, pid := range kits {
			more, err := filepath.Glob(filepath.Join("/", own.Dirs[0], fmt.Sprintf("assay-target-%d-*", pid)))
			if err != nil {
				c.t.Fatal(err)
			}
			out = append(out, more...)
		}
	}
	return out
}

// nothingLeft waits for the end of all that a kit started, which has ended itself.
func (c *chaos) nothingLeft(when string) {
	c.t.Helper()
	var left []int
	var groups []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		left, groups = c.bearers("environ"), c.cgroups(c.kits[len(c.kits)-1])
		if len(left) == 0 && (len(groups) == 0 || c.beforeKeeper()) {
			return
		}
	}
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.t.Errorf("%s: processes %v live on, cgroups %v are left", when, left, groups)
}

// beforeKeeper says whether the kit was killed after it had made a cgroup and before
// it had a keeper, by its note. Then the next try removes the cgroup, in which nothing
// ever was.
func (c *chaos) beforeKeeper() bool {
	if c.dir == "" {
		return false
	}
	notes, _ := filepath.Glob(filepath.Join(c.dir, "*.running"))
	for _, file := range notes {
		var n struct {
			Keeper *struct{} `json:"keeper"`
		}
		data, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(data, &n) != nil || n.Keeper != nil {
			return false
		}
	}
	if len(notes) > 0 {
		c.noted++
	}
	return len(notes) > 0
}

// check holds the rows of a complete plan against what it asked for.
func (c *chaos) check() {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "rows.jsonl"))
	if err != nil {
		c.t.Fatal(err)
	}
	ok := map[string]int{} // measured rows by cell and repeat
	for line := range strings.Lines(string(raw)) {
		var r struct {
			Cell, Phase, Status string
			Repeat              int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			c.t.Fatal(err)
		}
		if r.Status == "ok" {
			c.ok++
		} else {
			c.other++
		}
		if r.Phase == "measure" && r.Status == "ok" {
			ok[fmt.Sprintf("%s/%d", r.Cell, r.Repeat)]++
		}
	}
	for _, arm := range []string{"a", "b"} {
		for _, ctx := range []string{"32", "48"} {
			for repeat := range 4 {
				if key := fmt.Sprintf("%s/%s/%d", arm, ctx, repeat); ok[key] != 1 {
					c.t.Errorf("%s: %d rows", key, ok[key])
				}
				delete(ok, fmt.Sprintf("%s/%s/%d", arm, ctx, repeat))
			}
		}
	}
	if len(ok) > 0 {
		c.t.Errorf("rows that the plan did not ask for: %v", ok)
	}
	if out, err := exec.Command(c.exe, "verify", c.dir).CombinedOutput(); err != nil {
		c.t.Errorf("verify: %v\n%s", err, out)
	}
	if notes, _ := filepath.Glob(filepath.Join(c.dir, "*.running")); len(notes) > 0 {
		c.t.Errorf("notes of running targets are left: %v", notes)
	}
}
