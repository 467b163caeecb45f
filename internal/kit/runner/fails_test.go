package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/kit/row"
)

// failing is a plan whose arm b can be started, and whose arm a has what the test
// puts in.
const failing = `arms:
  - name: a
    command: [$SERVER, $(port)]
    %s
    env: {%s}
  - name: b
    command: [$SERVER, $(port)]
contexts: [64]
max_tokens: 40
repeats: 1
warm_ups: 0
order: blocks
blocks: 1
`

// A start that fails is told in its rows, in time and in words that say what to do,
// and the plan goes on with the other arm.
func TestStartsThatFail(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"another","owned_by":"me"}]}`)
	}))
	t.Cleanup(other.Close)
	taken := other.URL[strings.LastIndexByte(other.URL, ':')+1:]
	const notStarted = "start-failed"
	for name, c := range map[string]struct{ arm, env, kind, want string }{
		"the model is missing":                {"", `BROKEN: "error: no such file: m.gguf"`, notStarted, "ended before it was ready: exit status 1; its last words:\nerror: no such file: m.gguf"},
		"it prints and hangs":                 {"", `MUTE: "1", SAYS: loading`, notStarted, "was not ready within 1.5s; the last look at it: GET /health: status 503"},
		"another server has the port":         {"target: llama-server", `MUTE: "1", SAYS: "listening on ` + other.URL + `"`, notStarted, "is not the one that was started"},
		"the port that it is told is taken":   {"command: [$SERVER, \"" + taken + "\"]", `SAYS: "listening on http://127.0.0.1:$PORT"`, notStarted, "is not the one that was started|address already in use"},
		"it takes another port and says none": {"", `SHIFT: "1"`, notStarted, "was not ready within 1.5s"},
		"the kernel kills it while it loads":  {"", `LOADS: "128"`, notStarted, "ended before it was ready: signal: killed: killed by the kernel for memory: cgroup .*, limit 64.0 MiB, peak 64.0 MiB"},
		"it dies in the middle of its stream": {"", `DIE: $DIR/die`, "target-ended", "ended by itself: signal: killed.*hung up"},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(failing, c.arm, c.env)
			if strings.HasPrefix(c.arm, "command:") {
				text = strings.Replace(text, "    command: [$SERVER, $(port)]\n", "", 1)
			}
			cfg := started(t, text)
			if strings.Contains(c.want, "not ready within 1.5s") {
				cfg.Plan.StartLimit = 1500 * time.Millisecond
			}
			if err := os.WriteFile(filepath.Join(filepath.Dir(cfg.Dir), "die"), []byte("1"), 0o644); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			sum, err := Run(t.Context(), cfg)
			if err == nil || sum.Failed != 1 || sum.OK != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			all := rows(t, cfg.Dir)
			r := all[0]
			if strings.Contains(*r.Error, noLimit) {
				t.Skip(*r.Error)
			}
			if r.Arm != "a" || r.Status != row.Failed || *r.FailKind != c.kind || !regexp.MustCompile(c.want).MatchString(*r.Error) {
				t.Errorf("%s: %s, %s\nwant %s, %s", r.Arm, *r.FailKind, *r.Error, c.kind, c.want)
			}
			clean(t, cfg.Dir)
			noneLeft(t, cfg.Dir)
		})
	}
}

// A server that takes another port and says so is followed.
func TestServerThatTakesAnotherPort(t *testing.T) {
	c := started(t, fmt.Sprintf(failing, "target: tabbyapi", `SHIFT: "1", SAYS: "INFO: Uvicorn running on http://127.0.0.1:$PORT (Press CTRL+C to quit)"`))
	c.Plan.StartLimit = 10 * time.Second
	sum, err := Run(t.Context(), c)
	if err != nil || sum.OK != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
}

// A target that eats memory within a limit is stopped by the guard before the kernel
// kills it; without the guard the kernel does, and the row says so. Root may set such
// limits.
func TestTargetThatEatsMemory(t *testing.T) {
	const limit = 256 << 20
	for name, c := range map[string]struct{ guard, status, kind, want string }{
		"the guard stops it":  {"guard: {memory_available: 120MiB}\n", "stopped", "guard", "memory_available was [0-9.]+MiB, under the limit of 120MiB"},
		"the kernel kills it": {"guard: {memory_available: 1KiB}\n", "failed", "target-ended", "killed by the kernel for memory: cgroup .*, limit 256.0 MiB, peak 25[0-9].[0-9] MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := started(t, `arms: [{name: a, command: [$SERVER, $(port)], env: {EAT: "1", PACE: 50ms}}]
contexts: [64]
max_tokens: 200
repeats: 1
warm_ups: 0
`+c.guard)
			skip := ""
			cfg.Progress = func(e Event) {
				if e.Kind == TargetReady {
					skip = limitMemory(e.Target.Process.Cgroup, e.Target.Process.CgroupWhy, limit)
					if skip != "" {
						_ = syscall.Kill(e.Target.Process.PID, syscall.SIGKILL)
					}
				}
			}
			_, err := Run(t.Context(), cfg)
			if skip != "" {
				t.Skip(skip)
			}
			if err == nil {
				t.Error("no error")
			}
			r := rows(t, cfg.Dir)[0]
			if string(r.Status) != c.status || *r.FailKind != c.kind || !regexp.MustCompile(c.want).MatchString(*r.Error) || r.DecodeTokS != nil {
				t.Errorf("%s, %s: %s; want %s, %s: %s", r.Status, *r.FailKind, *r.Error, c.status, c.kind, c.want)
			}
			t.Log(*r.Error)
			clean(t, cfg.Dir)
			noneLeft(t, cfg.Dir)
		})
	}
}

// limitMemory puts a limit on a cgroup; the text says why it can't.
func limitMemory(group, why string, bytes int) string {
	if group == "" {
		return why
	}
	for _, name := range []string{"memory.limit_in_bytes", "memory.max"} {
		if os.WriteFile(filepath.Join(group, name), fmt.Append(nil, bytes), 0o644) == nil {
			return ""
		}
	}
	return "no limit can be set in " + group
}

// noneLeft sees to it that no process writes to a log in the folder any more.
func noneLeft(t *testing.T, dir string) {
	t.Helper()
	if notes, _ := filepath.Glob(filepath.Join(dir, "*.running")); len(notes) > 0 {
		t.Errorf("notes of running targets are left: %v", notes)
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/2")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir) {
			t.Errorf("%s still writes to %s", fd, to)
		}
	}
}
