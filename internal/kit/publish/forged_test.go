package publish

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/bundle"
	"assay/internal/kit/row"
	"assay/internal/kit/verify"
)

// A signer who forges is found where the evidence contradicts him, redacted or not.
func TestForgedBySigner(t *testing.T) {
	long(t)
	file, _ := published(t, plant(t), options(bundle.All))
	dir := t.TempDir()
	o, err := bundle.Open(t.Context(), file, dir)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(dir, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	k, err := bundle.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(rows), "\n"), "\n")
	for name, tt := range map[string]struct {
		change func() []string
		want   string
	}{
		"a figure": {func() []string { return change(lines, 1, regexp.MustCompile(`"ttft_ms":[0-9.]+`), `"ttft_ms":1.5`) }, "ttft_ms"},
		"a rate": {func() []string {
			return change(lines, 2, regexp.MustCompile(`"decode_tok_s":[0-9.]+`), `"decode_tok_s":999`)
		}, "decode_tok_s"},
		"a mark": {func() []string {
			return change(lines, 1, regexp.MustCompile(`"ttft_ms":[0-9.]+`), `"ttft_ms":"redacted-2026-12-02"`)
		}, "ttft_ms"},
		"a row less":     {func() []string { return []string{lines[0], lines[2]} }, "seq: 3, want 2"},
		"rows in turns":  {func() []string { return []string{lines[0], lines[2], lines[1]} }, "seq: 3, want 2"},
		"lines untold":   {func() []string { return append(slices.Clone(lines), lines...) }, "rows.jsonl: more lines than the 3"},
		"unknown schema": {func() []string { return change(lines, 0, regexp.MustCompile(`assay-row-1`), `assay-row-9`) }, "assay-row-9"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := tt.change()
			forged := forgedBundle(t, o, k, changed, min(len(changed), len(o.Manifest.Rows)))
			rep, err := verify.Bundle(t.Context(), forged, verify.BundleOptions{Options: verify.Options{Version: "later"}})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Error(err)
				}
				return
			}
			if !slices.ContainsFunc(rep.Findings, func(f verify.Finding) bool { return strings.Contains(f.String(), tt.want) }) {
				t.Errorf("nothing says %q: %v", tt.want, rep.Findings)
			}
			if _, err := verify.Bundle(t.Context(), forged, verify.BundleOptions{Key: o.Key}); err == nil || !strings.Contains(err.Error(), "signed by") {
				t.Errorf("signed by another: %v", err)
			}
		})
	}
}

// forgedBundle is a bundle of other lines than those of o, of which the manifest tells
// the first.
func forgedBundle(t testing.TB, o *bundle.Opened, k *bundle.Key, lines []string, told int) string {
	t.Helper()
	m := *o.Manifest
	m.Rows = nil
	for i, l := range lines[:told] {
		m.Rows = append(m.Rows, bundle.Row{SHA256: hashOf([]byte(l)), Original: o.Manifest.Rows[i%len(o.Manifest.Rows)].Original})
	}
	m.Redactions = slices.DeleteFunc(slices.Clone(m.Redactions), func(r bundle.Redaction) bool { return r.Line > len(lines) })
	data := []byte(strings.Join(lines, "\n") + "\n")
	m.Files = slices.Clone(m.Files)
	*m.File(row.RowsFile) = bundle.File{Name: row.RowsFile, Size: int64(len(data)), SHA256: hashOf(data)}
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bundle.Write(f, k, &m, func(name string) (io.ReadCloser, error) {
		if name == row.RowsFile {
			return io.NopCloser(bytes.NewReader(data)), nil
		}
		return os.Open(filepath.Join(o.Dir, name))
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

// Hundreds of rows that name one row's evidence cost what one costs.
func TestOneEvidenceForAll(t *testing.T) {
	long(t)
	file, _ := published(t, plant(t), options(bundle.All))
	o, err := bundle.Open(t.Context(), file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(filepath.Join(o.Dir, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	k, err := bundle.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(rows), "\n")
	begin := time.Now()
	rep, err := verify.Bundle(t.Context(), forgedBundle(t, o, k, slices.Repeat([]string{first}, 300), 300), verify.BundleOptions{Options: verify.Options{Version: "later"}})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Recomputed != 1 || len(rep.Findings) < 299 {
		t.Errorf("%d of 300 rows were computed anew, with %d findings", rep.Recomputed, len(rep.Findings))
	}
	t.Logf("300 rows in %v", time.Since(begin).Round(time.Millisecond))
}

func change(lines []string, i int, re *regexp.Regexp, with string) []string {
	out := slices.Clone(lines)
	out[i] = re.ReplaceAllString(out[i], with)
	return out
}
