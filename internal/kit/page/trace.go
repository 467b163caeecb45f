package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/telemetry"
)

// How much evidence one page reads.
const (
	perCell    = 6   // runs of a cell whose gaps are shown
	mostTraces = 240 // runs of all cells
)

// trace is what the evidence of one run shows.
type trace struct {
	why string // why it shows nothing

	tokens []point // seconds since the request, tokens so far
	inText bool    // tokens are frames: nothing tells how many tokens each has
	gaps   []float64
	lines  []series
	silent []silence
	window struct{ first, end float64 } // seconds since the request; NaN: not known
}

// cellTrace is the evidence behind the charts of a cell.
type cellTrace struct {
	run    *report.Run // the one that is drawn; nil: none can be
	trace  *trace
	gaps   []float64 // of several runs
	gapsOf int
	why    string // why there is none
}

// trace reads the evidence that the charts need.
func (b *Builder) trace(ctx context.Context, p *Page) error {
	byID := map[string]entry{}
	for _, e := range p.entries {
		byID[runKey(e.row.RowID, e.row.StartID, e.row.Telemetry.Window.T0)] = e
	}
	left := mostTraces
	for _, x := range p.panels {
		for _, c := range x.cells {
			t := &cellTrace{}
			x.traced[c] = t
			for i, r := range drawable(c, byID) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if i == perCell || left == 0 {
					break
				}
				left--
				e := byID[runKey(r.RowID, r.StartID, r.At)]
				one := b.traceOf(e)
				if one.why != "" {
					t.why = cmp.Or(t.why, one.why)
					continue
				}
				if t.run == nil {
					t.run, t.trace = r, one
				}
				if !withholds(e.row, "gaps.median_ms") {
					t.gaps = append(t.gaps, one.gaps...)
					t.gapsOf++
				}
			}
			if t.run == nil && t.why == "" {
				t.why = whyNone(c, left)
			}
		}
	}
	return nil
}

func whyNone(c *report.Cell, left int) string {
	switch {
	case left == 0:
		return fmt.Sprintf("the page shows the evidence of %d runs at most", mostTraces)
	case c.Runs == 0:
		return "there is no run that counts"
	}
	return "no run shows a decode rate"
}

func runKey(id string, start *string, at *float64) string {
	when := ""
	if at != nil {
		when = fmt.Sprint(*at)
	}
	return strings.Join([]string{id, textOf(start), when}, "\x00")
}

// drawable are the runs of a cell that show a decode rate, the middle one first.
// What is withheld in the figures must not be read off a chart.
func drawable(c *report.Cell, byID map[string]entry) []*report.Run {
	var out []*report.Run
	for i := range c.Measured {
		r := &c.Measured[i]
		if _, ok := byID[runKey(r.RowID, r.StartID, r.At)]; ok && r.Values["decode_tok_s"] != nil {
			out = append(out, r)
		}
	}
	s := c.Figures["decode_tok_s"]
	if s == nil {
		return nil
	}
	slices.SortStableFunc(out, func(x, y *report.Run) int {
		return cmp.Compare(math.Abs(*x.Values["decode_tok_s"]-s.Median), math.Abs(*y.Values["decode_tok_s"]-s.Median))
	})
	return out
}

func withholds(r *row.Row, path string) bool {
	return slices.ContainsFunc(r.Withheld, func(w row.Withheld) bool { return w.Figure == path })
}

// traceOf reads the evidence of a row, once.
func (b *Builder) traceOf(e entry) *trace {
	if e.row.Evidence.Dir == nil {
		return &trace{why: "the rows keep no evidence"}
	}
	if e.folder.Path == "" {
		return &trace{why: "the rows came without their folder, where evidence lies"}
	}
	at, err := filepath.Localize(*e.row.Evidence.Dir)
	if err != nil {
		return &trace{why: "the row's folder of evidence is not below that of the rows"}
	}
	dir := filepath.Join(e.folder.Path, at)
	if t := b.traces[dir]; t != nil {
		return t
	}
	var t *trace
	if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &trace{why: "the evidence is not beside the rows"} // it may come
	}
	if t, err = readTrace(dir, e.row); err != nil {
		// Where on the machine the folder is belongs in no report.
		t = &trace{why: "the evidence is not what the row says: " + said(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))}
	}
	b.traces[dir] = t
	return t
}

func readTrace(dir string, r *row.Row) (*trace, error) {
	if wrong := evidence.Check(dir, r.Evidence.Files); len(wrong) > 0 {
		return nil, wrong[0]
	}
	rec, err := evidence.Read(dir)
	if err != nil {
		return nil, err
	}
	if rec.Recording == nil {
		return &trace{why: "no stream was recorded"}, nil
	}
	facts, err := derive.ReadFacts(rec)
	if err != nil {
		return nil, err
	}
	c, _ := derive.Completion(rec)
	t := &trace{}
	t.window.first, t.window.end = math.NaN(), seconds(rec.Recording.EndAt)
	t.readTokens(c, facts.Text.Ends)
	if len(rec.Samples) == 0 {
		t.silent = []silence{{"Machine", said(facts.Around.Why)}}
		return t, nil
	}
	var samples telemetry.Record
	if err := json.Unmarshal(rec.Samples, &samples); err != nil {
		return nil, fmt.Errorf("%s: %w", evidence.SamplesFile, err)
	}
	t.readSamples(&samples, rec.Recording.T0)
	return t, nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// readTokens takes the tokens so far at each token frame: the server's running
// count, else the text's own tokens by where they end, else the frames. ends are
// the offsets of the tokens' ends; nil: not known.
func (t *trace) readTokens(c *stream.Completion, ends []int) {
	if len(c.Tokens) == 0 {
		return
	}
	t.window.first = seconds(c.Tokens[0].At)
	t.tokens = append(t.tokens, point{t.window.first, 0})
	for i, f := range c.Tokens {
		n := i + 1
		switch {
		case c.RunningCount && f.Running != nil:
			n = *f.Running
		case ends != nil:
			n, _ = slices.BinarySearch(ends, f.End+1)
		case c.HasTokenIDs:
			n = f.IDs
		default:
			t.inText = true
		}
		t.tokens = append(t.tokens, point{seconds(f.At), float64(n)})
		if i > 0 {
			t.gaps = append(t.gaps, float64(f.At-c.Tokens[i-1].At)/1e6)
		}
	}
	t.tokens = thin(t.tokens, 150)
}
