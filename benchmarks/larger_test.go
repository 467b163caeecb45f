//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/models/seedling"
)

func TestLargerPlan(t *testing.T) {
	o := largerOptions{dir: "d", limits: "Q4_K=900,IQ3_S=800", skews: "zipf,uniform", engines: "ours,llama.cpp"}
	cases, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cases {
		got = append(got, filepath.Base(o.path(c))+" "+c.Engine)
	}
	const want = `synth-2.5b-Q4_K.gguf ours
synth-2.5b-Q4_K.gguf llama.cpp
synth-2.5b-IQ3_S.gguf ours
synth-2.5b-IQ3_S.gguf llama.cpp
synth-2.5b-Q4_K-uniform.gguf ours
synth-2.5b-Q4_K-uniform.gguf llama.cpp
synth-2.5b-IQ3_S-uniform.gguf ours
synth-2.5b-IQ3_S-uniform.gguf llama.cpp`
	if s := strings.Join(got, "\n"); s != want || cases[0].Limit != 900e6 {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	for want, change := range map[string]func(*largerOptions){
		`-limits: "Q4_K" is no format with a limit`: func(o *largerOptions) { o.limits = "Q4_K" },
		`-skews: "none" is neither`:                 func(o *largerOptions) { o.skews = "none" },
		`-engines: "vllm" is none of`:               func(o *largerOptions) { o.engines = "vllm" },
	} {
		bad := o
		change(&bad)
		if _, err := bad.plan(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Figures come from what was counted, and an engine that was killed has none.
func TestLargerTable(t *testing.T) {
	like := largeOne{File: "Q4_K", Skew: "zipf", Bytes: 1.4e9, Limit: 900e6}
	ours, mapped, killed := like, like, like
	ours.Engine, ours.Tokens, ours.Seconds, ours.Hits, ours.Lookups, ours.Best = "ours", 200, 10, 800, 1000, 740
	ours.Ahead = 100
	ours.Missed, ours.Direct = 8e9, 1e9 // 40 MB a token, so 25 tokens a second at most
	mapped.Engine, mapped.Tokens, mapped.Seconds = "ours-mmap", 20, 10
	killed.Engine, killed.Failed = "llama.cpp", "killed: out of memory"
	r := largerResults{Base: &results{Command: []string{"go"}, Commit: "c"}, Cases: []*largeOne{&ours, &mapped, &killed}}
	var b strings.Builder
	r.table(&b)
	for _, want := range []string{
		"| Q4_K, 1.40 GB | zipf | 900 MB | ours | **20** | 10.00 | 80.0 % | 70.0 % | 74.0 % | 80 % of 25 | 0.00 |\n",
		"| Q4_K, 1.40 GB | zipf | 900 MB | ours-mmap | **2** |  | | | | | 0.00 |\n",
		"| Q4_K, 1.40 GB | zipf | 900 MB | llama.cpp | killed: out of memory | | | | | | |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant in it\n%s", b.String(), want)
		}
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+largerBegin+"\nold\n"+largerEnd+"\nafter\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writeLargerPage(page, &r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "before\n"+largerBegin) || !strings.HasSuffix(s, largerEnd+"\nafter\n") || strings.Contains(s, "old") {
		t.Errorf("the page is\n%s", s)
	}
}

// Our child counts what its tokens looked up; the direct reads find the experts.
func TestLargerChild(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(file, seedling.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, ram := range []string{"6291456", "mmap"} {
		var out bytes.Buffer
		if err := largerChild([]string{file, "1", ram}, strings.NewReader("tg 5 0\ntg 3 5\n"), &out); err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(&out)
		var h hello
		if err := d.Decode(&h); err != nil || !h.Ready {
			t.Fatalf("%+v, %v", h, err)
		}
		for range 2 {
			var a largeReply
			if err := d.Decode(&a); err != nil || a.NS <= 0 {
				t.Fatalf("%+v, %v", a, err)
			}
			sum := int64(0)
			for _, n := range a.Uses {
				sum += n
			}
			if sum != a.Lookups || (a.Lookups > 0) != (ram != "mmap") || a.Hits > a.Lookups {
				t.Errorf("%s: %d of %d at hand, the experts say %d", ram, a.Hits, a.Lookups, sum)
			}
		}
	}
	d, err := openDirect(file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if n, err := d.read(20 * time.Millisecond); n <= 0 || err != nil || len(d.pieces)%3 != 0 || len(d.pieces) == 0 {
		t.Errorf("%d bytes of %d matrices, %v", n, len(d.pieces), err)
	}
	if err := dropPages(file); err != nil {
		t.Error(err)
	}
}
