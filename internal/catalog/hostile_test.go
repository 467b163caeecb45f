//go:build unix

package catalog

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHostileFolders: whatever lies there, reading ends soon, the good model is
// found, and what is wrong is told.
func TestHostileFolders(t *testing.T) {
	for _, test := range []struct {
		what string
		make func(w tree)
		told []string // parts of the problems, in any order; none: no problem
	}{
		{"a folder that holds itself", func(w tree) {
			w.link("studio/pub/model/again", "..")
			w.link("studio/loop", ".")
		}, nil},
		{"a link to itself", func(w tree) { w.link("studio/pub/model/self.gguf", "self.gguf") }, []string{"self.gguf: too many"}},
		{"two links to each other", func(w tree) {
			w.link("hf/models--a--b/snapshots/c/x.gguf", "y.gguf")
			w.link("hf/models--a--b/snapshots/c/y.gguf", "x.gguf")
		}, []string{"x.gguf: too many", "y.gguf: too many"}},
		{"a link to nothing", func(w tree) { w.link("hf/models--a--b/snapshots/c/gone.gguf", "../../blobs/gone") }, []string{"gone.gguf: no such file"}},
		{"a store that is a file", func(w tree) { w.file("hf", []byte("x")) }, []string{"hf: not a directory"}},
		{"a pipe", func(w tree) {
			if err := os.MkdirAll(w.path("studio/a/b"), 0o755); err != nil {
				w.t.Fatal(err)
			}
			if err := syscall.Mkfifo(w.path("studio/a/b/pipe.gguf"), 0o644); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"pipe.gguf: not a regular file"}},
		{"a manifest that is a pipe", func(w tree) {
			if err := os.MkdirAll(w.path("llama.cpp"), 0o755); err != nil {
				w.t.Fatal(err)
			}
			if err := syscall.Mkfifo(w.path("llama.cpp/manifest=a=b=c.json"), 0o644); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"manifest=a=b=c.json: not a regular file"}},
		{"names that are not text", func(w tree) {
			w.file("studio/a/b/\xff\xfe.gguf", tiny(w.t, "x"))
			w.file("studio/a/b/\x1b[2Jred.gguf", tiny(w.t, "y"))
		}, []string{`\xff\xfe.gguf": the name is not printable`, `\x1b[2Jred.gguf": the name is not printable`}},
		{"folders without end", func(w tree) { w.file("studio/"+strings.Repeat("d/", 100)+"deep.gguf", tiny(w.t, "deep")) }, []string{"deep: not looked at"}},
		{"a split model without its first file, and one without its last", func(w tree) {
			for i := 2; i <= 9; i++ {
				w.file(fmt.Sprintf("studio/a/b/x-%05d-of-00009.gguf", i), []byte("x"))
			}
			w.file("studio/a/b/y-00001-of-99999.gguf", []byte("x"))
		}, []string{"x-00002-of-00009.gguf: the first of its 00009 files is missing", "y-00001-of-99999.gguf: file 2 of its 99999 is missing"}},
		{"a manifest of gigabytes", func(w tree) {
			path := w.file("ollama/manifests/registry.ollama.ai/library/huge/latest", nil)
			if err := os.Truncate(path, 1<<33); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"huge/latest: 8589934592 bytes (at most 1048576)"}},
		{"a manifest that is none", func(w tree) {
			w.file("ollama/manifests/registry.ollama.ai/library/bad/latest", []byte(`{"layers":[`))
		}, []string{"bad/latest: unexpected end of JSON"}},
		{"a manifest of nested lists", func(w tree) {
			w.file("ollama/manifests/registry.ollama.ai/library/deep/latest", bytes.Repeat([]byte("["), maxSmall))
		}, []string{"deep/latest: "}},
		{"a digest with a path in it", func(w tree) {
			w.file("ollama/manifests/registry.ollama.ai/library/evil/latest",
				[]byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../etc/passwd"}]}`))
		}, []string{"evil/latest: its model's digest is not sha256: and 64 hex digits"}},
		{"a blob that is not there", func(w tree) {
			w.file("ollama/manifests/registry.ollama.ai/library/torn/latest",
				fmt.Appendf(nil, `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%064d"}]}`, 7))
		}, []string{"torn/latest: its model: ", "no such file"}},
		{"a model without a file", func(w tree) {
			w.file("ollama/manifests/registry.ollama.ai/library/cloud/latest", []byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.tensor","digest":"sha256:00"}]}`))
		}, []string{"cloud/latest: it lists no GGUF file"}},
		{"a reference of gigabytes", func(w tree) {
			path := w.file("hf/models--a--b/refs/main", nil)
			if err := os.Truncate(path, 1<<33); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"refs/main: 8589934592 bytes"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := newTree(t)
			w.file("studio/good/model/good-Q8_0.gguf", tiny(t, "good"))
			test.make(w)
			start := time.Now()
			c := Read(w.places())
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if m, err := c.Find("good/model"); err != nil || len(c.Models) != 1 {
				t.Errorf("the good model: %+v, %v; %d models", m, err, len(c.Models))
			}
			var told strings.Builder
			for _, p := range c.Problems {
				told.WriteString(p.What + "\n")
				if !printable(p.What) {
					t.Errorf("a problem that spoils a terminal: %q", p.What)
				}
			}
			for _, want := range test.told {
				if !strings.Contains(told.String(), want) {
					t.Errorf("%q is not among the problems:\n%s", want, told.String())
				}
			}
			if len(test.told) == 0 && told.Len() > 0 {
				t.Errorf("problems:\n%s", told.String())
			}
		})
	}
}

// TestUnreadableFolder needs a user whom permissions bind.
func TestUnreadableFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read every folder")
	}
	w := newTree(t)
	w.file("studio/good/model/good-Q8_0.gguf", tiny(t, "good"))
	w.file("studio/shut/model/shut-Q8_0.gguf", tiny(t, "shut"))
	if err := os.Chmod(w.path("studio/shut"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(w.path("studio/shut"), 0o755)
	c := Read(w.places())
	if len(c.Models) != 1 || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].What, "permission denied") {
		t.Errorf("%+v", c)
	}
}

// TestManyFiles: a folder with more names than are looked at ends, and says so.
func TestManyFiles(t *testing.T) {
	w := newTree(t)
	for i := range 50 {
		w.file(fmt.Sprintf("studio/a/b/m%02d-Q8_0.gguf", i), []byte("x"))
	}
	c := &Catalog{}
	r := reader{catalog: c, place: Place{LMStudio, w.path("studio")}, left: 20, seen: map[string]bool{}}
	r.lmStudio()
	if len(c.Models) > 18 || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].What, "the others are not looked at") {
		t.Errorf("%d models, %+v", len(c.Models), c.Problems)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:00"}]}`))
	f.Add([]byte(`{"ggufFile":{"rfilename":"a\u0000b/../../x.gguf"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newTree(t)
		w.file("ollama/manifests/registry.ollama.ai/library/m/latest", data)
		w.file("llama.cpp/manifest=a=b=c.json", data)
		w.file("llama.cpp/a_b_x.gguf", []byte("x"))
		w.file("hf/models--a--b/refs/main", data)
		c := Read(w.places())
		for _, m := range c.Models {
			if !strings.HasPrefix(m.Path, w.dir+"/") || !printable(m.Name) {
				t.Errorf("model %q at %q", m.Name, m.Path)
			}
		}
		for _, p := range c.Problems {
			if !printable(p.What) {
				t.Errorf("%q", p.What)
			}
		}
	})
}
