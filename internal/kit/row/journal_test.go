package row

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// numbered is a valid row that differs from others by its number.
func numbered(t testing.TB, n int) *Row {
	r := valid(t)
	r.RowID, r.Run, r.Repeat = fmt.Sprintf("row-%d", n), n+1, n
	return r
}

// journalOf writes n rows to a new directory.
func journalOf(t testing.TB, dir string, n int) {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := j.Append(numbered(t, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func faults(t testing.TB, dir string) []string {
	t.Helper()
	found, err := Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range found {
		out = append(out, strings.TrimPrefix(f.Error(), dir+"/"))
	}
	return out
}

func TestJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	journalOf(t, dir, 3)
	if got := faults(t, dir); got != nil {
		t.Fatalf("faults in an untouched journal: %q", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(data, []byte{'\n'})
	n := 0
	for r, err := range Read(bytes.NewReader(data), RowsFile) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if r.Seq != n || r.RowID != fmt.Sprintf("row-%d", n-1) {
			t.Errorf("row %d: seq %d, id %q", n, r.Seq, r.RowID)
		}
		if n == 1 && r.Why["prev_sha256"] == "" || n > 1 && *r.PrevSHA256 != hash(lines[n-2]) {
			t.Errorf("row %d: prev_sha256 %v", n, r.PrevSHA256)
		}
	}
	if n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

// A journal goes on where it ended.
func TestJournalResumes(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	warm, good, bad := numbered(t, 0), numbered(t, 1), numbered(t, 2)
	warm.Phase = Warmup
	bad.Status, bad.FailKind, bad.Error = Failed, new("truncated"), new("the stream ended early")
	clearWhy(bad, "fail_kind", "error")
	for _, r := range []*Row{warm, good, bad} {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j, err = OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if j.Runs() != 3 || j.Rows() != 3 || j.Torn() != 0 {
		t.Errorf("runs %d, rows %d, torn %d, want 3, 3, 0", j.Runs(), j.Rows(), j.Torn())
	}
	if err := j.Append(numbered(t, 3)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := faults(t, dir); got != nil {
		t.Errorf("faults: %q", got)
	}
}

func TestJournalHasOneWriter(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), "another assay is writing to "+dir) {
		t.Errorf("second writer: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err = OpenJournal(dir)
	if err != nil {
		t.Fatalf("after the first writer closed: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestJournalRefusesInvalidRows(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r := valid(t)
	r.TTFTMS = nil
	if err := j.Append(r); err == nil || !strings.Contains(err.Error(), "ttft_ms: null without a reason") {
		t.Errorf("error: %v", err)
	}
	if data, err := os.ReadFile(j.Path()); err != nil || len(data) > 0 {
		t.Errorf("%q was written, %v", data, err)
	}
}

// A crash can end the journal at any byte of the row being written, before or
// after its head is written. Whole rows stay, the rest is set aside, and the
// next row follows on.
func TestJournalAfterACrash(t *testing.T) {
	whole := t.TempDir()
	journalOf(t, whole, 3)
	data, err := os.ReadFile(filepath.Join(whole, RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.IndexByte(data, '\n') + 1
	second += bytes.IndexByte(data[second:], '\n') + 1
	short := t.TempDir()
	journalOf(t, short, 2)
	head, err := os.ReadFile(filepath.Join(short, HeadFile))
	if err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		rows string // what the crash left
		torn string
		keep int // rows
	}{
		"first byte":         {string(data[:second+1]), "{\n", 2},
		"half a row":         {string(data[:second+500]), string(data[second:second+500]) + "\n", 2},
		"no line feed":       {string(data[:len(data)-1]), string(data[second:]), 2},
		"no head":            {string(data), "", 3},
		"a line of zeros":    {string(data[:second]) + "\x00\x00\x00\n", "\x00\x00\x00\n\n", 2},
		"nothing was lost":   {string(data[:second]), "", 2},
		"zeros, no line end": {string(data[:second]) + "\x00\x00", "\x00\x00\n", 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, RowsFile), tt.rows)
			write(t, filepath.Join(dir, HeadFile), string(head))
			j, err := OpenJournal(dir)
			if err != nil {
				t.Fatal(err)
			}
			if j.Rows() != tt.keep {
				t.Errorf("%d rows kept, want %d", j.Rows(), tt.keep)
			}
			if err := j.Append(numbered(t, 7)); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if got := faults(t, dir); got != nil {
				t.Errorf("faults: %q", got)
			}
			torn, err := os.ReadFile(filepath.Join(dir, TornFile))
			if tt.torn != "" && err != nil || string(torn) != tt.torn {
				t.Errorf("set aside: %q, %v, want %q", torn, err, tt.torn)
			}
		})
	}
}

// Damage that no crash explains is not repaired in silence.
func TestJournalRefusesDamage(t *testing.T) {
	tests := map[string]struct {
		damage func(lines []string) []string
		want   string
	}{
		"row gone":        {func(l []string) []string { return append(l[:1:1], l[2:]...) }, "rows.jsonl:2: seq: 3, want 2"},
		"last row gone":   {func(l []string) []string { return l[:2] }, "2 rows, but there were 3: the last ones are missing"},
		"last row cut":    {func(l []string) []string { return append(l[:2:2], l[2][:100]) }, "rows.jsonl:3: the line is torn"},
		"last row zeroed": {func(l []string) []string { return append(l[:2:2], "\x00\x00\n") }, "rows.jsonl:3: offset 1: broken JSON"},
		"changed":         {func(l []string) []string { l[0] = strings.Replace(l[0], "1439.613", "1339.613", 1); return l }, "rows.jsonl:2: prev_sha256:"},
		"last changed":    {func(l []string) []string { l[2] = strings.Replace(l[2], "1439.613", "1339.613", 1); return l }, "rows.jsonl:3: the end differs from rows.head"},
		"blank line":      {func(l []string) []string { l[1] += "\n"; return l }, "rows.jsonl:3: a blank line"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			journalOf(t, dir, 3)
			path := filepath.Join(dir, RowsFile)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := strings.Join(tt.damage(strings.SplitAfter(string(data), "\n")[:3]), "")
			write(t, path, damaged)
			if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("opening: %v, want %q", err, tt.want)
			}
			if got := faults(t, dir); !strings.Contains(strings.Join(got, "\n"), tt.want) {
				t.Errorf("faults: %q, want %q", got, tt.want)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != damaged {
				t.Errorf("the damaged file was changed: %v", err)
			}
		})
	}
}

// Any line that is deleted, doubled, moved or changed is found.
func TestCheckFindsEveryChange(t *testing.T) {
	whole := t.TempDir()
	const rows = 4
	journalOf(t, whole, rows)
	data, err := os.ReadFile(filepath.Join(whole, RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(whole, HeadFile))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, HeadFile), string(head))
	rapid.Check(t, func(rt *rapid.T) {
		lines := bytes.SplitAfter(bytes.Clone(data), []byte{'\n'})[:rows]
		i := rapid.IntRange(0, rows-1).Draw(rt, "line")
		switch what := rapid.SampledFrom([]string{"delete", "double", "move", "byte", "cut", "tail"}).Draw(rt, "what"); what {
		case "delete":
			lines = slices.Delete(lines, i, i+1)
		case "double":
			to := rapid.IntRange(0, rows).Draw(rt, "to")
			lines = slices.Insert(lines, to, lines[i])
		case "move":
			to := rapid.IntRange(0, rows-1).Filter(func(n int) bool { return n != i }).Draw(rt, "to")
			lines[i], lines[to] = lines[to], lines[i]
		case "byte":
			at := rapid.IntRange(0, len(lines[i])-1).Draw(rt, "at")
			lines[i][at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "xor"))
		case "cut":
			lines[i] = lines[i][:rapid.IntRange(0, len(lines[i])-1).Draw(rt, "length")]
		case "tail":
			lines = lines[:i]
		}
		write(t, filepath.Join(dir, RowsFile), string(bytes.Join(lines, nil)))
		if got := faults(t, dir); len(got) == 0 {
			rt.Fatal("not found")
		}
	})
}

func write(t testing.TB, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}
