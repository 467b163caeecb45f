package strata_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/target/replay"
	"assay/internal/kit/target/strata"
)

// Started from a configuration: the connection is refused while the model loads,
// the banner names the address, and the log is the file that the configuration
// names, in which an older start stands.
func TestStart(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, log := filepath.Join(dir, "strata.json"), filepath.Join(dir, "engine.log")
	for name, text := range map[string]string{
		file: fmt.Sprintf(`{"args":["--native","/models/m.gguf","--max-context","65536"],"log":%q}`, log),
		log:  "strata generate: 7 expert-pool workers\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	c, err := strata.Adapter{}.Command(target.Settings{Program: []string{exe}, Model: file, Port: port, Context: 4096})
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "output.log")
	tg, err := target.Start(t.Context(), target.Launch{
		Argv: c.Argv, Env: append(os.Environ(), "STRATA_REPLAYER=1"), Log: output, Wait: time.Minute,
	}, target.Options{Adapters: adapters.All, Adapter: "strata", Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tg.Process.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	}()
	if want := fmt.Sprintf("http://127.0.0.1:%d", port); tg.URL != want || tg.Process.LoadTime < 200*time.Millisecond {
		t.Errorf("at %s, want %s, after %v", tg.URL, want, tg.Process.LoadTime)
	}
	if threads, err := tg.Threads(); err != nil || *threads.Workers != 31 {
		t.Errorf("threads %+v, %v", threads, err)
	}
	rec, f := replay.Run(t, tg, target.Ask{Prompt: replay.Message, MaxTokens: 256})
	r := replay.Row(t, rec, f)
	if r.Status != row.OK || r.CountCheck.Against["log"] != 256 {
		t.Errorf("status %s, counts %v, log %q", r.Status, r.CountCheck.Against, rec.Log)
	}
	if b, err := os.ReadFile(output); err != nil || len(b) == 0 {
		t.Errorf("the banner is not in the output: %q, %v", b, err)
	}
}
