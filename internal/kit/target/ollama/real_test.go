package ollama_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/target/ollama"
	"assay/internal/kit/target/replay"
)

// The real Ollama, where it is on PATH: started by its command, its model loaded
// before the first run, two runs and a prompt that does not fit, and stopped.
// tools/peers/ollama.sh builds one and calls this.
func TestRealOllama(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the real Ollama is not started")
	}
	program, err := exec.LookPath("ollama")
	if err != nil {
		t.Skipf("no ollama on PATH (%v): tools/peers/ollama.sh builds one", err)
	}
	weights, err := os.ReadFile("../../../../models/seedling/formats/seedling-15m-q8_0.gguf")
	if err != nil {
		t.Skipf("the model in a format that Ollama takes: %v", err)
	}
	dir := t.TempDir()
	env := append(target.Scrub(os.Environ()), "HOME="+dir, "OLLAMA_MODELS="+filepath.Join(dir, "models"), "OLLAMA_NO_CLOUD=1")
	// A store that has the model saves making it, which some versions can't without
	// programs of their own.
	if store := os.Getenv("OLLAMA_MODELS"); sizeOf(filepath.Join(store, "manifests/registry.ollama.ai/library/seedling/latest")) > 0 {
		env = append(env, "OLLAMA_MODELS="+store)
	} else {
		create(t, program, env, weights)
	}

	s := target.Settings{Program: []string{program}, Model: "seedling", Port: freePort(t), Context: 1024, Threads: new(1)}
	c, err := ollama.Adapter{}.Command(s)
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.Start(t.Context(), target.Launch{
		Argv: c.Argv, Env: append(slices.Clone(env), c.Env...), Log: filepath.Join(dir, "serve.log"), Wait: 5 * time.Minute,
	}, target.Options{Adapters: adapters.All, Adapter: "ollama", Model: s.Model, Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tg.Process.Stop(20 * time.Second); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	if tg.Identity.Context == nil || *tg.Identity.Context != 1024 || *tg.Identity.Slots != 1 || *tg.Identity.Format != "Q8_0" {
		t.Errorf("identity %+v", tg.Identity)
	}
	if threads, err := tg.Threads(); err != nil || *threads.Workers != 0 {
		t.Errorf("threads %+v, %v", threads, err)
	}
	counter := counterOf(t)
	for i := range 2 {
		rec, f := replay.Run(t, tg, target.Ask{Prompt: replay.Message, MaxTokens: 24, Temperature: new(0.0), IgnoreEOS: true})
		f.Text, f.Prompt = derive.CountText(counter, rec), derive.CountPrompt(counter, rec.Request, replay.Nonce)
		r := replay.Row(t, rec, f)
		b := replay.Block(t, r, "ollama")
		if r.Status != row.OK || *r.CountCheck.Verdict != "agree-independent" || *r.CompletionTokens != 24 || len(r.IdentitiesFailed) > 0 {
			t.Errorf("run %d: status %s, verdict %s, identities %v, log %s", i, r.Status, *r.CountCheck.Verdict, r.IdentitiesFailed, rec.Log)
		}
		// The whole prompt is counted, also when its beginning comes from the cache.
		if b["model_loaded"] != false || *r.PromptTokens != *f.Prompt.Total {
			t.Errorf("run %d: model_loaded %v, %d prompt tokens, %d by our count; log %s", i, b["model_loaded"], *r.PromptTokens, *f.Prompt.Total, rec.Log)
		}
	}
	rec, f := replay.Run(t, tg, target.Ask{Prompt: replay.Message + strings.Repeat(" word", 1500), MaxTokens: 4})
	r := replay.Row(t, rec, f)
	if r.Status != row.Failed || !strings.Contains(*r.Error, "exceeds the") || r.TTFTMS != nil {
		t.Errorf("a prompt that does not fit: status %s, %v", r.Status, r.Error)
	}
}

// create gives Ollama its model, by a server of its own.
func create(t *testing.T, program string, env []string, weights []byte) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.Command(program, "serve")
	cmd.Env = append(slices.Clone(env), "OLLAMA_HOST="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	post := func(path string, body []byte) error {
		resp, err := http.Post("http://"+address+path, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return nil
	}
	sum := sha256.Sum256(weights)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	var err error
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err = post("/api/blobs/"+digest, weights); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	q, _ := json.Marshal(map[string]any{"model": "seedling", "files": map[string]string{"seedling.gguf": digest}, "stream": false})
	if err := post("/api/create", q); err != nil {
		t.Fatal(err)
	}
}

// sizeOf is a file's size, 0 where there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
