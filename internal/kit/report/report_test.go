package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

// seedReport sums up the nine published rows that the format comes from.
func seedReport(t *testing.T) *Report {
	t.Helper()
	f, err := os.Open("../row/testdata/seed-rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := NewBuilder()
	for r, err := range row.Read(f, "seed-rows.jsonl") {
		if err != nil {
			t.Fatal(err)
		}
		b.Add(r)
	}
	return b.Report()
}

// The medians of the nine rows, picked by hand: the middle one of three.
func TestSeedRowMedians(t *testing.T) {
	type want struct {
		ctx                  string
		ttft, prompt, decode stats.Summary
	}
	three := func(low, middle, high float64) stats.Summary {
		return stats.Summary{N: 3, Median: middle, Min: low, Max: high}
	}
	wants := []want{
		{"4K", three(1058.692, 1060.201, 1439.613), three(2804.9, 3808.7, 3814.1), three(202.136, 205.263, 212.961)},
		{"32K", three(6356.087, 6369.871, 6507.943), three(4922.9, 5029.6, 5040.5), three(181.856, 189.155, 196.956)},
		{"128K", three(26250.25, 26628.855, 26810.397), three(4775.6, 4808.2, 4877.6), three(163.457, 172.325, 178.13)},
	}
	r := seedReport(t)
	if len(r.Cells) != len(wants) {
		t.Fatalf("%d cells, want %d", len(r.Cells), len(wants))
	}
	for i, w := range wants {
		c := r.Cells[i]
		got := want{c.Ctx, c.Stat("ttft").Summary, c.Stat("prompt").Summary, c.Stat("decode").Summary}
		if diff := cmp.Diff(w, got, cmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("cell %d (-want +got):\n%s", i, diff)
		}
		if c.Rule != "own" || !strings.Contains(c.DecodeRule, "(completion_tokens - 1) / (t_finish - t_first_token)") {
			t.Errorf("%s: rule %q: %q", c.Ctx, c.Rule, c.DecodeRule)
		}
	}
	if !r.Clean() {
		t.Error("nothing failed and nothing is withheld, but the report is not clean")
	}
}

func TestSeedRowTables(t *testing.T) {
	r := seedReport(t)
	for name, o := range map[string]Options{
		"seed.txt":        {},
		"seed-narrow.txt": {Width: 72},
		"seed-80.txt":     {Width: 80},
		"seed-wide.txt":   {Width: 80, Wide: true},
		"seed.md":         {Markdown: true},
	} {
		golden(t, name, printed(t, r, o))
	}
}

func printed(t interface{ Fatal(args ...any) }, r *Report, o Options) string {
	var b bytes.Buffer
	if err := r.Print(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ours is a good row of our own engine.
func ours(n int) *row.Row {
	return &row.Row{
		Schema: row.Schema, TimingRule: "timing-1", DecodeRule: row.DecodeRule,
		RowID: fmt.Sprintf("assay-512-%d", n), Arm: "assay", Engine: "assay", Ctx: "512",
		Phase: row.Measure, Status: row.OK, StartID: new("s1"), Repeat: n,
		EngineCommit: new("0123456789abcdef0123"), Quant: new("IQ3_S"),
		TTFTMS: new(100 + float64(n)), PromptTokSClient: new(5000 - float64(n)), DecodeTokS: new(50 + float64(n)/10),
		CachedTokens: new(0), CountCheck: row.CountCheck{Verdict: new("agree-independent")},
	}
}

// mixed has a bit of everything that can go wrong.
func mixed() []*row.Row {
	var rows []*row.Row
	add := func(change func(*row.Row)) {
		r := ours(len(rows))
		if change != nil {
			change(r)
		}
		rows = append(rows, r)
	}
	add(func(r *row.Row) { r.Phase, r.TTFTMS = row.Warmup, new(9999.0) })
	add(nil)
	add(nil)
	add(func(r *row.Row) {
		r.CountCheck.Verdict = new("count-mismatch")
		r.DecodeTokS, r.DecodeTokSWithheld = nil, new(99.9)
		for _, f := range []string{"decode_tok_s", "decode_tok_s_simple"} {
			r.Withheld = append(r.Withheld, row.Withheld{Figure: f, Value: new(99.9), Unit: "tok/s", Codes: []string{"count-mismatch"}, Why: "usage says 128, the text 90"})
		}
	})
	add(func(r *row.Row) {
		r.PromptTokSClient, r.PromptTokens = nil, nil
		r.Null("the server gives no count of prompt tokens", "prompt_tok_s_client")
	})
	add(func(r *row.Row) { r.CachedTokens = nil; r.CountCheck.Verdict = new("unchecked") })
	add(func(r *row.Row) { r.Flags = []string{row.FlagShort, row.FlagLeftOut}; r.DecodeTokS = new(1.0) })
	add(func(r *row.Row) {
		r.Status, r.FailKind, r.Error = row.Failed, new("stream-error"), new("out of memory\x1b[31m | <b>")
		r.TTFTMS, r.DecodeTokS = new(1.0), nil
	})
	add(func(r *row.Row) {
		r.Ctx, r.DecodeTokS = "2K", nil
		r.Withheld = []row.Withheld{{Figure: "decode_tok_s", Codes: []string{"clumped"}, Why: "12 intervals, at least 16 are needed"}}
	})
	add(func(r *row.Row) { r.Ctx, r.Arm = "2K", "other|arm" })
	add(func(r *row.Row) { r.EngineCommit = new("fedcba9876543210"); r.StartID = new("s2") })
	add(func(r *row.Row) { r.TimingRule, r.DecodeRule = "timing-0", "timing-0: some other way" })
	add(func(r *row.Row) { r.Ctx, r.Status, r.FailKind = "1Ki", row.Stopped, new("memory") })
	return rows
}

func summed(rows []*row.Row) *Report {
	b := NewBuilder()
	for _, r := range rows {
		b.Add(r)
	}
	return b.Report()
}

func TestMixedTables(t *testing.T) {
	r := summed(mixed())
	golden(t, "mixed.txt", printed(t, r, Options{Width: 100}))
	golden(t, "mixed.md", printed(t, r, Options{Markdown: true}))
	js, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "mixed.json", string(js)+"\n")
	if r.Clean() {
		t.Error("runs failed and figures are withheld, but the report is clean")
	}
}

// Rows of another tool keep a withheld rate in their own field.
func TestForeignWithheldRate(t *testing.T) {
	r := ours(1)
	r.Schema, r.TimingRule, r.Withheld = "", "", nil
	r.DecodeTokS, r.DecodeTokSWithheld = nil, new(123.0)
	r.CountCheck = row.CountCheck{Verdict: new("COUNT-MISMATCH"), Rule: new("3 %")}
	c := summed([]*row.Row{r}).Cells[0]
	want := []Gone{{Figure: "decode_tok_s", Runs: 1, Codes: []string{"COUNT-MISMATCH"}, Why: "its own rule: 3 %", RowID: r.RowID, StartID: r.StartID}}
	if diff := cmp.Diff(want, c.Withheld); diff != "" || c.Stat("decode") != nil {
		t.Errorf("decode %v, withheld (-want +got):\n%s", c.Stat("decode"), diff)
	}
}

// Against a plain second way of counting: every median is over just the rows
// of its cell that are measured, good, long enough and don't withhold it, and
// rows that differ in rule or make are never in one cell.
func TestReportProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type key struct{ arm, ctx, rule, commit string }
		want := map[key][]float64{}
		cells, failed := map[key]bool{}, map[[2]string]bool{}
		var rows []*row.Row
		for i := range rapid.IntRange(0, 40).Draw(t, "rows") {
			r := ours(i)
			r.Arm = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "arm")
			r.Ctx = rapid.SampledFrom([]string{"512", "2K"}).Draw(t, "ctx")
			r.TimingRule = rapid.SampledFrom([]string{"timing-1", "timing-2"}).Draw(t, "rule")
			r.EngineCommit = new(rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "commit"))
			r.DecodeTokS = new(rapid.Float64Range(0.1, 1000).Draw(t, "decode"))
			k := key{r.Arm, r.Ctx, r.TimingRule, *r.EngineCommit}
			counts, hasCell := true, true
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				r.Phase = row.Warmup
				counts, hasCell = false, false
			case 1:
				r.Status, r.EngineCommit = row.Failed, nil
				counts, hasCell = false, false
				failed[[2]string{r.Arm, r.Ctx}] = true
			case 2:
				r.Flags = []string{row.FlagLeftOut}
				counts = false
			case 3:
				r.Withheld = []row.Withheld{{Figure: "decode_tok_s", Codes: []string{"clumped"}, Value: r.DecodeTokS}}
				if rapid.Bool().Draw(t, "shown all the same") {
					r.DecodeTokS = nil
				}
				counts = false
			}
			if counts {
				want[k] = append(want[k], *r.DecodeTokS)
			}
			if hasCell {
				cells[k] = true
			}
			rows = append(rows, r)
		}
		for k := range cells {
			delete(failed, [2]string{k.arm, k.ctx}) // they are counted in a cell with good runs
		}
		rep := summed(rows)
		if len(rep.Cells) != len(cells)+len(failed) || rep.Rows != len(rows) {
			t.Fatalf("%d cells, %d rows, want %d + %d, %d", len(rep.Cells), rep.Rows, len(cells), len(failed), len(rows))
		}
		for _, c := range rep.Cells {
			k := key{c.Arm, c.Ctx, c.Rule, c.Settings["engine commit"]}
			s, ok := stats.Summarize(want[k])
			if got := c.Stat("decode"); !ok != (got == nil) || ok && got.Summary != s {
				t.Fatalf("%v: %+v, want %+v", k, got, s)
			}
		}
		for _, o := range []Options{{}, {Width: 60}, {Markdown: true}} {
			if text := printed(t, rep, o); !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b") {
				t.Fatalf("not printable: %q", text)
			}
		}
	})
}

// No line is wider than asked, but for words and names that can't be broken.
func TestWidth(t *testing.T) {
	for _, width := range []int{60, 72, 80, 100, 120} {
		for line := range strings.Lines(printed(t, seedReport(t), Options{Width: width})) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.000", 0.01234: "0.012", 1.2345: "1.234", 12.345: "12.35", 99.96: "99.96", 123.45: "123.5", 1234.5: "1234", 26628.855: "26629", -12.345: "-12.35", math.MaxInt32: "2147483647",
	} {
		if got := number(v, decimals(v)); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}

func TestTokensOf(t *testing.T) {
	for ctx, want := range map[string]float64{"512": 512, "4K": 4000, "4Ki": 4096, "1.5K": 1500, "1M": 1e6, "": -1, "long": -1} {
		if got := tokensOf(ctx); got != want {
			t.Errorf("%q is %v tokens, want %v", ctx, got, want)
		}
	}
}
