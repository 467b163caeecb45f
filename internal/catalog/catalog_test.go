package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/gguf"
)

// tree makes folders as the programs lay them out.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tree{t, dir}
}

func (w tree) path(rel string) string { return filepath.Join(w.dir, filepath.FromSlash(rel)) }

func (w tree) file(rel string, data []byte) string {
	w.t.Helper()
	path := w.path(rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w tree) link(rel, to string) {
	w.t.Helper()
	path := w.path(rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		w.t.Fatal(err)
	}
}

// tiny is a GGUF file that differs from others by its name.
func tiny(t *testing.T, name string) []byte {
	t.Helper()
	b := gguf.NewBuilder()
	b.Set("general.architecture", "qwen3moe")
	b.Set("general.name", name)
	b.Tensor("token_embd.weight", gguf.Q8_0, []uint64{32, 2}, make([]byte, 68))
	b.Tensor("output_norm.weight", gguf.F32, []uint64{4}, make([]byte, 16))
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hub puts a file into the hub's cache, as a blob and a link to it.
func (w tree) hub(repo, commit, name string) {
	folder := "hf/models--" + strings.ReplaceAll(repo, "/", "--")
	data := tiny(w.t, repo+commit+name)
	sum := hex.EncodeToString(sha256Of(data))
	w.file(folder+"/blobs/"+sum, data)
	up := strings.Repeat("../", 2+strings.Count(name, "/"))
	w.link(folder+"/snapshots/"+commit+"/"+name, up+"blobs/"+sum)
}

func sha256Of(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// pull puts a model into Ollama's store.
func (w tree) pull(name string) string {
	data := tiny(w.t, name)
	sum := hex.EncodeToString(sha256Of(data))
	w.file("ollama/blobs/sha256-"+sum, data)
	w.file("ollama/manifests/"+name, fmt.Appendf(nil, `{"schemaVersion":2,
		"mediaType":"application/vnd.docker.distribution.manifest.v2+json",
		"config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"sha256:%064d","size":487},
		"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:%064d","size":1},
		{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}`, 1, 2, sum, len(data)))
	return sum
}

func (w tree) places() []Place {
	return []Place{{HuggingFace, w.path("hf")}, {LMStudio, w.path("studio")}, {LlamaCpp, w.path("llama.cpp")}, {Ollama, w.path("ollama")}}
}

// full is a tree in which every store has something.
func full(t *testing.T) tree {
	w := newTree(t)
	w.hub("org/one", "aaaa", "one-Q4_K_M.gguf")
	w.file("hf/models--org--one/refs/main", []byte("aaaa"))
	w.hub("org/many", "bbbb", "many-Q4_K_M.gguf")
	w.hub("org/many", "bbbb", "many.Q8_0.gguf")
	w.hub("org/many", "bbbb", "UD/many-UD-Q2_K_XL-00001-of-00002.gguf")
	w.hub("org/many", "bbbb", "UD/many-UD-Q2_K_XL-00002-of-00002.gguf")
	w.hub("org/many", "bbbb", "mmproj-F16.gguf")
	w.file("hf/models--org--many/snapshots/bbbb/config.json", []byte("{}"))
	w.hub("lonely", "cccc", "weights.gguf")
	w.file("hf/version.txt", []byte("1"))
	w.file("hf/datasets--org--set/snapshots/a/b.gguf", tiny(t, "no model of a repository"))

	w.file("studio/pub/model-GGUF/model-IQ3_XXS.gguf", tiny(t, "studio"))
	w.file("studio/pub/model-GGUF/README.md", nil)

	w.file("llama.cpp/org_flat_flat-Q6_K.gguf", tiny(t, "flat"))
	w.file("llama.cpp/org_flat_flat-Q6_K.gguf.etag", []byte("x"))
	w.file("llama.cpp/manifest=org=flat=Q6_K.json", []byte(`{"ggufFile":{"rfilename":"flat-Q6_K.gguf","size":1}}`))

	w.pull("registry.ollama.ai/library/qwen3/latest")
	w.pull("registry.ollama.ai/library/qwen3/8b")
	w.pull("registry.ollama.ai/someone/tuned/v1")
	w.pull("hf.co/org/repo/Q4_K_M")
	return w
}

func TestEveryStoreIsRead(t *testing.T) {
	w := full(t)
	c := Read(w.places())
	if len(c.Problems) > 0 {
		t.Errorf("problems: %v", c.Problems)
	}
	var got []string
	for _, m := range c.Models {
		got = append(got, string(m.Store)+" "+m.Name)
		if want := sizeOf(t, m.Files); m.Bytes != want || m.Files[0] != m.Path {
			t.Errorf("%s: %d bytes in %v, path %s; want %d", m.Name, m.Bytes, m.Files, m.Path, want)
		}
		f, err := gguf.Open(m.Path)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if d := Describe(f); d.Architecture != "qwen3moe" || d.Quantisation != "Q8_0" || d.Bits == nil || d.Parameters != 68 {
			t.Errorf("%s: described as %+v", m.Name, d)
		}
		f.Close()
	}
	want := []string{
		"hf lonely/weights.gguf", "hf org/many/mmproj-F16.gguf", "hf org/many:Q4_K_M", "hf org/many:Q8_0", "hf org/many:UD-Q2_K_XL", "hf org/one:Q4_K_M",
		"lmstudio pub/model-GGUF:IQ3_XXS",
		"llama.cpp org/flat:Q6_K",
		"ollama hf.co/org/repo:Q4_K_M", "ollama qwen3:8b", "ollama qwen3:latest", "ollama someone/tuned:v1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func sizeOf(t *testing.T, files []string) (n int64) {
	t.Helper()
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

func TestFind(t *testing.T) {
	c := Read(full(t).places())
	for _, test := range []struct{ name, is string }{
		{"org/one", "org/one:Q4_K_M"},
		{"org/one:q4_k_m", "org/one:Q4_K_M"},
		{"ORG/One", "org/one:Q4_K_M"},
		{"hf:org/one", "org/one:Q4_K_M"},
		{"org/one/one-Q4_K_M.gguf", "org/one:Q4_K_M"},
		{"one-Q4_K_M.gguf", "org/one:Q4_K_M"},
		{"one-Q4_K_M", "org/one:Q4_K_M"},
		{"many.Q8_0", "org/many:Q8_0"},
		{"org/many:UD-Q2_K_XL", "org/many:UD-Q2_K_XL"},
		{"mmproj-F16.gguf", "org/many/mmproj-F16.gguf"},
		{"lonely", "lonely/weights.gguf"},
		{"pub/model-GGUF", "pub/model-GGUF:IQ3_XXS"},
		{"lmstudio:model-IQ3_XXS", "pub/model-GGUF:IQ3_XXS"},
		{"org_flat_flat-Q6_K.gguf", "org/flat:Q6_K"},
		{"org/flat", "org/flat:Q6_K"},
		{"qwen3", "qwen3:latest"},
		{"ollama:qwen3:8b", "qwen3:8b"},
		{"registry.ollama.ai/library/qwen3", "qwen3:latest"},
		{"someone/tuned", "someone/tuned:v1"},
		{"hf.co/org/repo", "hf.co/org/repo:Q4_K_M"},
	} {
		if m, err := c.Find(test.name); err != nil || m.Name != test.is {
			t.Errorf("%s: found %q, %v; want %q", test.name, m.Name, err, test.is)
		}
	}
	for _, test := range []struct{ name, err string }{
		{"org/many", `"org/many" could be each of 3 models: hf:org/many:Q4_K_M, hf:org/many:Q8_0, hf:org/many:UD-Q2_K_XL`},
		{"nobody/nothing", `no store here has a model called "nobody/nothing" (12 models seen)`},
		{"ollama:org/one", `no store here`},
		{"", `no store here`},
		{"../../etc/passwd", `no store here`},
	} {
		m, err := c.Find(test.name)
		if err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: found %q, %v; want %q", test.name, m.Name, err, test.err)
		}
	}
	var none *NotFoundError
	if _, err := c.Find("x"); !errors.As(err, &none) || none.Known != 12 {
		t.Errorf("an error of type %T", err)
	}
}

// TestOneFileByTwoWays: two stores share a file by a link, so its name means one.
func TestOneFileByTwoWays(t *testing.T) {
	w := newTree(t)
	w.link("studio/org/same/m-Q8_0.gguf", w.file("llama.cpp/m-Q8_0.gguf", tiny(t, "m")))
	if m, err := Read(w.places()).Find("m-Q8_0"); err != nil || m.Store != LMStudio {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestSnapshots: the files of main come first; one that was only fetched for another
// commit is still found, from the newest.
func TestSnapshots(t *testing.T) {
	w := newTree(t)
	for i, commit := range []string{"old", "main", "new"} {
		w.hub("o/r", commit, "a-Q4_0.gguf")
		if commit != "main" {
			w.hub("o/r", commit, "b-Q5_K.gguf")
		}
		when := time.Now().Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(w.path("hf/models--o--r/snapshots/"+commit), when, when); err != nil {
			t.Fatal(err)
		}
	}
	w.file("hf/models--o--r/refs/main", []byte("main\n"))
	c := Read(w.places())
	for name, want := range map[string]string{"o/r:Q4_0": "main/a-Q4_0.gguf", "o/r:Q5_K": "new/b-Q5_K.gguf"} {
		m, err := c.Find(name)
		if err != nil || m.Path != w.path("hf/models--o--r/snapshots/"+want) {
			t.Errorf("%s: %s, %v; want %s", name, m.Path, err, want)
		}
	}
	if len(c.Models) != 2 {
		t.Errorf("%d models", len(c.Models))
	}
}

func TestPlaces(t *testing.T) {
	home := t.TempDir()
	h := func(rel string) string { return filepath.Join(home, filepath.FromSlash(rel)) }
	pointed := newTree(t)
	if err := os.WriteFile(filepath.Join(pointed.dir, ".lmstudio-home-pointer"), []byte("/elsewhere/studio\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what, system string
		env          map[string]string
		want         []Place
	}{
		{"as installed", "linux", map[string]string{"HOME": home}, []Place{
			{HuggingFace, h(".cache/huggingface/hub")},
			{LMStudio, h(".lmstudio/models")},
			{LMStudio, h(".cache/lm-studio/models")},
			{LlamaCpp, h(".cache/llama.cpp")},
			{Ollama, h(".ollama/models")},
			{Ollama, "/usr/share/ollama/.ollama/models"},
		}},
		{"a Mac", "darwin", map[string]string{"HOME": home}, []Place{
			{HuggingFace, h(".cache/huggingface/hub")},
			{LMStudio, h(".lmstudio/models")},
			{LMStudio, h(".cache/lm-studio/models")},
			{LlamaCpp, h("Library/Caches/llama.cpp")},
			{Ollama, h(".ollama/models")},
		}},
		{"moved", "linux", map[string]string{"HF_HOME": "/big/hf", "LLAMA_CACHE": "/big/llama", "OLLAMA_MODELS": "/big/ollama"}, []Place{
			{HuggingFace, "/big/hf/hub"}, {LlamaCpp, "/big/llama"}, {Ollama, "/big/ollama"},
		}},
		{"the hub's own variable wins; a relative one is no place", "linux", map[string]string{"HF_HUB_CACHE": "/hub", "HF_HOME": "/big/hf", "LLAMA_CACHE": "here", "OLLAMA_MODELS": "/o"}, []Place{
			{HuggingFace, "/hub"}, {Ollama, "/o"},
		}},
		{"LM Studio's home is elsewhere", "darwin", map[string]string{"HOME": pointed.dir, "HF_HUB_CACHE": "/hub", "LLAMA_CACHE": "/l", "OLLAMA_MODELS": "/o"}, []Place{
			{HuggingFace, "/hub"}, {LMStudio, "/elsewhere/studio/models"}, {LMStudio, filepath.Join(pointed.dir, ".cache/lm-studio/models")}, {LlamaCpp, "/l"}, {Ollama, "/o"},
		}},
		{"nobody's home", "plan9", nil, nil},
	} {
		got := places(func(k string) string { return test.env[k] }, test.system)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %v\nwant %v", test.what, got, test.want)
		}
	}
}

func TestLabels(t *testing.T) {
	for name, want := range map[string]string{
		"qwen3-8b-Q4_K_M.gguf": "Q4_K_M", "a.IQ2_XXS.gguf": "IQ2_XXS", "m-UD-Q4_K_XL-00001-of-00003.gguf": "UD-Q4_K_XL",
		"m-q8_0.gguf": "q8_0", "x_f16.gguf": "f16", "gpt-oss-20b-MXFP4.gguf": "MXFP4", "m-BF16.gguf": "BF16",
		"model.gguf": "", "qwen3.gguf": "", "Q.gguf": "", "seq4.gguf": "",
	} {
		if got := labelOf("folder/" + name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
