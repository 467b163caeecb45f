//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const largerHelp = `usage: go run ./benchmarks larger [flags]

Models larger than memory: each engine runs alone in a control group (version 1) whose
memory is limited, with the file's pages dropped from the cache before it starts.

  ours         --expert-ram auto
  ours mmap    --mmap, all else alike
  llama.cpp    its mmap, with and without repacking

Tokens are generated one by one and are random. With ours, direct reads of whole
matrices of experts, as many at a time as the store has under way, are timed in turn:
divided by the bytes that a token misses they are the bound. The best fixed choice of
experts is computed from what the measured tokens asked for.

`

// largerOptions are the flags of "larger".
type largerOptions struct {
	dir     string
	limits  string
	skews   string
	engines string
	threads int
	seconds time.Duration
	warm    time.Duration
	busyOK  bool
	results string
	page    string
}

// largerEngines are what is compared, in this order.
var largerEngines = []string{"ours", "ours-mmap", "llama.cpp", "llama.cpp-norepack"}

// largerResults is one call: a file in benchmarks/results/larger.
type largerResults struct {
	Base  *results    `json:"base"`
	Cases []*largeOne `json:"cases"`
}

// largeOne is one engine on one file under one limit.
type largeOne struct {
	File   string `json:"file"`
	Skew   string `json:"skew"`
	Bytes  int64  `json:"bytes"` // of the file
	Limit  int64  `json:"limit"`
	Engine string `json:"engine"`
	// Failed says why there are no figures: "killed", or what it said.
	Failed string `json:"failed,omitempty"`

	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
	Ready   float64 `json:"ready_s"`    // from the start until it took commands
	Peak    int64   `json:"peak"`       // of the group's memory
	Hits    int64   `json:"hits"`       // ours: of the measured tokens' lookups, those at hand
	Ahead   int64   `json:"ahead_hits"` // of these, those that were read ahead
	Lookups int64   `json:"lookups"`    // each expert once a layer and token
	Missed  int64   `json:"missed"`     // bytes that these tokens read
	Best    int64   `json:"best"`       // hits that the best fixed choice of as many experts has
	Slots   int     `json:"slots"`      // experts in memory at most
	Experts int     `json:"experts"`    // in all
	Direct  float64 `json:"direct"`     // bytes a second of the reads in turn
	Foreign float64 `json:"foreign"`    // processors that others used meanwhile
	RunsNS  []int64 `json:"runs_ns"`    // what each run took
	PerRun  int     `json:"per_run"`    // tokens of a run
	Faults  int64   `json:"page_reads"` // major faults of the measured tokens
}

func (l *largeOne) rate() float64 { return float64(l.Tokens) / l.Seconds }

// bound is the tokens a second that reading what they missed allows.
func (l *largeOne) bound() float64 { return l.Direct * float64(l.Tokens) / float64(l.Missed) }

func runLarger(ctx context.Context, args []string) error {
	var o largerOptions
	f := flag.NewFlagSet("larger", flag.ExitOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), largerHelp)
		f.PrintDefaults()
	}
	f.StringVar(&o.dir, "dir", "/var/tmp/assay-synth", "`folder` of the models; those that are missing are made")
	f.StringVar(&o.limits, "limits", "Q4_K=900,IQ3_S=800", "formats, each with a limit in `MB`")
	f.StringVar(&o.skews, "skews", "zipf,uniform", "how experts are drawn: zipf (exponent 1), uniform")
	f.StringVar(&o.engines, "engines", strings.Join(largerEngines, ","), "`engines`")
	f.IntVar(&o.threads, "threads", 2, "threads of each engine")
	f.DurationVar(&o.seconds, "seconds", 20*time.Second, "measured `time` of each engine")
	f.DurationVar(&o.warm, "warm", 10*time.Second, "`time` before that, which is not counted")
	f.BoolVar(&o.busyOK, "busy-ok", false, "measure although the machine is busy")
	f.StringVar(&o.results, "results", "benchmarks/results/larger", "`folder` of the results")
	f.StringVar(&o.page, "page", "docs/larger-than-memory.md", "`file` to write the tables into; empty: none")
	_ = f.Parse(args) // ExitOnError
	if f.NArg() > 0 {
		return fmt.Errorf("larger: no arguments besides flags, not %q", f.Args())
	}
	cases, err := o.plan()
	if err != nil {
		return err
	}
	if err := idle(ctx); err != nil {
		if !o.busyOK {
			return fmt.Errorf("%w (wait, or give -busy-ok and distrust the figures)", err)
		}
		fmt.Fprintln(os.Stderr, "benchmarks: warning:", err)
	}
	var p *peer
	if strings.Contains(o.engines, "llama.cpp") {
		if p, err = buildPeer(ctx); err != nil {
			return err
		}
	}
	for _, c := range cases {
		if err := o.make(ctx, c); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.results, 0o777); err != nil {
		return err
	}
	out := &largerResults{Base: newResults(append([]string{"go", "run", "./benchmarks", "larger"}, args...), p)}
	path := filepath.Join(o.results, out.Base.Time.Format("2006-01-02T150405Z")+".json")
	start := time.Now()
	for i, c := range cases {
		fmt.Fprintf(os.Stderr, "%4.0f s  %d of %d: %s %s in %d MB, %s: ", time.Since(start).Seconds(), i+1, len(cases), c.File, c.Skew, c.Limit/1e6, c.Engine)
		if err := o.measure(ctx, c, p); err != nil {
			fmt.Fprintln(os.Stderr)
			return err
		}
		fmt.Fprintln(os.Stderr, c.line())
		out.Cases = append(out.Cases, c)
		raw, err := json.MarshalIndent(out, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, append(raw, '\n'), 0o666); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%4.0f s  done: %s\n", time.Since(start).Seconds(), path)
	if o.page == "" {
		return nil
	}
	return writeLargerPage(o.page, out)
}

// line says what came out, for who waits.
func (l *largeOne) line() string {
	if l.Failed != "" {
		return l.Failed
	}
	s := fmt.Sprintf("%.2f tok/s", l.rate())
	if l.Lookups > 0 {
		s += fmt.Sprintf(", %.1f %% hits, %.1f %% without those read ahead (best fixed choice %.1f), %.0f %% of the bound", percent(l.Hits, l.Lookups), percent(l.Hits-l.Ahead, l.Lookups), percent(l.Best, l.Lookups), 100*l.rate()/l.bound())
	}
	return s
}

func percent(a, b int64) float64 { return 100 * float64(a) / float64(b) }

// plan is what the flags choose: all engines of a file behind each other.
func (o *largerOptions) plan() ([]*largeOne, error) {
	var out []*largeOne
	for _, skew := range strings.Split(o.skews, ",") {
		if skew != "zipf" && skew != "uniform" {
			return nil, fmt.Errorf("-skews: %q is neither zipf nor uniform", skew)
		}
		for _, l := range strings.Split(o.limits, ",") {
			name, mb, _ := strings.Cut(l, "=")
			n, err := strconv.Atoi(mb)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("-limits: %q is no format with a limit (want Q4_K=900)", l)
			}
			for _, e := range strings.Split(o.engines, ",") {
				if !slices.Contains(largerEngines, e) {
					return nil, fmt.Errorf("-engines: %q is none of %v", e, largerEngines)
				}
				out = append(out, &largeOne{File: name, Skew: skew, Limit: int64(n) * 1e6, Engine: e})
			}
		}
	}
	return out, nil
}

// path of a case's file. Files without a word for the skew are older, and Zipf's.
func (o *largerOptions) path(c *largeOne) string {
	name := "synth-2.5b-" + c.File
	if c.Skew != "zipf" {
		name += "-" + c.Skew
	}
	return filepath.Join(o.dir, name+".gguf")
}

// make makes the case's file if it is missing.
func (o *largerOptions) make(ctx context.Context, c *largeOne) error {
	path, err := filepath.Abs(o.path(c))
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		skew := map[string]string{"zipf": "1", "uniform": "0"}[c.Skew]
		cmd := exec.CommandContext(ctx, "go", "-C", "tools", "run", "./synth", "-preset", "2.5b", "-quant", c.File, "-skew", skew, "-o", path)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
		st, err = os.Stat(path)
	}
	if err != nil {
		return err
	}
	c.Bytes = st.Size()
	return nil
}

// byCase finds an engine's case beside that of another.
func (r *largerResults) byCase(like *largeOne, engine string) *largeOne {
	for _, c := range r.Cases {
		if c.File == like.File && c.Skew == like.Skew && c.Limit == like.Limit && c.Engine == engine {
			return c
		}
	}
	return nil
}

const (
	largerBegin = "<!-- larger: written by make bench-larger from here -->"
	largerEnd   = "<!-- larger: to here -->"
)

// writeLargerPage puts the table of one call into the page.
func writeLargerPage(path string, r *largerResults) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), largerBegin)
	_, after, ok2 := strings.Cut(rest, largerEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing", path, largerBegin, largerEnd)
	}
	var b strings.Builder
	r.table(&b)
	return os.WriteFile(path, []byte(before+largerBegin+"\n\n"+b.String()+largerEnd+after), 0o666)
}

// table writes a line for each case.
func (r *largerResults) table(b *strings.Builder) {
	b.WriteString(r.Base.about())
	fmt.Fprintf(b, "\n`%s` on %s, assay %s.", strings.Join(r.Base.Command, " "), r.Base.Time.Format("2006-01-02 15:04 UTC"), r.Base.Commit)
	b.WriteString("\n\n| file | experts drawn | limit | engine | tok/s | against ours mmap | hits | without those read ahead | best fixed choice | of the bound | others |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.Cases {
		fmt.Fprintf(b, "| %s, %.2f GB | %s | %.0f MB | %s ", c.File, float64(c.Bytes)/1e9, c.Skew, float64(c.Limit)/1e6, c.Engine)
		if c.Failed != "" {
			fmt.Fprintf(b, "| %s | | | | | | |\n", c.Failed)
			continue
		}
		ratio := ""
		if m := r.byCase(c, "ours-mmap"); m != nil && m.Failed == "" && m != c {
			ratio = fmt.Sprintf("%.2f", c.rate()/m.rate())
		}
		fmt.Fprintf(b, "| **%.3g** | %s ", c.rate(), ratio)
		if c.Lookups > 0 {
			fmt.Fprintf(b, "| %.1f %% | %.1f %% | %.1f %% | %.0f %% of %.3g ", percent(c.Hits, c.Lookups), percent(c.Hits-c.Ahead, c.Lookups), percent(c.Best, c.Lookups), 100*c.rate()/c.bound(), c.bound())
		} else {
			b.WriteString("| | | | ")
		}
		fmt.Fprintf(b, "| %.2f |\n", c.Foreign)
	}
	b.WriteString("\n")
}
