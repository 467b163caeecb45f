package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests start this test binary again, as a server of the kind that a test
// needs. ROLE says which.
const role = "TEST_TARGET_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		goleak.VerifyTestMain(m)
	case "kit":
		kitRole()
	default:
		serverRole(os.Getenv(role))
	}
}

// serverRole is a small server with the traits of a real one: it names its
// address, loads for a moment, answers, and ends on SIGTERM or not.
func serverRole(kind string) {
	fmt.Fprintln(os.Stderr, "loading")
	if kind == "dies" {
		fmt.Fprintln(os.Stderr, "the model file is bad: magic 0x00000000 at offset 0")
		os.Exit(1)
	}
	if kind == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	start := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if kind == "never" || time.Since(start) < 50*time.Millisecond {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"message":"Loading model"}}`)
		}
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"m","owned_by":"llamacpp"}]}`)
	})
	mux.HandleFunc("GET /environment", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Join(os.Environ(), "\n"))
	})
	_ = http.Serve(l, mux)
}

func launchRole(t *testing.T, kind string) Launch {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Launch{
		Argv: []string{exe},
		Env:  append(Scrub(os.Environ()), role+"="+kind),
		Log:  filepath.Join(t.TempDir(), "target.log"),
	}
}

// anyServer is an adapter that takes any server for its own.
type anyServer struct{ Base }

func (anyServer) Name() string             { return "any" }
func (anyServer) Recognise(*Probe) bool    { return true }
func (anyServer) Identify(*Probe) Identity { return Identity{Engine: "any"} }

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestStartAndStop(t *testing.T) {
	tg, err := Start(t.Context(), launchRole(t, "server"), Options{Adapters: []Adapter{anyServer{}}})
	if err != nil {
		t.Fatal(err)
	}
	if how, ended := tg.Process.Ended(); ended || !alive(tg.Process.PID) {
		t.Fatalf("ended: %s", how)
	}
	if tg.Process.LoadTime < 50*time.Millisecond {
		t.Errorf("ready after %v: while it was loading", tg.Process.LoadTime)
	}
	if log, err := tg.LogSince(0); err != nil || !strings.HasPrefix(string(log), "loading\nlistening on ") {
		t.Errorf("log %q, %v", log, err)
	}
	if pgid, err := syscall.Getpgid(tg.Process.PID); err != nil || pgid != tg.Process.PID {
		t.Errorf("process group %d, %v: want its own", pgid, err)
	}
	if err := tg.Process.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if alive(tg.Process.PID) {
		t.Error("still there after Stop")
	}
}

func TestStopKillsOneThatDoesNotListen(t *testing.T) {
	tg, err := Start(t.Context(), launchRole(t, "deaf"), Options{Adapters: []Adapter{anyServer{}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tg.Process.Stop(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("error %v", err)
	}
	if alive(tg.Process.PID) {
		t.Error("still there after Stop")
	}
}

func TestStopTellsOfOneThatEnded(t *testing.T) {
	tg, err := Start(t.Context(), launchRole(t, "server"), Options{Adapters: []Adapter{anyServer{}}})
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(tg.Process.PID, syscall.SIGKILL)
	<-tg.Process.done
	if err := tg.Process.Stop(time.Second); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("error %v", err)
	}
}

func TestStartFails(t *testing.T) {
	t.Run("ends at once", func(t *testing.T) {
		_, err := Start(t.Context(), launchRole(t, "dies"), Options{Adapters: []Adapter{anyServer{}}})
		for _, want := range []string{"ended before it was ready: exit status 1", "the model file is bad: magic 0x00000000 at offset 0"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	})
	t.Run("never ready", func(t *testing.T) {
		l := launchRole(t, "never")
		l.Wait = time.Second
		_, err := Start(t.Context(), l, Options{Adapters: []Adapter{anyServer{}}})
		if err == nil || !strings.Contains(err.Error(), "not ready within 1s; the last look at it: GET /health: status 503: Loading model") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("unused"))
		defer cancel()
		ctx, stop := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, stop)
		if _, err := Start(ctx, launchRole(t, "never"), Options{Adapters: []Adapter{anyServer{}}}); err == nil {
			t.Error("no error")
		}
	})
	t.Run("no such program", func(t *testing.T) {
		l := launchRole(t, "server")
		l.Argv = []string{"/no/such/engine"}
		if _, err := Start(t.Context(), l, Options{Adapters: []Adapter{anyServer{}}}); err == nil || !strings.Contains(err.Error(), "the target does not start: ") {
			t.Errorf("error %v", err)
		}
	})
}

// kitRole starts a server and prints its PID, and then waits to be killed.
func kitRole() {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	env := append(Scrub(os.Environ()), role+"=deaf")
	argv := []string{exe}
	if len(os.Args) > 2 { // another command that starts the server
		argv = os.Args[2:]
	}
	tg, err := Start(context.Background(), Launch{Argv: argv, Env: env, Log: os.Args[1], Wait: 30 * time.Second}, Options{Adapters: []Adapter{anyServer{}}})
	if err != nil {
		panic(err)
	}
	fmt.Println(tg.Process.PID)
	select {}
}

// A kit that dies without a word takes its target with it, and one that lives
// keeps it although threads of the Go runtime come and go.
func TestTargetDiesWithTheKit(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kit := exec.Command(exe, filepath.Join(t.TempDir(), "target.log"))
	kit.Env = append(os.Environ(), role+"=kit")
	out, err := kit.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := kit.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if !alive(pid) {
		t.Fatal("the target is gone while its kit lives")
	}
	_ = kit.Process.Kill()
	_ = kit.Wait()
	for deadline := time.Now().Add(5 * time.Second); !gone(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the target outlived its kit")
		}
	}
}

// gone says whether a process that is not our child has ended. It may still wait
// for a parent to take note of it.
func gone(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(data), ") Z ") || strings.Contains(string(data), ") X ")
}

// A folder with the note of a target whose kit lives is not to be written to, and
// one whose kit has ended has no note.
func TestReap(t *testing.T) {
	l := launchRole(t, "server")
	dir := filepath.Join(t.TempDir(), "rows [1]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Log = filepath.Join(dir, "target.log")
	tg, err := Start(t.Context(), l, Options{Adapters: []Adapter{anyServer{}}})
	if err != nil {
		t.Fatal(err)
	}
	if killed, err := Reap(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d) is still at work here", os.Getpid())) || killed != nil || !alive(tg.Process.PID) {
		t.Errorf("%v, %v", killed, err)
	}
	if err := tg.Process.Stop(5 * time.Second); err != nil {
		t.Error(err)
	}
	if killed, err := Reap(dir); err != nil || killed != nil {
		t.Errorf("%v, %v", killed, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 { // the log
		t.Errorf("%v, %v", entries, err)
	}
}

func TestScrub(t *testing.T) {
	got := Scrub([]string{"PATH=/bin", "ASSAY_THREADS=64", KeyVariable + "=secret", "LLAMA_ARG_CTX_SIZE=1", "LLAMA_OTHER=1"})
	if strings.Join(got, " ") != "PATH=/bin LLAMA_OTHER=1" {
		t.Errorf("%q", got)
	}
}

func TestEnvThatMatters(t *testing.T) {
	got := EnvThatMatters([]string{"HOME=/root", "GOMAXPROCS=4", "OMP_NUM_THREADS=2", "LLAMA_API_KEY=secret", "GGML_X=a=b", "OMPX=1"})
	want := map[string]string{"GOMAXPROCS": "4", "OMP_NUM_THREADS": "2", "GGML_X": "a=b"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
