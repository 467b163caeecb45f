package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/kit/row"
)

func TestExports(t *testing.T) {
	for name, write := range map[string]func(r *Report, b *bytes.Buffer) error{
		"seed.csv":         func(r *Report, b *bytes.Buffer) error { return r.CSV(b) },
		"seed-bench.jsonl": func(r *Report, b *bytes.Buffer) error { return r.LlamaBench(b) },
	} {
		var b bytes.Buffer
		r := seedReport(t)
		if err := write(r, &b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
	}
}

// A spreadsheet takes none of a stranger's text for a formula, and each line has
// all columns.
func TestCSVIsHarmless(t *testing.T) {
	r := ours(1)
	r.Arm, r.Cell = "=HYPERLINK(\"http://x\",\"a,b\")\n", ""
	var b bytes.Buffer
	if err := summed([]*row.Row{r}).CSV(&b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(lines) != 1+len(Figures) {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if got := lines[1][0]; got != `'=HYPERLINK("http://x","a,b")?` {
		t.Errorf("arm %q", got)
	}
}

// The lines are what a reader of llama-bench's own expects: samples whose means
// are the averages, and times that go with the rates.
func TestLlamaBenchLines(t *testing.T) {
	var rows []*row.Row
	for i := range 4 {
		r := ours(i)
		r.PromptTokens, r.CompletionTokens = new(540), new(128)
		rows = append(rows, r)
	}
	var b bytes.Buffer
	if err := summed(rows).LlamaBench(&b); err != nil {
		t.Fatal(err)
	}
	var got []benchLine
	for line := range strings.Lines(b.String()) {
		var l benchLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if len(got) != 2 || got[0].NPrompt != 540 || got[0].NGen != 0 || got[1].NGen != 128 || got[1].NDepth != 540 || got[1].NPrompt != 0 {
		t.Fatalf("%+v", got)
	}
	// decode is 50.0, 50.1, 50.2, 50.3 tok/s; 128 tokens at 50 are 2.56 s.
	tg := got[1]
	if len(tg.SamplesTS) != 4 || number(tg.AvgTS, 4) != "50.1500" || number(tg.StddevTS, 6) != "0.129099" || tg.SamplesNS[0] != 2_560_000_000 {
		t.Errorf("%+v", tg)
	}
	if tg.ModelFilename != nil || tg.BuildNumber != nil || tg.TestTime != nil {
		t.Errorf("made up: %+v", tg)
	}
}
