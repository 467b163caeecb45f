//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/models/seedling"
)

var update = flag.Bool("update", false, "write golden files")

func TestParseTest(t *testing.T) {
	for s, want := range map[string]test{
		"pp512":      {"pp", 512, 0},
		"tg128@4096": {"tg", 128, 4096},
	} {
		if got, err := parseTest(s); err != nil || got != want || got.String() != s {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "pp", "pp0", "xx5", "tg128@", "tg128@-1", "tg128@x", "pp1.5"} {
		if got, err := parseTest(s); err == nil {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

// The default matrix: everything in the headline column but a prompt of 4096
// tokens on one thread, which takes too long.
func TestPlan(t *testing.T) {
	o := options{dir: "d", only: "Q8_0,Q4_K", columns: "huge,4k,busy", pairs: 5}
	for _, c := range []struct {
		threads, tests string
		full           bool
		want           string
	}{
		{"1,2", "", false, `Q8_0, column huge, threads [1 2], tests [tg128 pp512 tg128@4096]
Q8_0, column huge, threads [2], tests [pp4096]
Q4_K, column huge, threads [1 2], tests [tg128 pp512 tg128@4096]
Q4_K, column huge, threads [2], tests [pp4096]
Q8_0, column 4k, threads [2], tests [tg128 pp512]
Q4_K, column 4k, threads [2], tests [tg128 pp512]
Q8_0, column busy, threads [1 2], tests [tg64]`},
		{"1", "", true, `Q8_0, column huge, threads [1], tests [tg128 pp512 pp4096 tg128@4096]
Q4_K, column huge, threads [1], tests [tg128 pp512 pp4096 tg128@4096]
Q8_0, column 4k, threads [1], tests [tg128 pp512 pp4096 tg128@4096]
Q4_K, column 4k, threads [1], tests [tg128 pp512 pp4096 tg128@4096]`},
		{"1", "tg16,pp32@8", false, `Q8_0, column huge, threads [1], tests [tg16 pp32@8]
Q4_K, column huge, threads [1], tests [tg16 pp32@8]
Q8_0, column 4k, threads [1], tests [tg16 pp32@8]
Q4_K, column 4k, threads [1], tests [tg16 pp32@8]`},
	} {
		if runtime.NumCPU() < len(c.threads)/2+1 {
			continue
		}
		o.threads, o.tests, o.full = c.threads, c.tests, c.full
		groups, err := o.plan()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range groups {
			got = append(got, g.String())
		}
		if got := strings.Join(got, "\n"); got != c.want {
			t.Errorf("threads %s, tests %q, full %v:\n%s\nwant\n%s", c.threads, c.tests, c.full, got, c.want)
		}
	}
	for want, bad := range map[string]options{
		"-columns": {columns: "big", threads: "1", pairs: 1, only: "Q8_0"},
		"-threads": {columns: "huge", threads: "0", pairs: 1, only: "Q8_0"},
		"-pairs":   {columns: "huge", threads: "1", only: "Q8_0"},
		"-tests":   {columns: "huge", threads: "1", pairs: 1, only: "Q8_0", tests: "x"},
	} {
		if _, err := bad.plan(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Our engine as a child: it says what the file needs, then times what it is
// told, whatever depth comes after which.
func TestEngineChild(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long under the race detector, and shares nothing")
	}
	file := filepath.Join(t.TempDir(), "seedling.gguf")
	if err := os.WriteFile(file, seedling.GGUF, 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := engineChild([]string{file, "1", "64"}, strings.NewReader("tg 2 0\npp 8 20\ntg 2 4\n"), &out); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	var h hello
	if err := d.Decode(&h); err != nil || !h.Ready || h.Batch == 0 || h.Model.PerToken == 0 || h.Model.Memory < h.Model.PerToken {
		t.Errorf("%+v, %v", h, err)
	}
	for range 3 {
		var a struct {
			NS int64 `json:"ns"`
		}
		if err := d.Decode(&a); err != nil || a.NS <= 0 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	for _, bad := range []string{"tg 65 0\n", "tg x 0\n"} {
		if err := engineChild([]string{file, "1", "64"}, strings.NewReader(bad), io.Discard); err == nil {
			t.Errorf("%q was done", bad)
		}
	}
	if err := engineChild([]string{"nowhere.gguf", "1", "64"}, strings.NewReader(""), io.Discard); err == nil {
		t.Error("a missing file was loaded")
	}
}

// A child that dies before it is ready is an error, not a hang.
func TestChildDies(t *testing.T) {
	if _, err := startChild(context.Background(), []string{"/bin/true"}, nil); err == nil || !strings.Contains(err.Error(), "never got ready") {
		t.Errorf("error %v", err)
	}
}

// The page from results that are written down: two calls on one machine, of which the
// newer one's cell wins, and one on another, which has a part of its own; too few pairs
// give no interval; what was not read is unknown. Text around the tables stays.
func TestPage(t *testing.T) {
	all, err := readResults("testdata/results")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || !all[0].Time.Before(all[1].Time) {
		t.Fatalf("%d results, or in the wrong order", len(all))
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Speed\n\nBefore.\n\n"+pageBegin+"\nold\n"+pageEnd+"\n\nAfter.\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // writing again changes nothing
		if err := writePage(page, all); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/page.md"
	if *update {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the page is\n%s\nwant %s (-update writes it)", got, golden)
	}
	if err := os.WriteFile(page, []byte("no markers"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, all); err == nil || !strings.Contains(err.Error(), "are missing") {
		t.Errorf("a page without markers: %v", err)
	}
}

// Results are read as they were written.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	if _, err := readResults(dir); err == nil {
		t.Error("an empty folder has results")
	}
	r := newResults([]string{"x"}, &peer{Package: "p"})
	r.Cells = []*cell{{File: "f", Test: test{"tg", 1, 2}, Ours: []int64{3}}}
	if err := r.write(filepath.Join(dir, "a.json")); err != nil {
		t.Fatal(err)
	}
	all, err := readResults(dir)
	if err != nil || len(all) != 1 || all[0].Cells[0].Test != r.Cells[0].Test || !all[0].Time.Equal(r.Time) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(dir); err == nil || !strings.Contains(err.Error(), "b.json") {
		t.Errorf("damaged results: %v", err)
	}
}

// Processor time of this very process counts as known, not as others'.
func TestMeter(t *testing.T) {
	own := newMeter([]int{os.Getpid()})
	before := ticksOf(os.Getpid())
	for x, start := uint64(1), time.Now(); time.Since(start) < 300*time.Millisecond || x == 0; {
		x *= 3
	}
	if ticksOf(os.Getpid()) <= before {
		t.Error("0.3 s of work took no time")
	}
	foreign, steal := own.shares()
	if foreign == nil || steal == nil || *foreign < 0 || *steal < 0 {
		t.Errorf("%v, %v", foreign, steal)
	}
	if huge, rss := hugeOf(os.Getpid()); rss == nil || huge == nil || *rss < 1<<20 || *huge > *rss {
		t.Errorf("huge %v of %v", huge, rss)
	}
}
