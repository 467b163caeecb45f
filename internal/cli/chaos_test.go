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
)

// Whoever is killed, and whenever: no engine lives on, and the plan goes on where
// it was, until every cell has its rows and none of them twice. ASSAY_WIDE=1 kills
// 20 times.
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
	for i := range kills {
		c.kill(who[i%len(who)], time.Duration(50+rnd.IntN(1500))*time.Millisecond)
	}
	c.finish()
	t.Logf("%d kills in %d plans, %d of them while the victim lived", kills, c.plans, c.hits)
}

// chaos is a plan that is killed and taken up again.
type chaos struct {
	t      *testing.T
	exe    string
	marker string // in the command line of every engine, and of nothing else
	dir    string // of the rows; empty: the next start begins a new plan
	plan   string
	plans  int
	hits   int
}

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
	if err := kit.Start(); err != nil {
		c.t.Fatal(err)
	}
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
	engines := c.engines()
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
			return
		}
		kit, output := c.start()
		c.done(kit.Wait(), output)
		c.nothingLeft("at the end")
	}
	c.t.Fatal("the plan does not come to its end")
}

// engines are the processes that bear the marker.
func (c *chaos) engines() []int {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		c.t.Fatal(err)
	}
	var out []int
	for _, name := range all {
		line, err := os.ReadFile(name)
		if err == nil && bytes.Contains(line, []byte(c.marker)) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

func (c *chaos) nothingLeft(when string) {
	c.t.Helper()
	var left []int
	for range 500 {
		if left = c.engines(); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.t.Errorf("%s: processes %v live on", when, left)
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
