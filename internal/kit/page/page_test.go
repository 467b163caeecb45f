package page

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

var update = flag.Bool("update", false, "rewrite golden files")

// made is a row as a run makes it. arm "a" decodes at 100 tok/s and "b" at 150,
// each with a little spread.
func made(arm, ctx string, i int) *row.Row {
	decode := map[string]float64{"a": 100, "b": 150}[arm] + float64(i%7)*0.5
	if decode < 10 {
		decode = 80
	}
	ttft := 200 + float64(i%5)
	r := &row.Row{
		Schema: row.Schema, AssayVersion: "1", TimingRule: "timing-1", RowID: fmt.Sprintf("%s/%s/run-%03d", arm, ctx, i),
		Arm: arm, Cell: arm + "/" + ctx, Engine: "engine", Quant: new("Q8_0"), Ctx: ctx, Phase: row.Measure, Repeat: i, Attempt: 1, Run: i + 1,
		CommandLine: []string{"serve", "--arm", arm}, StartID: new(fmt.Sprintf("start-%s", arm)), SliceSHA256: new(strings.Repeat("5", 64)),
		Requested: row.Requested{MaxTokens: new(64), Endpoint: new("/v1/chat/completions")},
		Status:    row.OK, DecodeTokS: &decode, DecodeRule: "timing-1: in words", TTFTMS: &ttft, PromptTokSClient: new(5000.0),
		PromptTokens: new(512), CachedTokens: new(0), CountCheck: row.CountCheck{Verdict: new("agree-independent")},
		Telemetry: row.Telemetry{Window: row.Window{T0: new(1.7e9 + float64(i))}, Load: row.Load{NoiseProcsMax: new(0)}},
		Host:      row.Host{CPUModel: new("A processor"), Cores: new(2)},
		Why:       map[string]string{},
	}
	return r
}

func twoArms() []*row.Row {
	var rows []*row.Row
	for _, ctx := range []string{"512", "2K"} {
		for _, arm := range []string{"a", "b"} {
			for i := range 6 {
				rows = append(rows, made(arm, ctx, i))
			}
		}
	}
	return rows
}

func pageOf(t testing.TB, o Options, rows ...*row.Row) *Page {
	t.Helper()
	b := NewBuilder(o)
	f := &Folder{Name: "rows"}
	for _, r := range rows {
		b.Add(r, f)
	}
	p, err := b.Page(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func html(t testing.TB, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference:\n%s", path, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

// outline is what a reader gets of a page: its text, one line a block. What
// charts draw is left out, what they say in words is not.
func outline(page string) string {
	body := page[strings.Index(page, "<body>"):]
	for _, r := range []struct{ of, to string }{
		{`(?s)<svg class="symbols".*?</svg>`, ""},
		{`(?s)<details><summary>The tests in words.*?</details>`, ""}, // package report's
		{`<use [^>]*/>`, ""},
		{`(?s)<use [^>]*>.*?</use>|<text .*?</text>`, ""},
		{`(?s)<(/?)(section|header|footer|h1|h2|h3|p|li|tr|caption|figcaption|dt|dd|desc|title|pre|summary)\b[^>]*>`, "\n"},
		{`</t[hd]>`, " | "},
		{`<[^>]*>`, ""},
		{`&nbsp;`, " "},
		{`[ \t]+`, " "},
		{`\n\s*`, "\n"},
	} {
		body = regexp.MustCompile(r.of).ReplaceAllString(body, r.to)
	}
	return strings.TrimSpace(body) + "\n"
}

func TestReportOfTwoArms(t *testing.T) {
	rows := twoArms()
	warm := made("a", "512", 0)
	warm.Phase, warm.RowID = row.Warmup, "a/warmup"
	failed := made("b", "2K", 6)
	failed.Status, failed.FailKind, failed.Error = row.Failed, new("stream-error"), new("the server hung up")
	withheld := made("b", "2K", 7)
	withheld.Withheld = []row.Withheld{{Figure: "decode_tok_s", Value: new(999.5), Unit: "tok/s", Codes: []string{"clumped"}, Why: "one read holds half of all tokens"}}
	withheld.DecodeTokS, withheld.DecodeTokSWithheld = nil, new(999.5)
	rows = append(rows, warm, failed, withheld)
	p := pageOf(t, Options{Version: "1"}, rows...)
	page := html(t, p)
	golden(t, "two-arms.txt", outline(page))
	if strings.Contains(page, "999.5") {
		t.Error("a withheld value is shown")
	}
	var md bytes.Buffer
	if err := p.WriteMarkdown(&md); err != nil {
		t.Fatal(err)
	}
	// Package report answers for its own table and notes.
	var table bytes.Buffer
	if err := p.summary.Print(&table, report.Options{Markdown: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "two-arms.md", strings.Replace(md.String(), table.String(), "(the summary)\n", 1))
}

// The same rows give the same bytes.
func TestPageIsStable(t *testing.T) {
	a, b := html(t, pageOf(t, Options{}, twoArms()...)), html(t, pageOf(t, Options{}, twoArms()...))
	if a != b {
		t.Error("two pages of the same rows differ")
	}
}

func TestEveryRunIsAMark(t *testing.T) {
	page := html(t, pageOf(t, Options{}, twoArms()...))
	for _, want := range []string{"a, run 1: 100.0 tok/s", "b, run 6: 152.5 tok/s", "a, run 1: 200.0 ms"} {
		if got := strings.Count(page, want); got != 2 { // in two contexts
			t.Errorf("%q is there %d times, want 2", want, got)
		}
	}
}

func TestNoRows(t *testing.T) {
	page := html(t, pageOf(t, Options{}))
	if !strings.Contains(page, "There are no rows yet.") {
		t.Error("a page without rows does not say so")
	}
}

// Published rows of another tool have no evidence, and say less.
func TestSeedRows(t *testing.T) {
	f, err := os.Open("../row/testdata/seed-rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []*row.Row
	for r, err := range row.Read(f, "seed") {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	golden(t, "seed.txt", outline(html(t, pageOf(t, Options{Version: "1"}, rows...))))
}

// Rows of one arm are told apart by their folders only where they are not runs of
// the same thing.
func TestArmsOfSeveralFolders(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*row.Row)
		split  bool
		want   []string
	}{
		{"the same thing", func(*row.Row) {}, false, []string{"a"}},
		{"another commit", func(r *row.Row) { r.EngineCommit = new("c0ffee") }, false, []string{"a (before)", "a (after)"}},
		{"asked for", func(*row.Row) {}, true, []string{"a (before)", "a (after)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := NewBuilder(Options{Split: tc.split})
			before, after := &Folder{Name: "runs/before"}, &Folder{Name: "runs/after"}
			for i := range 6 {
				b.Add(made("a", "512", i), before)
				r := made("a", "512", i)
				tc.change(r)
				b.Add(r, after)
			}
			p, err := b.Page(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range p.arms {
				got = append(got, a.label)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("arms %q, want %q", got, tc.want)
			}
		})
	}
}

// What must never be in a page: anything that loads, runs or leaves the place of
// text. The marks stand in every text of a row.
func TestHostileTexts(t *testing.T) {
	for i, evil := range []string{
		`</style></title></script><script>alert(1)</script>`,
		`"><img src=x onerror=alert(1)>`,
		`' onmouseover='alert(1)`,
		`{{.Policy}}{{template "page"}}`,
		`]]></svg><foreignObject><iframe src=//evil></iframe>`,
		`javascript:alert(1)`,
		"line\nbreak\u202etxt.exe\x1b[31m\x00",
		`<!--`, `&lt;script&gt;`, `https://evil.example/x.png`,
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var rows []*row.Row
			for _, arm := range []string{"a", "b"} {
				for n := range 6 {
					r := made(arm, "512", n)
					poison(reflect.ValueOf(r).Elem(), evil)
					r.Status, r.Schema, r.Arm, r.Phase = row.OK, row.Schema, arm+evil, row.Measure
					if n == 5 {
						r.Status = row.Failed
					}
					rows = append(rows, r)
				}
			}
			b := NewBuilder(Options{})
			f := &Folder{Name: evil, Path: t.TempDir(), Link: "./" + urlPath(evil)}
			for _, r := range rows {
				b.Add(r, f)
			}
			p, err := b.Page(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			page := html(t, p)
			clean := html(t, pageOf(t, Options{}, twoArms()...))
			allowed := tags(clean)
			for tag := range tags(page) {
				if !allowed[tag] {
					t.Errorf("a tag that a harmless page does not have: <%s>", tag)
				}
			}
			for _, not := range []string{"<script", "<img", "<iframe", "onerror=alert", "onmouseover='", "href=\"javascript", "\u202e", "\x1b", "\x00", "<!--", "src="} {
				if n := strings.Count(strings.ReplaceAll(page, "&lt;", ""), not); n != 0 && tagged(page, not) {
					t.Errorf("%q stands in a tag of the page", not)
				}
			}
			var md bytes.Buffer
			if err := p.WriteMarkdown(&md); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(md.String()) {
				if !strings.HasPrefix(line, "    ") && (strings.Contains(line, "<script") || strings.Contains(line, "<img") || strings.ContainsAny(line, "\x1b\x00\u202e")) {
					t.Errorf("Markdown: %q", line)
				}
			}
		})
	}
}

// tags are the names of a page's tags.
func tags(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`<([a-zA-Z!/][^\s>]*)`).FindAllStringSubmatch(page, -1) {
		out[m[1]] = true
	}
	return out
}

// tagged says whether a text stands within a tag outside of a quoted value, or
// where no text may hold it at all.
func tagged(page, what string) bool {
	if strings.ContainsAny(what, "\u202e\x1b\x00") || strings.HasPrefix(what, "<") {
		return strings.Contains(page, what)
	}
	for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(page, -1) {
		if strings.Contains(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`), what) || strings.HasPrefix(what, "href") && strings.Contains(tag, what) {
			return true
		}
	}
	return false
}

// poison puts a text in every place of a row that holds one.
func poison(v reflect.Value, evil string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Pointer:
		if v.IsNil() && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			poison(v.Elem(), evil)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			poison(v.Field(i), evil)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			return
		}
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			poison(v.Index(i), evil)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(evil), reflect.ValueOf(evil))
		}
	}
}

// A thousand rows stay a file that opens at once. The time is far above what it
// takes (about a tenth), for machines that do something else meanwhile.
func TestThousandRows(t *testing.T) {
	var rows []*row.Row
	for k := range 20 {
		for _, arm := range []string{"a", "b"} {
			for i := range 25 {
				rows = append(rows, made(arm, fmt.Sprintf("%dK", k+1), i))
			}
		}
	}
	began := time.Now()
	page := html(t, pageOf(t, Options{}, rows...))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("made in %v", took)
	}
	if len(page) > 2<<20 {
		t.Errorf("%d bytes, more than 2 MiB", len(page))
	}
	if n := strings.Count(page, `class="mark a`); n < 2000 {
		t.Errorf("%d marks, want one for each of 1000 runs in two charts", n)
	}
}

// What is withheld, and what failed, leads to the evidence of the very run, also where
// rows of several folders bear one name.
func TestReasonsLeadToEvidence(t *testing.T) {
	b := NewBuilder(Options{})
	for i, name := range []string{"first", "second"} {
		f := &Folder{Name: name, Path: t.TempDir(), Link: "./" + name}
		rows := []*row.Row{made("a", "512", 0), made("a", "512", 1), made("a", "512", 2)}
		if i == 1 {
			rows[1].Withheld = []row.Withheld{{Figure: "ttft_ms", Codes: []string{"client-lag"}, Why: "late"}}
			rows[2].Status, rows[2].Error = row.Failed, new("it hung up")
		}
		for _, r := range rows {
			r.StartID, r.Evidence.Dir = new("start-"+name), new("evidence/"+r.RowID)
			b.Add(r, f)
		}
	}
	p, err := b.Page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := html(t, p)
	for _, want := range []string{
		`late <a href="./second/evidence/a/512/run-001/">evidence</a>`,
		`it hung up <a href="./second/evidence/a/512/run-002/">evidence</a>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
}
