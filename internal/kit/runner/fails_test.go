package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	for name, c := range map[string]struct{ arm, env, want string }{
		"the model is missing":                {"", `BROKEN: "error: no such file: m.gguf"`, "ended before it was ready: exit status 1; its last words:\nerror: no such file: m.gguf"},
		"it prints and hangs":                 {"", `MUTE: "1", SAYS: loading`, "was not ready within 1.5s; the last look at it: GET /health: status 503"},
		"another server has the port":         {"target: llama-server", `MUTE: "1", SAYS: "listening on ` + other.URL + `"`, "is not the one that was started"},
		"it takes another port and says none": {"", `SHIFT: "1"`, "was not ready within 1.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := started(t, fmt.Sprintf(failing, c.arm, c.env))
			cfg.Plan.StartLimit = 1500 * time.Millisecond
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
			if r.Arm != "a" || r.Status != row.Failed || *r.FailKind != "start-failed" || !strings.Contains(*r.Error, c.want) {
				t.Errorf("%s: %s, %s\nwant %s", r.Arm, *r.FailKind, *r.Error, c.want)
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
		"the guard stops it":  {"guard: {memory_available: 120MiB}\n", "stopped", "guard", "memory_available was "},
		"the kernel kills it": {"guard: {memory_available: 1KiB}\n", "failed", "target-ended", "killed by the kernel for memory: cgroup "},
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
			if string(r.Status) != c.status || *r.FailKind != c.kind || !strings.Contains(*r.Error, c.want) || r.DecodeTokS != nil {
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
