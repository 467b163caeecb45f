package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"assay/internal/kit/row"
)

// Rows may come from anyone: whatever stands in them, summaries and comparisons
// are made, can be printed in every form, hold no number that JSON can't, and
// never call a figure of no value different.
func TestAnyRows(t *testing.T) {
	figures := rapid.Custom(func(t *rapid.T) *float64 {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return new(rapid.SampledFrom([]float64{0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-200}).Draw(t, "odd"))
		}
		return new(rapid.Float64Range(1, 1000).Draw(t, "value"))
	})
	text := rapid.SampledFrom([]string{"", "a", "b|c", "=1+1", "\x1b[31m", "x\ny", "ü"})
	rapid.Check(t, func(t *rapid.T) {
		var arms []ArmRows
		b := NewBuilder()
		for range rapid.IntRange(2, 3).Draw(t, "arms") {
			a := ArmRows{Label: text.Draw(t, "label")}
			for i := range rapid.IntRange(0, 14).Draw(t, "rows") {
				r := ours(i)
				r.Arm, r.Ctx, r.Cell = text.Draw(t, "arm"), rapid.SampledFrom([]string{"512", "2K"}).Draw(t, "ctx"), ""
				r.DecodeTokS, r.TTFTMS, r.LoadMS = figures.Draw(t, "decode"), figures.Draw(t, "ttft"), figures.Draw(t, "load")
				r.StartID = rapid.SampledFrom([]*string{nil, new("s1"), new("s2"), new("s3"), new("s4"), new("s5")}).Draw(t, "start")
				r.Telemetry.Window.T0 = figures.Draw(t, "at")
				r.SliceSHA256 = rapid.SampledFrom([]*string{nil, new("one"), new("two")}).Draw(t, "slice")
				r.PromptTokens, r.CompletionTokens = new(rapid.IntRange(-1, 2000).Draw(t, "prompt")), new(rapid.IntRange(0, 9).Draw(t, "tokens"))
				r.CommandLine = []string{text.Draw(t, "argv"), "-" + text.Draw(t, "flag")}
				if rapid.IntRange(0, 9).Draw(t, "failed") == 0 {
					r.Status = row.Failed
				}
				a.Rows = append(a.Rows, r)
				b.Add(r)
			}
			arms = append(arms, a)
		}
		check := func(what string, out *bytes.Buffer, err error) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if s := out.String(); !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\x1b") {
				t.Fatalf("%s is not printable: %q", what, s)
			}
		}
		rep := b.Report()
		for i, write := range []func(w *bytes.Buffer) error{
			func(w *bytes.Buffer) error { return rep.Print(w, Options{Width: 80}) },
			func(w *bytes.Buffer) error { return rep.Print(w, Options{Wide: true, Markdown: true}) },
			func(w *bytes.Buffer) error { return rep.CSV(w) },
			func(w *bytes.Buffer) error { return rep.LlamaBench(w) },
			func(w *bytes.Buffer) error { return json.NewEncoder(w).Encode(rep) },
		} {
			var out bytes.Buffer
			err := write(&out)
			check(fmt.Sprint("summary ", i), &out, err)
		}
		c, err := Compare(arms, CompareOptions{
			Allow:      rapid.SampledFrom([][]string{nil, AllowKinds()}).Draw(t, "allow"),
			Conditions: []Condition{{Text: "decode < 0.9", Path: decodePath, Below: true, Limit: 0.9}},
		})
		if err != nil {
			return // no context of both
		}
		for i, write := range []func(w *bytes.Buffer) error{
			func(w *bytes.Buffer) error { return c.Print(w, Options{Width: 80}) },
			func(w *bytes.Buffer) error { return c.Print(w, Options{Markdown: true}) },
			func(w *bytes.Buffer) error { return json.NewEncoder(w).Encode(c) },
		} {
			var out bytes.Buffer
			err := write(&out)
			check(fmt.Sprint("comparison ", i), &out, err)
		}
		for _, p := range c.Pairs {
			for _, ch := range p.Changes {
				if ch.Interval == nil && ch.Why == "" {
					t.Fatalf("no interval, and no reason: %+v", ch)
				}
				if (ch.Verdict == Slower || ch.Verdict == Faster) && (ch.Interval == nil || ch.Ratio == nil) {
					t.Fatalf("%+v", ch)
				}
			}
		}
	})
}
