package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"assay/internal/gguf"
	"assay/models/seedling"
)

// stores makes a home with a model that runs and one that does not in the hub's
// cache, a model of Ollama's, and a file that is none, and gives its environment.
func stores(t *testing.T) func(string) string {
	t.Helper()
	home := t.TempDir()
	write := func(rel string, data []byte) {
		path := filepath.Join(home, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := gguf.NewBuilder()
	b.Set("general.architecture", "rwkv99")
	b.Tensor("token_embd.weight", gguf.Q8_0, []uint64{32, 2}, make([]byte, 68))
	var strange bytes.Buffer
	if _, err := b.WriteTo(&strange); err != nil {
		t.Fatal(err)
	}
	hub := ".cache/huggingface/hub/models--"
	write(hub+"org--seedling-GGUF/snapshots/abc/seedling-IQ3_S.gguf", seedling.GGUF)
	write(hub+"org--strange/snapshots/abc/strange-Q8_0.gguf", strange.Bytes())
	write(hub+"org--broken/snapshots/abc/broken.gguf", []byte("GGUF and no more"))
	digest := fmt.Sprintf("%064d", 5)
	write(".ollama/models/blobs/sha256-"+digest, seedling.GGUF)
	write(".ollama/models/manifests/registry.ollama.ai/library/seedling/latest",
		[]byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:`+digest+`"}]}`))
	write(".ollama/models/manifests/registry.ollama.ai/library/bad/latest", []byte("no JSON"))
	return func(name string) string { return map[string]string{"HOME": home}[name] }
}

// call runs a command in a world of its own.
func call(t *testing.T, getenv func(string) string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := System()
	env.Args, env.Getenv, env.Stdin, env.Stdout, env.Stderr = args, getenv, strings.NewReader(""), &out, &errs
	return Main(env), out.String(), errs.String()
}

func TestModels(t *testing.T) {
	getenv := stores(t)
	status, out, _ := call(t, getenv, "models", "--json", "-c", "1024")
	if status != ExitOK {
		t.Fatalf("status %d:\n%s", status, out)
	}
	var list modelList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		architecture, quantisation, why string
		canRun                          bool
	}
	want := map[string]seen{
		"builtin:seedling":        {"qwen3moe", "IQ3_S", "", true},
		"org/seedling-GGUF:IQ3_S": {"qwen3moe", "IQ3_S", "", true},
		"org/strange:Q8_0":        {"rwkv99", "Q8_0", "rwkv99", false},
		"org/broken/broken.gguf":  {"-", "-", "the file can't be read", false},
		"seedling:latest":         {"qwen3moe", "IQ3_S", "", true},
	}
	for _, m := range list.Models {
		w, ok := want[m.Name]
		if !ok {
			t.Errorf("%s: not expected", m.Name)
			continue
		}
		delete(want, m.Name)
		text := func(s *string) string {
			if s == nil {
				return "-"
			}
			return *s
		}
		if text(m.Architecture) != w.architecture || text(m.Quantisation) != w.quantisation || m.CanRun != w.canRun || !strings.Contains(m.CanRunWhy, w.why) {
			t.Errorf("%s: %+v", m.Name, m)
		}
		if m.CanRun && (m.Memory == nil || *m.Memory <= 0) || !m.CanRun && (m.Memory != nil || m.FitsWhy == "") {
			t.Errorf("%s: memory %v, %q", m.Name, m.Memory, m.FitsWhy)
		}
		if (m.Fits == nil) == (m.FitsWhy == "") {
			t.Errorf("%s: fits %v, because %q", m.Name, m.Fits, m.FitsWhy)
		}
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	if len(list.Problems) != 1 || !strings.Contains(list.Problems[0].What, "bad/latest") || len(list.Places) < 5 {
		t.Errorf("problems %+v, places %+v", list.Problems, list.Places)
	}

	status, out, errs := call(t, getenv, "models")
	if status != ExitOK || strings.Count(out, "\n") != 8 || !strings.Contains(errs, "bad/latest") {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
}

// TestModelByName: what -m takes is a path, or a name of a store.
func TestModelByName(t *testing.T) {
	getenv := stores(t)
	for _, test := range []struct {
		name   string
		status int
		says   string
	}{
		{"org/seedling-GGUF", ExitOK, "qwen3moe"},
		{"org/seedling-gguf:iq3_s", ExitOK, "qwen3moe"},
		{"seedling-IQ3_S.gguf", ExitOK, "qwen3moe"},
		{"ollama:seedling", ExitOK, "qwen3moe"},
		{"hf:org/strange", ExitOK, "rwkv99"},
		{"org/nothing", ExitFailed, "stat org/nothing: no such file or directory, and no store of models here has one of that name (assay models lists what they have: 4)"},
		{"./org/seedling-GGUF", ExitFailed, "stat ./org/seedling-GGUF: no such file or directory"},
	} {
		status, out, errs := call(t, getenv, "inspect", "--tensors=false", test.name)
		if status != test.status || !strings.Contains(out+errs, test.says) {
			t.Errorf("%s: status %d, want %d with %q:\n%s%s", test.name, status, test.status, test.says, out, errs)
		}
	}
	status, out, errs := call(t, getenv, "tokenize", "-m", "ollama:seedling", "--json", "hello")
	if status != ExitOK || !strings.Contains(out, "[") {
		t.Errorf("tokenize: status %d\n%s%s", status, out, errs)
	}
	status, out, errs = call(t, getenv, "run", "-m", "ollama:seedling", "--dry-run")
	if status != ExitOK || !strings.Contains(out, "sha256-") || !strings.Contains(out, "assay-ollama-seedling") {
		t.Errorf("run: status %d\n%s%s", status, out, errs)
	}
	if status, _, errs = call(t, getenv, "run", "-m", "org/nothing", "--out", filepath.Join(t.TempDir(), "rows")); status != ExitUsage || !strings.Contains(errs, "org/nothing") {
		t.Errorf("run of nothing: status %d: %s", status, errs)
	}
	status, out, _ = call(t, getenv, cobra.ShellCompRequestCmd, "serve", "-m", "org/s")
	if status != ExitOK || !strings.Contains(out, "org/seedling-GGUF:IQ3_S\n") {
		t.Errorf("completion: status %d\n%s", status, out)
	}
}

func TestAmbiguousModel(t *testing.T) {
	home := t.TempDir()
	for _, q := range []string{"Q4_0", "Q8_0"} {
		path := filepath.Join(home, ".lmstudio/models/org/two", "two-"+q+".gguf")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, seedling.GGUF, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, _, errs := call(t, func(n string) string { return map[string]string{"HOME": home}[n] }, "serve", "-m", "org/two")
	if status != ExitUsage || !strings.Contains(errs, "lmstudio:org/two:Q4_0, lmstudio:org/two:Q8_0") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestModelsInPlans: a plan names models as -m does, and the paths of those stand in
// the plan that is kept with the rows.
func TestModelsInPlans(t *testing.T) {
	getenv := stores(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("arms:\n  - {name: a, model: org/seedling-GGUF}\n  - {name: b, model: \"ollama:seedling\"}\n  - {name: c, url: http://127.0.0.1:1, tokenizer: seedling-IQ3_S}\n")
	status, out, errs := call(t, getenv, "run", file, "--dry-run", "--json")
	if status != ExitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	var got struct {
		Plan struct {
			Arms []struct{ Model, Tokenizer string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for i, end := range []string{"/snapshots/abc/seedling-IQ3_S.gguf", fmt.Sprintf("/blobs/sha256-%064d", 5), "/snapshots/abc/seedling-IQ3_S.gguf"} {
		if a := got.Plan.Arms[i]; !strings.HasPrefix(a.Model+a.Tokenizer, getenv("HOME")) || !strings.HasSuffix(a.Model+a.Tokenizer, end) {
			t.Errorf("arm %d: %+v, want a path that ends in %s", i, a, end)
		}
	}
	write("arms: [{name: a, model: org/nothing}]\n")
	status, _, errs = call(t, getenv, "run", file, "--dry-run")
	if status != ExitUsage || !strings.Contains(errs, "plan.yaml:1:25: arms[0].model: there is no file "+dir+"/org/nothing (paths start from "+dir+"), and no model of that name (assay models lists those that are there)") {
		t.Errorf("status %d: %s", status, errs)
	}
}
