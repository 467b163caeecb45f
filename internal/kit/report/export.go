package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// csvColumns are the columns of CSV, in its order.
var csvColumns = []string{
	"arm", "ctx", "part", "variant", "phase", "figure", "unit", "runs", "n", "starts",
	"median", "min", "max", "low", "high", "confidence", "interval_over", "outliers", "withheld", "rule",
}

// CSV writes a line for every figure of every cell, its warm-ups in lines of
// their own. What is not known is empty.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvColumns); err != nil {
		return err
	}
	for _, c := range r.Cells {
		for _, phase := range []struct {
			name    string
			runs    int
			figures map[string]*Stat
		}{{"measure", c.Runs, c.Figures}, {"warmup", c.WarmUps.Runs, c.WarmUps.Figures}} {
			if phase.runs == 0 && phase.name == "warmup" {
				continue
			}
			for _, f := range Figures {
				line := []string{cell(c.Arm), cell(c.Ctx), cell(c.Part), c.Variant, phase.name, f.Path, f.Unit, strconv.Itoa(phase.runs)}
				line = append(line, phase.figures[f.Path].csv()...)
				line[9] = strconv.Itoa(c.Starts)
				withheld := 0
				if phase.name == "measure" {
					for _, g := range c.Withheld {
						if g.Figure == f.Path {
							withheld += g.Runs
						}
					}
				}
				if err := out.Write(append(line, strconv.Itoa(withheld), cell(c.Rule))); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// csv is what a line says of the figure, from n to the outliers; starts is left
// to the cell.
func (s *Stat) csv() []string {
	if s == nil {
		return []string{"0", "", "", "", "", "", "", "", "", ""}
	}
	out := []string{strconv.Itoa(s.N), "", float(s.Median), float(s.Min), float(s.Max), "", "", "", "", strconv.Itoa(len(s.Outliers))}
	if in := s.Interval; in != nil {
		out[5], out[6], out[7], out[8] = float(in.Low), float(in.High), float(in.Confidence), s.IntervalOver
	}
	return out
}

func float(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// cell makes text of a row harmless in a spreadsheet, which would take some of
// it for a formula: rows may come from strangers.
func cell(s string) string {
	s = clean(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

// benchLine is a result as llama-bench writes it with -o jsonl, as far as rows
// know it: what they don't is null. Its averages are means, which is what that
// format has.
type benchLine struct {
	BuildCommit   *string   `json:"build_commit"`
	BuildNumber   *int      `json:"build_number"`
	CPUInfo       *string   `json:"cpu_info"`
	GPUInfo       *string   `json:"gpu_info"`
	Backends      *string   `json:"backends"`
	ModelFilename *string   `json:"model_filename"`
	ModelType     *string   `json:"model_type"`
	ModelSize     *int64    `json:"model_size"`
	ModelNParams  *int64    `json:"model_n_params"`
	NThreads      *int      `json:"n_threads"`
	NPrompt       int       `json:"n_prompt"`
	NGen          int       `json:"n_gen"`
	NDepth        int       `json:"n_depth"`
	TestTime      *string   `json:"test_time"`
	AvgNS         int64     `json:"avg_ns"`
	StddevNS      int64     `json:"stddev_ns"`
	AvgTS         float64   `json:"avg_ts"`
	StddevTS      float64   `json:"stddev_ts"`
	SamplesNS     []int64   `json:"samples_ns"`
	SamplesTS     []float64 `json:"samples_ts"`
	Arm           string    `json:"assay_arm"`
	Rule          string    `json:"assay_rule"`
}

// LlamaBench writes lines as llama-bench -o jsonl does: for each cell one of
// the prompt (n_prompt tokens) and one of the generation at that depth. The
// samples are of the client's clock, over HTTP. A cell whose rows don't tell
// their numbers of tokens has no line.
func (r *Report) LlamaBench(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, c := range r.Cells {
		depth, told := c.tokens(func(r Run) *int { return r.PromptTokens })
		made, _ := c.tokens(func(r Run) *int { return r.Tokens })
		var lines []benchLine
		if depth > 0 {
			l := c.bench(promptPath, depth)
			l.NPrompt = depth
			lines = append(lines, l)
		}
		if told && made > 0 {
			l := c.bench(decodePath, made)
			l.NGen, l.NDepth = made, depth
			lines = append(lines, l)
		}
		for _, l := range lines {
			if len(l.SamplesTS) == 0 {
				continue
			}
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// tokens is the middle number of tokens that runs have, and whether any tells it.
func (c *Cell) tokens(of func(Run) *int) (n int, told bool) {
	var all []int
	for _, r := range c.Measured {
		if n := of(r); n != nil {
			all = append(all, *n)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// Rates beyond these, in tokens a second, would not fit that format's numbers.
const slowest, fastest = 1e-6, 1e12

func (c *Cell) bench(path string, tokens int) benchLine {
	out := benchLine{
		BuildCommit: known(c.Settings["engine commit"]), CPUInfo: known(c.Settings["processor"]),
		SamplesNS: []int64{}, SamplesTS: []float64{}, Arm: c.Arm, Rule: c.Rule,
	}
	if n, err := strconv.Atoi(c.Settings["threads"]); err == nil {
		out.NThreads = &n
	}
	var ns []float64
	for _, r := range c.Measured {
		v := r.Values[path]
		if v == nil || !(*v > slowest && *v < fastest) {
			continue
		}
		if r.At != nil && out.TestTime == nil {
			out.TestTime = new(time.Unix(int64(*r.At), 0).UTC().Format(time.RFC3339))
		}
		t := float64(tokens) / *v * 1e9
		ns = append(ns, t)
		out.SamplesTS, out.SamplesNS = append(out.SamplesTS, *v), append(out.SamplesNS, int64(math.Round(t)))
	}
	mean, dev := meanOf(ns)
	out.AvgNS, out.StddevNS = int64(math.Round(mean)), int64(math.Round(dev))
	out.AvgTS, out.StddevTS = meanOf(out.SamplesTS)
	return out
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// meanOf gives the mean and the standard deviation, with n - 1, of values: what
// llama-bench writes, not what we would.
func meanOf(values []float64) (mean, deviation float64) {
	n := float64(len(values))
	if n == 0 {
		return 0, 0
	}
	for _, v := range values {
		mean += v / n
	}
	if n < 2 {
		return mean, 0
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / (n - 1))
}
