package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/kit/report"
)

// seedRows are nine published rows of another tool; see the row package.
const seedRows = "../kit/row/testdata/seed-rows.jsonl"

// summary runs the command and returns what it printed and its exit status.
func summary(t *testing.T, stdin string, env map[string]string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Main(&Env{
		Args: append([]string{"summary"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Getenv:  func(name string) string { return env[name] },
		Context: func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
	})
	return out.String(), errs.String(), status
}

// The table of the nine rows is the one that package report's tests worked
// out, whichever way the rows come in.
func TestSummaryOfSeedRows(t *testing.T) {
	rows, err := os.ReadFile(seedRows)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/rows.jsonl", rows, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		stdin, golden string
		env           map[string]string
		args          []string
	}{
		"file":          {"", "seed-80.txt", nil, []string{seedRows}},
		"directory":     {"", "seed-80.txt", nil, []string{dir}},
		"of folders":    {"", "seed-80.txt", nil, []string{filepath.Dir(dir)}},
		"stdin":         {string(rows), "seed-80.txt", nil, []string{"-"}},
		"narrow":        {"", "seed-narrow.txt", map[string]string{"COLUMNS": "72"}, []string{seedRows}},
		"wide terminal": {"", "seed.txt", map[string]string{"COLUMNS": "1000"}, []string{seedRows}},
		"markdown":      {"", "seed.md", map[string]string{"COLUMNS": "72"}, []string{seedRows, "--md"}},
		"by its twin":   {"", "seed.md", map[string]string{"ASSAY_MD": "true"}, []string{seedRows}},
		"silly columns": {"", "seed-80.txt", map[string]string{"COLUMNS": "-3"}, []string{seedRows}},
		"all figures":   {"", "seed-wide.txt", nil, []string{seedRows, "--wide"}},
		"for a sheet":   {"", "seed.csv", nil, []string{seedRows, "--csv"}},
		"llama-bench":   {"", "seed-bench.jsonl", nil, []string{seedRows, "--llama-bench"}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile("../kit/report/testdata/" + tt.golden)
			if err != nil {
				t.Fatal(err)
			}
			stdout, stderr, status := summary(t, tt.stdin, tt.env, tt.args...)
			if stdout != string(want) || stderr != "" || status != ExitOK {
				t.Errorf("status %d, stderr %q, stdout:\n%s\nwant:\n%s", status, stderr, stdout, want)
			}
		})
	}
}

func TestSummaryJSON(t *testing.T) {
	stdout, _, status := summary(t, "", nil, seedRows, "--json")
	var got report.Report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != ExitOK {
		t.Fatalf("status %d, %v:\n%s", status, err, stdout)
	}
	if got.Schema != report.Schema || got.Rows != 9 || len(got.Cells) != 3 || got.Cells[2].Stat("decode").Median != 172.325 {
		t.Errorf("%+v", got)
	}
}

// Rows that come in twice are counted once, and that is said.
func TestSummaryCountsRowsOnce(t *testing.T) {
	stdout, stderr, status := summary(t, "", nil, seedRows, seedRows, "--json")
	var got report.Report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != ExitOK {
		t.Fatalf("status %d, %v:\n%s", status, err, stdout)
	}
	if got.Rows != 9 || stderr != "assay: rows given more than once and counted once: 9\n" {
		t.Errorf("%d rows, stderr %q", got.Rows, stderr)
	}
}
