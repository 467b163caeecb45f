package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/telemetry"
)

// keep writes the evidence of a run that answers 40 frames of one token, 10 ms
// apart, the first after 200 ms, on a machine that draws 50 W and 200 W in the
// window.
func keep(t *testing.T, folder string, r *row.Row) {
	t.Helper()
	const t0 = int64(1.7e18)
	rec := &stream.Recording{T0: t0, Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, EndAt: 700e6, Clean: true}
	var ends []int
	text := ""
	for i := range 40 {
		frame := fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\" w%d\"}}]}\n\n", i%10)
		text += fmt.Sprintf(" w%d", i%10)
		ends = append(ends, len(text))
		rec.Reads = append(rec.Reads, stream.Read{At: int64(200e6 + 10e6*i), Kernel: -1, Bytes: []byte(frame)})
	}
	samples := telemetry.Record{Form: telemetry.Form, Origin: t0 - 1e9, Tracks: []telemetry.Track{
		{Source: "meter", Hz: 10, Series: []telemetry.Series{{Metric: telemetry.GPUPower, Unit: "W"}}},
		{Source: "counter", Hz: 10, Series: []telemetry.Series{{Metric: telemetry.TreeCPU, Unit: "s", Counter: true}}},
		{Source: "sensors", Series: []telemetry.Series{{Metric: telemetry.GPUTemp, Unit: "°C", V: telemetry.Values{}, Why: "there is no sensor"}}},
	}}
	for i := range 30 {
		at := int64(i) * 1e8
		watts := 50.0
		if at >= 1e9 && at <= 17e8 {
			watts = 200
		}
		samples.Tracks[0].At, samples.Tracks[0].Series[0].V = append(samples.Tracks[0].At, at), append(samples.Tracks[0].Series[0].V, watts)
		samples.Tracks[1].At, samples.Tracks[1].Series[0].V = append(samples.Tracks[1].At, at), append(samples.Tracks[1].Series[0].V, 0.2*float64(i))
	}
	facts, err := json.Marshal(derive.Facts{Form: derive.Form, Text: derive.Text{Tokenizer: "t", Ends: ends}})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := json.Marshal(samples)
	if err != nil {
		t.Fatal(err)
	}
	r.Evidence.Dir = new("evidence/" + r.RowID)
	r.Evidence.Files, err = evidence.Write(filepath.Join(folder, *r.Evidence.Dir), &evidence.Record{
		Meta: evidence.Meta{Row: r.RowID, Facts: facts}, Recording: rec, Samples: packed, Completion: text,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// kept is a page of one arm with evidence, after a change to its rows.
func kept(t *testing.T, change func(folder string, rows []*row.Row)) (*Page, string) {
	t.Helper()
	folder := t.TempDir()
	b := NewBuilder(Options{})
	f := &Folder{Name: "run's", Path: folder, Link: "../rows"}
	var rows []*row.Row
	for i := range 6 {
		r := made("a", "512", i)
		keep(t, folder, r)
		rows = append(rows, r)
	}
	change(folder, rows)
	for _, r := range rows {
		b.Add(r, f)
	}
	p, err := b.Page(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return p, out.String()
}

func TestChartsOfEvidence(t *testing.T) {
	p, page := kept(t, func(string, []*row.Row) {})
	v := p.view.Panels[0]
	// The middle of 100.0 to 102.5 is 101.25: runs 3 and 4 are next to it.
	for _, want := range []string{"a: first token after 0.200 s, 40 tokens by 0.590 s"} {
		if got := v.TokenKeys[0].Text; got != want {
			t.Errorf("tokens over time: %q, want %q", got, want)
		}
	}
	if got, want := v.GapKeys[0].Text, "a: 234 gaps of 6 runs, the longest 10.00 ms"; got != want {
		t.Errorf("gaps: %q, want %q", got, want)
	}
	m := p.view.Machine[0]
	var got []string
	for _, c := range m.Charts {
		got = append(got, c.Chart.Title+":"+c.Chart.Desc[strings.Index(c.Chart.Desc, "in it.")+6:])
	}
	want := []string{
		"Power, W: GPU: from 50.00 to 200.0 W in 30 readings.",
		"Processors at work, CPUs: target: from 2.000 to 2.000 CPUs in 30 readings.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("timelines:\n%q\nwant\n%q", got, want)
	}
	if i := slices.IndexFunc(m.Silent, func(s silence) bool { return s.Group == "Temperature" }); i < 0 || m.Silent[i].Why != "there is no sensor" {
		t.Errorf("what is missing: %+v, want the sensor's reason", m.Silent)
	}
	if w := m.Charts[0].Chart.Rects[0]; w.Class != "window" {
		t.Errorf("the window is not shaded: %+v", w)
	}
	for _, want := range []string{
		`<a href="../rows/evidence/a/512/run-003/">`, // 101.5: next to the median
		`<code>assay verify &#39;run&#39;\&#39;&#39;s&#39;</code>`,
	} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.Replace(want, "run-003", "run-002", 1)) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// What a chart can't or must not show is said in its place.
func TestEvidenceThatIsNotDrawn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(folder string, rows []*row.Row)
		want   string
	}{
		{"changed", func(folder string, rows []*row.Row) {
			for _, r := range rows {
				path := filepath.Join(folder, *r.Evidence.Dir, evidence.CompletionFile)
				if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}, "a: the evidence is not what the row says: completion.txt: changed: "},
		{"gone", func(folder string, _ []*row.Row) {
			if err := os.RemoveAll(filepath.Join(folder, "evidence")); err != nil {
				t.Fatal(err)
			}
		}, "a: the evidence is not beside the rows"},
		{"outside of the folder", func(_ string, rows []*row.Row) {
			for _, r := range rows {
				r.Evidence.Dir = new("../../etc")
			}
		}, "a: the row's folder of evidence is not below that of the rows"},
		{"decode withheld", func(_ string, rows []*row.Row) {
			for _, r := range rows {
				r.Withheld = []row.Withheld{{Figure: "decode_tok_s", Value: r.DecodeTokS, Codes: []string{"clumped"}, Why: "x"}}
				r.DecodeTokS = nil
			}
		}, "a: no run shows a decode rate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, page := kept(t, tc.change)
			if p.view.Drawn || len(p.view.Machine) > 0 {
				t.Error("a chart was drawn")
			}
			if len(p.view.Silent) != 1 || !strings.HasPrefix(p.view.Silent[0], tc.want) {
				t.Errorf("said %q, want %q", p.view.Silent, tc.want)
			}
			if strings.Contains(page, "etc/") {
				t.Error("a link leads out of the folder")
			}
		})
	}
}

// A gap that is withheld is in no histogram.
func TestWithheldGaps(t *testing.T) {
	p, _ := kept(t, func(_ string, rows []*row.Row) {
		rows[0].Withheld = []row.Withheld{{Figure: "gaps.median_ms", Codes: []string{"clumped"}, Why: "x"}}
	})
	if got, want := p.view.Panels[0].GapKeys[0].Text, "a: 195 gaps of 5 runs, the longest 10.00 ms"; got != want {
		t.Errorf("gaps: %q, want %q", got, want)
	}
}

func TestThinKeepsPeaks(t *testing.T) {
	var points []point
	for i := range 10_000 {
		points = append(points, point{float64(i), 1})
	}
	points[7_777].y, points[1_234].y = 100, -100
	got := thin(points, 50)
	if len(got) > 102 || !slices.Contains(got, points[7_777]) || !slices.Contains(got, points[1_234]) || got[0] != points[0] || got[len(got)-1] != points[9_999] {
		t.Errorf("%d points, of which a peak or an end is missing", len(got))
	}
}

func TestTicks(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0.00 0.25 0.50 0.75 1.00"},
		{97.3, 103.1, "98 100 102"},
		{0, 26_000, "0 10000 20000"},
		{-0.4, 0.4, "-0.4 -0.2 0.0 0.2 0.4"},
		{0.0012, 0.0019, "0.0012 0.0014 0.0016 0.0018"},
	} {
		var got []string
		for _, k := range (scale{tc.low, tc.high}).ticks(4) {
			got = append(got, k.label)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%v to %v: %s, want %s", tc.low, tc.high, s, tc.want)
		}
	}
}
