package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/row"
	"assay/internal/kit/verify"
)

// runFolder measures the built-in engine, started as a user's shell would, and
// gives the folder of its two rows.
func runFolder(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "assay") // this test answers to that name
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	var stderr bytes.Buffer
	code := Main(&Env{
		Args:   []string{"run", "--ctx", "64", "--warmups", "0", "--repeats", "2", "--max-tokens", "40", "--threads", "1", "--out", out},
		Stdout: io.Discard, Stderr: &stderr,
		Getenv:     func(string) string { return "" },
		Environ:    os.Environ,
		Executable: func() (string, error) { return program, nil },
		Context:    func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
	})
	if code != ExitOK && code != ExitWithheld { // a busy machine withholds figures
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	return out
}

// For every number in a row: when it is changed and every hash is made anew, the
// recomputation names exactly that number.
func TestVerifyNamesForgedNumbers(t *testing.T) {
	dir := runFolder(t)
	if r := verified(t, dir); !r.Clean || r.Recomputed != 2 || len(r.Notes) > 0 {
		t.Fatalf("untouched, but: %v, %v", r.Findings, r.Notes)
	}
	path := filepath.Join(dir, row.RowsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	second := parseRow(t, lines[1])
	seen := map[string]bool{}
	visitNumbers("", second, func(place string, v any, put func(any)) {
		seen[place] = true
		put(oneMore(v))
		forgeSecond(t, dir, lines[0], second)
		r := verified(t, dir)
		put(v)
		if place == "seq" { // it belongs to the chain, which is told first
			if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Problem, "seq: 3, want 2") {
				t.Errorf("seq: %v", r.Findings)
			}
			return
		}
		var named []string
		for _, f := range r.Findings {
			named = append(named, f.Path)
		}
		if !slices.Equal(named, []string{place}) {
			t.Errorf("%s was forged, named is %q: %v", place, named, r.Findings)
		}
	})
	for _, want := range []string{"decode_tok_s", "ttft_ms", "gaps.p99_ms", "count_check.sources[3].tokens", "count_check.against.log", "telemetry.board.joules", "requested.sampling.top_k", "seq"} {
		if !seen[want] {
			t.Errorf("%s is not among the numbers", want)
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d numbers", len(seen))
	}
}

func verified(t *testing.T, dir string) *verify.Report {
	t.Helper()
	r, err := verify.Dir(t.Context(), dir, verify.Options{Version: Version})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parseRow(t *testing.T, line string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// visitNumbers goes to every place of a row that holds a number, or null where a
// number may stand. put sets the value there.
func visitNumbers(path string, v any, do func(place string, v any, put func(any))) {
	visit := func(place string, e any, put func(any)) {
		_, number := e.(json.Number)
		if number || e == nil && row.IsNumber(place) {
			do(place, e, put)
		}
		visitNumbers(place, e, do)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			place := name
			if path != "" {
				place = path + "." + name
			}
			visit(place, v[name], func(e any) { v[name] = e })
		}
	case []any:
		for i, e := range v {
			visit(fmt.Sprintf("%s[%d]", path, i), e, func(e any) { v[i] = e })
		}
	}
}

// oneMore is another number.
func oneMore(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return 1
	}
	f, _ := n.Float64()
	if whole, err := n.Int64(); err == nil {
		return whole + 1
	}
	return f + 1
}

// forgeSecond writes two rows with every hash of the chain made anew.
func forgeSecond(t *testing.T, dir, first string, second map[string]any) {
	t.Helper()
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	second["prev_sha256"] = hash(first)
	line, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	rows := first + "\n" + string(line) + "\n"
	head := fmt.Sprintf(`{"rows":2,"bytes":%d,"sha256":%q}`+"\n", len(rows), hash(string(line)))
	for name, data := range map[string]string{row.RowsFile: rows, row.HeadFile: head} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
