package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/kit/plan"
)

// TestManPages: every command that is not hidden has a page with all its flags, and
// no line that troff would take for a command by chance.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if status, _, errs := call(t, os.Getenv, "man", dir); status != ExitOK {
		t.Fatal(errs)
	}
	macros := map[string]bool{".TH": true, ".SH": true, ".B": true, ".BR": true, ".PP": true, ".TP": true, ".nf": true, ".fi": true, ".RS": true, ".RE": true}
	var check func(cmd *cobra.Command)
	pages := 0
	check = func(cmd *cobra.Command) {
		pages++
		data, err := os.ReadFile(filepath.Join(dir, manName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		text := string(data)
		for line := range strings.Lines(text) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !macros[word] || strings.HasPrefix(line, "'") {
				t.Errorf("%s: %q", manName(cmd), line)
			}
		}
		for _, want := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s", manName(cmd), want)
			}
		}
		if strings.Contains(cmd.Long, "EXIT STATUS") && !strings.Contains(text, ".SH EXIT STATUS") {
			t.Errorf("%s: no exit status", manName(cmd))
		}
		for _, c := range manChildren(cmd) {
			check(c)
		}
	}
	check(newRoot(System()))
	if pages < 20 {
		t.Errorf("%d pages", pages)
	}
	serve, err := os.ReadFile(filepath.Join(dir, "assay-serve.1"))
	if err != nil || !strings.Contains(string(serve), `\fB\-\-api\-key\fR \fIkey\fR`) {
		t.Errorf("%v: --api-key is not in\n%s", err, serve)
	}
}

func TestManEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a-b": `a\-b`, ".TH at the start": `\&.TH at the start`, `C:\x`: `C:\ex`, "it's": `it\(aqs`, "a.b": "a.b", "~/.x": `\(ti/.x`,
	} {
		if got := manEscape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestCompletions: each shell's script is made, and says which program it is for.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if status, out, errs := call(t, os.Getenv, "completion", shell); status != ExitOK || !strings.Contains(out, "assay") {
			t.Errorf("%s: status %d: %s", shell, status, errs)
		}
	}
}

func TestVersionJSON(t *testing.T) {
	defer func(v, c, d string) { Version, commit, date = v, c, d }(Version, commit, date)
	read := func() (v versionInfo) {
		t.Helper()
		status, out, errs := call(t, os.Getenv, "version", "--json")
		if err := json.Unmarshal([]byte(out), &v); status != ExitOK || err != nil {
			t.Fatalf("status %d, %v: %s%s", status, err, out, errs)
		}
		return v
	}
	Version, commit, date = "1.2.3", "abc", "2026-01-02T03:04:05Z"
	if v := read(); v.Version != "1.2.3" || v.Commit != "abc" || v.Date == nil || *v.Date != date || v.DateWhy != "" {
		t.Errorf("%+v", v)
	}
	if _, out, _ := call(t, os.Getenv, "version"); !strings.HasPrefix(out, "assay 1.2.3 (commit abc of 2026-01-02T03:04:05Z, go") {
		t.Error(out)
	}
	commit, date = "", ""
	if v := read(); v.Commit == "" || (v.Date == nil) == (v.DateWhy == "") {
		t.Errorf("%+v", v)
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"Loading model"}`))
	}))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	proxied := func(name string) string {
		return map[string]string{"HTTP_PROXY": "http://127.0.0.1:1", "ASSAY_PORT": port}[name]
	}
	for _, test := range []struct {
		answer, want int
		args         []string
		says         string
	}{
		{200, ExitOK, nil, "ready"},
		{200, ExitOK, []string{"--host", "0.0.0.0"}, "ready"},
		{503, ExitFailed, nil, "503 Service Unavailable: {\"error\":\"Loading model\"}"},
		{200, ExitFailed, []string{"--port", "1"}, "refused"},
		{200, ExitUsage, []string{"--port", "0"}, "--port: 0 is not a port"},
	} {
		status = test.answer
		if got, out, errs := call(t, proxied, append([]string{"health"}, test.args...)...); got != test.want || !strings.Contains(out+errs, test.says) {
			t.Errorf("%v: status %d, want %d with %q: %s%s", test.args, got, test.want, test.says, out, errs)
		}
	}
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	_, port, _ = net.SplitHostPort(slow.Listener.Addr().String())
	start := time.Now()
	if got, _, errs := call(t, proxied, "health"); got != ExitFailed || time.Since(start) > 30*time.Second {
		t.Errorf("a server that hangs: status %d after %v: %s", got, time.Since(start), errs)
	}
}

// TestNoProc: without /proc no engine is started, and one that runs is measured.
func TestNoProc(t *testing.T) {
	started, attached := plan.Defaults(), plan.Defaults()
	started.Arms = []plan.Arm{{Name: "a", Target: "assay", Model: "builtin:seedling"}}
	attached.Arms = []plan.Arm{{Name: "a", URL: "http://127.0.0.1:1"}}
	if err := canStart(&started, filepath.Join(t.TempDir(), "exe")); (exitCode(err) == ExitUnfit) != (runtime.GOOS == "linux") {
		t.Errorf("%v", err)
	}
	if err := canStart(&attached, filepath.Join(t.TempDir(), "exe")); err != nil {
		t.Error(err)
	}
	if err := canStart(&started, os.Args[0]); err != nil {
		t.Error(err)
	}
}
