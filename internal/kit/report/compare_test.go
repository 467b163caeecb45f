package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// runsOf are good rows of an arm, with these decode rates, all of one start.
func runsOf(arm string, rates ...float64) []*row.Row {
	var out []*row.Row
	for i, v := range rates {
		r := ours(i)
		r.Arm, r.Cell, r.RowID = arm, arm+"/512", fmt.Sprintf("%s-%d", arm, i)
		r.StartID, r.DecodeTokS = new("start of "+arm), new(v)
		r.SliceSHA256, r.PromptTokens = new(strings.Repeat("ab", 32)), new(540)
		r.Requested = row.Requested{MaxTokens: new(128), Cache: new("cold"), NaturalStop: new(false), Sampling: row.Sampling{Temperature: new(0.0)}}
		r.CommandLine = []string{"assay", "serve", "--port", "80" + arm, "--threads", "2"}
		out = append(out, r)
	}
	return out
}

var (
	steady = []float64{50, 50.1, 50.2, 50.3, 50.4, 50.5}
	slower = []float64{45, 45.1, 45.2, 45.3, 45.4, 45.5}
	level  = []float64{49.95, 50.15, 50.25, 50.35, 50.38, 50.6}
)

func each(rows []*row.Row, change func(i int, r *row.Row)) []*row.Row {
	for i, r := range rows {
		change(i, r)
	}
	return rows
}

func compared(t testing.TB, o CompareOptions, arms ...[]*row.Row) *Comparison {
	t.Helper()
	var list []ArmRows
	for _, rows := range arms {
		list = append(list, ArmRows{Label: rows[0].Arm, From: "test", Rows: rows})
	}
	c, err := Compare(list, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestVerdicts(t *testing.T) {
	for name, tt := range map[string]struct {
		metric string
		other  []*row.Row
		want   Verdict
		words  string
	}{
		"slower":         {"", runsOf("b", slower...), Slower, "512: b is slower than a: decode 45.25 against 50.25 tok/s, 10.0 % lower"},
		"faster":         {"decode", runsOf("b", 60, 61, 62, 63, 64, 65), Faster, "b is faster than a: decode 62.50 against 50.25 tok/s, 24 % higher"},
		"noise":          {"", runsOf("b", level...), Same, "a are the same within noise: decode 50.30 against 50.25 tok/s; what can't be ruled out lies between"},
		"too few":        {"", runsOf("b", 10), Unknown, "can't tell whether the decode of b differs from that of a: only 6 and 1 runs show it, and 4 of each are needed"},
		"less is faster": {"ttft", each(runsOf("b", steady...), func(_ int, r *row.Row) { *r.TTFTMS /= 2 }), Faster, "b is faster than a: TTFT 51.25 against 102.5 ms, 50 % lower"},
		"memory": {"memory", each(runsOf("b", steady...), func(i int, r *row.Row) {
			r.Telemetry.Pinned.VmRSSMaxBytes = new(int64(300<<20 + i))
		}), More, "b is at more than a: peak memory 300.0 against 100.0 MiB, 200 % higher"},
		"none has it": {"load", runsOf("b", steady...), Unknown, "no run of the base has it"},
	} {
		t.Run(name, func(t *testing.T) {
			base := each(runsOf("a", steady...), func(i int, r *row.Row) { r.Telemetry.Pinned.VmRSSMaxBytes = new(int64(100<<20 + i)) })
			c := compared(t, CompareOptions{Metric: tt.metric}, base, tt.other)
			ch := c.Pairs[0].Change(c.Metric)
			if ch.Verdict != tt.want || !strings.Contains(ch.Words, tt.words) {
				t.Errorf("%s: %s\nwant %s: ...%s", ch.Verdict, ch.Words, tt.want, tt.words)
			}
			if (ch.Verdict == Unknown) == c.Complete() {
				t.Errorf("complete: %v with verdict %s", c.Complete(), ch.Verdict)
			}
			for _, beside := range c.Pairs[0].Changes[1:] {
				if beside.Test != nil || beside.PAdjusted != nil || beside.Verdict != "" {
					t.Errorf("%s is tested though %s was declared", beside.Figure, c.Metric)
				}
			}
		})
	}
}

// What a withheld figure was must not come back through a comparison.
func TestWithheldTakesNoPart(t *testing.T) {
	other := each(runsOf("b", append([]float64{1000}, steady...)...), func(i int, r *row.Row) {
		if i == 0 {
			r.Withheld = []row.Withheld{{Figure: decodePath, Value: r.DecodeTokS, Codes: []string{"clumped"}}}
		}
	})
	other = append(other, each(runsOf("b", 1, 2, 3), func(i int, r *row.Row) {
		switch i {
		case 0:
			r.Phase = row.Warmup
		case 1:
			r.Status, r.FailKind = row.Failed, new("truncated")
		case 2:
			r.Flags = []string{row.FlagShort, row.FlagLeftOut}
		}
	})...)
	c := compared(t, CompareOptions{}, runsOf("a", steady...), other)
	ch := c.Pairs[0].Change(decodePath)
	if *ch.Ratio != 1 || ch.Other.N != 6 || ch.Other.Withheld != 1 {
		t.Errorf("ratio %v of %+v", *ch.Ratio, ch.Other)
	}
	text := printedComparison(t, c, Options{})
	for _, want := range []string{
		"left out of b: 1 warm-up, 1 failed: truncated, 1 short (under 90 % of the asked tokens).",
		"decode is withheld in 0 runs of the base and 1 of this arm, which take no part in it.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestMismatches(t *testing.T) {
	for kind, change := range map[string]func(i int, r *row.Row){
		"slice":         func(_ int, r *row.Row) { r.SliceSHA256 = new(strings.Repeat("cd", 32)) },
		"prompt-tokens": func(_ int, r *row.Row) { *r.PromptTokens = 546 },
		"asked-tokens":  func(_ int, r *row.Row) { r.Requested.NaturalStop = new(true) },
		"sampling":      func(_ int, r *row.Row) { r.Requested.Sampling.Temperature = new(0.7) },
		"reasoning":     func(_ int, r *row.Row) { r.Requested.Reasoning = new("on") },
		"cache":         func(_ int, r *row.Row) { r.Requested.Cache = new("warm") },
		"imported":      func(_ int, r *row.Row) { r.Flags = []string{"imported"} },
		"mixed": func(i int, r *row.Row) {
			if i == 3 {
				r.EngineCommit = new("another")
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			other := each(runsOf("b", slower...), change)
			c := compared(t, CompareOptions{}, runsOf("a", steady...), other)
			p := c.Pairs[0]
			if len(p.Refused) != 1 || p.Refused[0].Kind != kind || len(p.Changes) != 0 || !c.Refused() || c.Complete() {
				t.Fatalf("refused %+v", p.Refused)
			}
			if text := printedComparison(t, c, Options{}); !strings.Contains(text, "not comparable: they differ in "+kind) || !strings.Contains(text, "--allow "+kind+" compares them all the same") {
				t.Errorf("not told:\n%s", text)
			}
			c = compared(t, CompareOptions{Allow: []string{kind}}, runsOf("a", steady...), other)
			if p := c.Pairs[0]; len(p.Refused) != 0 || len(p.Allowed) != 1 || p.Change(decodePath).Verdict != Slower {
				t.Errorf("allowed: %+v", p)
			}
			if text := printedComparison(t, c, Options{}); !strings.Contains(text, "compared though b and a differ in "+kind) {
				t.Errorf("not told:\n%s", text)
			}
		})
	}
	// A token or two of a nonce are no difference, nor is another seed.
	other := each(runsOf("b", slower...), func(i int, r *row.Row) {
		*r.PromptTokens, r.Requested.Sampling.Seed = 545, new(int64(i))
	})
	if p := compared(t, CompareOptions{}, runsOf("a", steady...), other).Pairs[0]; len(p.Refused) > 0 {
		t.Errorf("refused for %+v", p.Refused)
	}
}

func TestTimingRulesAreNeverCompared(t *testing.T) {
	other := each(runsOf("b", slower...), func(_ int, r *row.Row) { r.TimingRule = "timing-2" })
	c := compared(t, CompareOptions{Allow: AllowKinds()}, runsOf("a", steady...), other)
	if p := c.Pairs[0]; len(p.Refused) != 1 || p.Refused[0].Kind != timingRule || !p.Refused[0].Never {
		t.Errorf("refused %+v", p.Refused)
	}
	arms := []ArmRows{{Label: "a", Rows: runsOf("a", steady...)}, {Label: "b", Rows: other}}
	for _, allow := range []string{timingRule, "everything"} {
		if _, err := Compare(arms, CompareOptions{Allow: []string{allow}}); err == nil {
			t.Errorf("--allow %s is taken", allow)
		}
	}
	// Another tool's rows have their own rule: whoever asks for them gets it.
	foreign := each(runsOf("b", slower...), func(_ int, r *row.Row) {
		r.Schema, r.TimingRule, r.DecodeRule = "", "", "theirs"
	})
	c = compared(t, CompareOptions{Allow: []string{"imported"}}, runsOf("a", steady...), foreign)
	if p := c.Pairs[0]; len(p.Refused) != 0 || len(p.Allowed) != 2 {
		t.Errorf("refused %+v, allowed %+v", p.Refused, p.Allowed)
	}
	// And among themselves they are compared as they are.
	c = compared(t, CompareOptions{}, each(runsOf("a", steady...), func(_ int, r *row.Row) {
		r.Schema, r.TimingRule, r.DecodeRule = "", "", "theirs"
	}), foreign)
	if p := c.Pairs[0]; len(p.Refused) != 0 || p.Change(decodePath).Verdict != Slower {
		t.Errorf("refused %+v", p.Refused)
	}
}

// started spreads rows over starts of a size, which begin every 100 s, turn is
// the place of each start among those of both arms.
func started(rows []*row.Row, size int, turn func(start int) int) []*row.Row {
	return each(rows, func(i int, r *row.Row) {
		n := i / size
		r.StartID = new(fmt.Sprintf("%s-%d", r.Arm, n))
		r.Telemetry.Window.T0 = new(float64(100*turn(n) + i%size))
	})
}

// rates are n decode rates around a middle, in an order that is far from sorted.
func rates(n int, middle float64) []float64 {
	var out []float64
	for i := range n {
		out = append(out, middle*(1+0.001*float64((7*i)%n)))
	}
	return out
}

// abba is the place of each start of the first arm, and of the second, in A B B A.
func abba(second bool) func(int) int {
	return func(n int) int {
		if (n%2 == 1) != second {
			return 2*n + 1
		}
		return 2 * n
	}
}

func inARow(after int) func(int) int { return func(n int) int { return after + n } }

func TestWhatAnIntervalIsOver(t *testing.T) {
	slicesOf := func(rows []*row.Row) []*row.Row {
		return each(rows, func(i int, r *row.Row) { r.SliceSHA256 = new(fmt.Sprint("slice ", i%3)) })
	}
	for name, tt := range map[string]struct {
		base, other []*row.Row
		over        string
		units       [2]int
		note        string
	}{
		"one start each":           {runsOf("a", rates(6, 50)...), runsOf("b", rates(6, 45)...), OverRuns, [2]int{6, 6}, "a single start of each arm"},
		"starts not seen":          {each(runsOf("a", rates(6, 50)...), noStart), each(runsOf("b", rates(7, 45)...), noStart), OverRuns, [2]int{6, 7}, "a single start of each arm"},
		"two starts each":          {started(runsOf("a", rates(6, 50)...), 3, abba(false)), started(runsOf("b", rates(6, 45)...), 3, abba(true)), OverRuns, [2]int{6, 6}, "runs of 2 and 2 starts, which are too few"},
		"six starts in turns":      {started(runsOf("a", rates(18, 50)...), 3, abba(false)), started(runsOf("b", rates(18, 45)...), 3, abba(true)), OverStartPairs, [2]int{6, 6}, ""},
		"six starts, not in turns": {started(runsOf("a", rates(18, 50)...), 3, inARow(0)), started(runsOf("b", rates(18, 45)...), 3, inARow(6)), OverStarts, [2]int{6, 6}, ""},
		"four starts in turns":     {started(runsOf("a", rates(12, 50)...), 3, abba(false)), started(runsOf("b", rates(12, 45)...), 3, abba(true)), OverStarts, [2]int{4, 4}, ""},
		"runs in turns":            {started(runsOf("a", rates(8, 50)...), 8, inARow(0)), turned(runsOf("b", rates(8, 45)...)), OverRunPairs, [2]int{8, 8}, "a single start"},
		"several slices":           {slicesOf(runsOf("a", rates(9, 50)...)), slicesOf(runsOf("b", rates(9, 45)...)), OverRunPairs, [2]int{9, 9}, "runs are paired by slice"},
	} {
		t.Run(name, func(t *testing.T) {
			ch := compared(t, CompareOptions{}, tt.base, tt.other).Pairs[0].Change(decodePath)
			if ch.Over != tt.over || ch.Units != tt.units || !strings.Contains(ch.Note, tt.note) || tt.note == "" && ch.Note != "" {
				t.Errorf("over %s %v, note %q; want %s %v, %q", ch.Over, ch.Units, ch.Note, tt.over, tt.units, tt.note)
			}
			if ch.Verdict != Slower || ch.Interval == nil || !(ch.Interval.High < 0.93) {
				t.Errorf("%s, %+v", ch.Verdict, ch.Interval)
			}
		})
	}
}

func noStart(_ int, r *row.Row) { r.StartID = nil }

// turned gives runs times right beside those of an arm that was started in a row.
func turned(rows []*row.Row) []*row.Row {
	return each(rows, func(i int, r *row.Row) { r.Telemetry.Window.T0 = new(float64(i) + 0.5) })
}

// Two of four starts that were slow as a whole make a difference over runs, not
// over starts.
func TestStartsAreTheUnits(t *testing.T) {
	var a, b []float64
	for start := range 4 {
		for range 6 {
			a = append(a, 50+float64(start)/10+float64(len(a)%5)/100)
			v := 50 + float64(start)/10 - 0.05 + float64(len(b)%5)/100
			if start < 2 {
				v = 30 + float64(len(b)%5)/100
			}
			b = append(b, v)
		}
	}
	one := compared(t, CompareOptions{}, runsOf("a", a...), runsOf("b", b...)).Pairs[0].Change(decodePath)
	many := compared(t, CompareOptions{}, started(runsOf("a", a...), 6, inARow(0)), started(runsOf("b", b...), 6, inARow(4))).Pairs[0].Change(decodePath)
	if one.Verdict != Slower || many.Verdict != Same {
		t.Errorf("as runs: %s\nas starts: %s", one.Words, many.Words)
	}
}

// Holm: what one test shows, many together may not.
func TestOneFamily(t *testing.T) {
	at := func(ctx string, rows []*row.Row) []*row.Row {
		return each(rows, func(_ int, r *row.Row) { r.Ctx, r.Cell = ctx, r.Arm+"/"+ctx })
	}
	// Five above six of six: p = 0.026.
	base, other := []float64{50, 51, 52, 53, 54, 55}, []float64{49, 48, 47, 46, 45, 53.5}
	alone := compared(t, CompareOptions{}, runsOf("a", base...), runsOf("b", other...))
	if ch := alone.Pairs[0].Change(decodePath); ch.Verdict != Slower || !near(ch.Test.P, 0.025974) || *ch.PAdjusted != ch.Test.P {
		t.Errorf("alone: %+v", ch.Test)
	}
	both := compared(t, CompareOptions{},
		append(at("512", runsOf("a", base...)), at("2K", runsOf("a", steady...))...),
		append(at("512", runsOf("b", other...)), at("2K", runsOf("b", level...))...))
	if ch := both.Pairs[0].Change(decodePath); ch.Verdict != Same || !near(*ch.PAdjusted, 2*0.025974) {
		t.Errorf("of two: %s", ch.Words)
	}
	if both.Pairs[0].Ctx != "512" || both.Pairs[1].Ctx != "2K" {
		t.Error("contexts are not in order of their size")
	}
}

// Which test is made follows from how many there are, before a value is seen: one
// that could show nothing among them is not made, and it is said what could.
func TestTestsOfAFamily(t *testing.T) {
	contexts := []string{"512", "2K", "8K"}
	arm := func(name string, n int, middle float64, starts int, turn func(int) int) []*row.Row {
		var out []*row.Row
		for _, ctx := range contexts[:n] {
			out = append(out, each(started(runsOf(name, rates(3*starts, middle)...), 3, turn), func(_ int, r *row.Row) {
				r.Ctx, r.Cell = ctx, r.Arm+"/"+ctx
			})...)
		}
		return out
	}
	for name, tt := range map[string]struct {
		contexts, starts int
		turns            bool
		verdict          Verdict
		over, why        string
	}{
		"four starts, one context":          {1, 4, false, Slower, OverStarts, ""},
		"four starts, two contexts":         {2, 4, false, Unknown, OverStarts, "4 + 4 starts can't decide 2 comparisons at once, 5 of each can"},
		"five starts, three contexts":       {3, 5, false, Slower, OverStarts, ""},
		"six starts in turns, one context":  {1, 6, true, Slower, OverStartPairs, ""},
		"six starts in turns, two contexts": {2, 6, true, Slower, OverStarts, ""},
		"seven in turns, two contexts":      {2, 7, true, Slower, OverStartPairs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := inARow(0), inARow(tt.starts)
			if tt.turns {
				a, b = abba(false), abba(true)
			}
			c := compared(t, CompareOptions{}, arm("a", tt.contexts, 50, tt.starts, a), arm("b", tt.contexts, 45, tt.starts, b))
			if len(c.Pairs) != tt.contexts {
				t.Fatalf("%d pairs", len(c.Pairs))
			}
			for _, p := range c.Pairs {
				ch := p.Change(decodePath)
				if ch.Verdict != tt.verdict || ch.Over != tt.over || ch.Why != tt.why || ch.Interval == nil {
					t.Errorf("%s over %s (%s), %+v: %s", ch.Verdict, ch.Over, ch.Why, ch.Interval, ch.Words)
				}
			}
		})
	}
}

// A gate goes by the intervals, and so is decided where the tests are not.
func TestGateWithoutTests(t *testing.T) {
	arm := func(name string, middle float64, after int) []*row.Row {
		var out []*row.Row
		for _, ctx := range []string{"512", "2K"} {
			out = append(out, each(started(runsOf(name, rates(12, middle)...), 3, inARow(after)), func(_ int, r *row.Row) {
				r.Ctx, r.Cell = ctx, r.Arm+"/"+ctx
			})...)
		}
		return out
	}
	for text, tripped := range map[string]bool{"decode < 0.95": true, "decode < 0.8": false} {
		cond, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		c := compared(t, CompareOptions{Conditions: []Condition{cond}}, arm("a", 50, 0), arm("b", 45, 4))
		if c.Pairs[0].Change(decodePath).Verdict != Unknown || c.Tripped() != tripped || !c.Complete() {
			t.Errorf("%s: tripped %v, complete %v, %s", text, c.Tripped(), c.Complete(), c.Pairs[0].Change(decodePath).Words)
		}
	}
	if compared(t, CompareOptions{}, arm("a", 50, 0), arm("b", 45, 4)).Complete() {
		t.Error("complete without an answer")
	}
}

// A comparison of 1,000 rows is made while somebody waits.
func BenchmarkCompareThousandRows(b *testing.B) {
	var arms [][]*row.Row
	for i, name := range []string{"a", "b", "c", "d"} {
		var rows []*row.Row
		for k, ctx := range []string{"512", "2K", "8K", "32K", "128K"} {
			rows = append(rows, each(runsOf(name, rates(50, 50+float64(i))...), func(n int, r *row.Row) {
				r.Ctx, r.Cell, r.RowID = ctx, name+"/"+ctx, fmt.Sprintf("%s-%d-%d", name, k, n)
				r.TTFTMS, r.TTFVMS, r.PromptTokSClient = new(100+float64(n)), new(100+float64(n)), new(5000+float64(n))
				r.Gaps.MedianMS, r.Telemetry.Pinned.VmRSSMaxBytes = new(10+float64(n)/50), new(int64(1<<30+n))
				r.Telemetry.Board.JPerPromptToken, r.Telemetry.Board.JPerOutputToken = new(0.1+float64(n)/1000), new(1+float64(n)/1000)
			})...)
		}
		arms = append(arms, rows)
	}
	for b.Loop() {
		compared(b, CompareOptions{}, arms...)
	}
}

func near(a, b float64) bool { return a-b < 1e-5 && b-a < 1e-5 }

func TestDifferences(t *testing.T) {
	other := each(runsOf("b", steady...), func(_ int, r *row.Row) {
		r.CommandLine = []string{"assay", "serve", "--port", "8090", "--threads", "1", "--fast"}
		r.EngineEnv = map[string]string{"GOGC": "off", "X": "1"}
		r.EngineCommit = new("fedcba98765432100000")
		r.Host.CPUModel = new("other")
	})
	base := each(runsOf("a", steady...), func(_ int, r *row.Row) { r.EngineEnv = map[string]string{"X": "1"} })
	c := compared(t, CompareOptions{}, base, other)
	want := []Difference{
		{"engine commit", "0123456789abcdef0123", "fedcba98765432100000"},
		{"host: processor", "not known", "other"},
		{"command line", "--threads 2", "--threads 1 --fast"},
		{"environment", "nothing more", "GOGC=off"},
	}
	if !slices.Equal(c.Arms[1].Differences, want) {
		t.Errorf("%+v", c.Arms[1].Differences)
	}
	same := compared(t, CompareOptions{}, runsOf("a", steady...), runsOf("b", steady...))
	if text := printedComparison(t, same, Options{}); len(same.Arms[1].Differences) > 0 || !strings.Contains(text, "nothing that rows tell differs between b and a.") {
		t.Errorf("a port is told of: %+v", same.Arms[1].Differences)
	}
}

func TestNothingToCompare(t *testing.T) {
	a := []ArmRows{{Label: "a", Rows: runsOf("a", steady...)}}
	far := each(runsOf("b", steady...), func(_ int, r *row.Row) { r.Ctx = "64K" })
	if _, err := Compare(append(a, ArmRows{Label: "b", Rows: far}), CompareOptions{}); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "a has 512; b has 64K") {
		t.Error(err)
	}
	if _, err := Compare(append(a, ArmRows{Label: "b"}), CompareOptions{}); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "b has no run that counts") {
		t.Error(err)
	}
	if _, err := Compare(a, CompareOptions{}); err == nil {
		t.Error("one arm was compared")
	}
	if _, err := Compare(append(a, a...), CompareOptions{Metric: "speed"}); err == nil || !strings.Contains(err.Error(), `"speed" is not known (want ttft, prompt, decode`) {
		t.Error(err)
	}
}

func printedComparison(t testing.TB, c *Comparison, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Print(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestComparisonTables(t *testing.T) {
	far := each(runsOf("refused", steady...), func(_ int, r *row.Row) { r.Requested.Cache = new("warm") })
	limit, err := ParseCondition("decode<0.95")
	if err != nil {
		t.Fatal(err)
	}
	c := compared(t, CompareOptions{Conditions: []Condition{limit}},
		runsOf("base", steady...), runsOf("slow|er", slower...), runsOf("level", level...), far)
	golden(t, "compare.txt", printedComparison(t, c, Options{Width: 80}))
	golden(t, "compare.md", printedComparison(t, c, Options{Markdown: true}))
	js, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.json", string(js)+"\n")
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]Condition{
		"decode < 0.95":       {"decode < 0.95", decodePath, "", true, 0.95},
		"ttft>1.1":            {"ttft>1.1", ttftPath, "", false, 1.1},
		" decode @ 2K < 90 %": {"decode @ 2K < 90 %", decodePath, "2K", true, 0.9},
		"decode_tok_s@512>2%": {"decode_tok_s@512>2%", decodePath, "512", false, 0.02},
	} {
		if got, err := ParseCondition(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                 "there is neither < nor >",
		"decode":           "there is neither < nor >",
		"decode <= 0.95":   "one < or > is the only comparison",
		"0.95 > decode":    `metric "0.95" is not known (known: ttft,`,
		"decode <":         "the ratio is missing",
		"decode < fast":    `"fast" is not a number`,
		"decode < 0":       "is not above zero",
		"decode < -1":      "is not above zero",
		"decode < NaN":     "is not above zero",
		"decode < 1e999":   "is not a number",
		"< 0.95":           `no metric stands before "<"`,
		"decode@ < 1":      "no context stands after @",
		"speed < 0.9":      `metric "speed" is not known`,
		"decode < 1 and 2": `"1 and 2" is not a number`,
	} {
		_, err := ParseCondition(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"decode < 0.95"`) {
			t.Errorf("%q: %v, want %q and an example", text, err, want)
		}
	}
}

func FuzzParseCondition(f *testing.F) {
	f.Add("decode @ 2K < 95 %")
	f.Add("decode@\xce\nK<9") // found by fuzzing: white space within a context
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			return
		}
		if again, err := ParseCondition(c.Text); err != nil || again != c {
			t.Fatalf("%q is %+v, and its text is %+v, %v", text, c, again, err)
		}
	})
}

// A gate fails on what is certain only: the whole interval beyond the limit.
func TestGate(t *testing.T) {
	interval := compared(t, CompareOptions{}, runsOf("a", steady...), runsOf("b", slower...)).Pairs[0].Change(decodePath).Interval
	just := func(op string, limit float64) string { return fmt.Sprintf("decode %s %v", op, limit) }
	const hair = 1e-9
	for _, tt := range []struct {
		text string
		want State
	}{
		{just("<", interval.High+hair), Held},
		{just("<", interval.High), NotHeld},
		{just("<", interval.Low), NotHeld},
		{just(">", interval.Low-hair), Held},
		{just(">", interval.Low), NotHeld},
		{"decode @ 2K < 0.95", Undecided},
		{"load > 2", Undecided},
	} {
		cond, err := ParseCondition(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		c := compared(t, CompareOptions{Conditions: []Condition{cond}}, runsOf("a", steady...), runsOf("b", slower...))
		if o := c.Conditions[0]; o.State != tt.want || c.Tripped() != (tt.want == Held) || c.Complete() != (tt.want != Undecided) || o.Why == "" {
			t.Errorf("%s: %s (%s), want %s", tt.text, o.State, o.Why, tt.want)
		}
	}
	if interval.Confidence < 0.95 || *interval == (stats.Interval{}) {
		t.Error(interval)
	}
}
