package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"assay/internal/engine"
	"assay/internal/engine/machine"
	"assay/internal/gguf"
	"assay/internal/kit/host"
	"assay/internal/kit/stats"
)

// speedReport is what speed prints; its JSON is the command's --json.
type speedReport struct {
	Command []string       `json:"command"`
	Engine  string         `json:"engine"`
	Commit  string         `json:"build_commit"`
	CPU     *string        `json:"cpu_info"`
	Model   speedModel     `json:"model"`
	Tests   []*speedResult `json:"tests"`
}

// speedModel describes the loaded model.
type speedModel struct {
	File       string   `json:"file"`
	Type       string   `json:"type"` // architecture and the format that most weights are in
	Bytes      int64    `json:"size"` // of all tensors in the file
	Parameters uint64   `json:"n_params"`
	Memory     int64    `json:"memory_bytes"` // of the loaded weights
	Huge       *float64 `json:"huge_share"`   // of those, in huge pages; null where that can't be read
	HugeWhy    string   `json:"huge_share_why,omitempty"`
	PerToken   int64    `json:"weight_bytes_per_token"` // in the file's formats
	Operations int64    `json:"operations_per_token"`
	KVPosition int64    `json:"kv_bytes_per_position"`
	KVType     string   `json:"kv_type"`
	LoadMS     float64  `json:"load_ms"`
	Batch      int      `json:"n_batch"` // tokens of a prompt that are computed at a time
}

// speedResult is one test.
type speedResult struct {
	Test    string        `json:"test"`
	Prompt  int           `json:"n_prompt"`
	Gen     int           `json:"n_gen"`
	Depth   int           `json:"n_depth"`
	Drafts  int           `json:"n_drafts"` // that each round verifies, all of them right
	Threads int           `json:"n_threads"`
	Time    time.Time     `json:"test_time"`
	NS      []int64       `json:"samples_ns"`
	TokS    []float64     `json:"samples_ts"`
	Summary stats.Summary `json:"tok_s"`
	Bytes   *float64      `json:"bytes_per_token"` // that one token reads, as it lies in memory; of a prompt null: a pass reads for many
	GBs     *float64      `json:"gb_s"`
	Read    *float64      `json:"read_gb_s"` // median of the passes; null where the run was too short
	Share   *float64      `json:"read_share"`
	ReadHow string        `json:"read_how"`
	Gops    float64       `json:"gop_s"`
	Peak    *float64      `json:"peak_gop_s"`
	OfPeak  *float64      `json:"peak_share"`
	PeakHow string        `json:"peak_how"`
}

// speedLine is one line of --jsonl: llama-bench's names for what means the same
// there, and ours.
type speedLine struct {
	Engine     string  `json:"engine"`
	Commit     string  `json:"build_commit"`
	CPU        *string `json:"cpu_info"`
	File       string  `json:"model_filename"`
	Type       string  `json:"model_type"`
	Bytes      int64   `json:"model_size"`
	Parameters uint64  `json:"model_n_params"`
	Batch      int     `json:"n_batch"`
	KeyType    string  `json:"type_k"`
	ValueType  string  `json:"type_v"`
	*speedResult
	AvgNS    float64 `json:"avg_ns"`
	StdNS    float64 `json:"stddev_ns"`
	AvgTokS  float64 `json:"avg_ts"`
	StdTokS  float64 `json:"stddev_ts"`
	HugePart float64 `json:"huge_share,omitempty"`
}

func (r *speedReport) describe(e *engine.Engine, f *gguf.File, d engine.Demand, load time.Duration) {
	info := e.Info()
	m := speedModel{
		File: f.Name(), Type: info.Architecture + " " + info.FileType, Bytes: d.Weights, Parameters: info.Parameters,
		PerToken: d.PerToken, Operations: d.Operations, KVPosition: d.KVPosition, KVType: d.KVType,
		LoadMS: load.Seconds() * 1000, Batch: engine.BatchTokens,
	}
	huge, total, err := e.HugeBytes()
	m.Memory = total
	if err != nil {
		m.HugeWhy = err.Error()
	} else if total > 0 {
		v := float64(huge) / float64(total)
		m.Huge = &v
	}
	r.Engine, r.Commit, r.CPU, r.Model = "assay "+Version, buildCommit(), host.Read("/").CPUModel, m
}

// sample adds one repetition.
func (r *speedResult) sample(d time.Duration) {
	r.NS = append(r.NS, d.Nanoseconds())
	r.TokS = append(r.TokS, float64(r.Prompt+r.Gen)/d.Seconds())
}

// machine puts down what the machine can do.
func (r *speedResult) machine(read, dot machine.Result) {
	median := func(passes []float64) *float64 {
		s, ok := stats.Summarize(passes)
		if !ok {
			return nil
		}
		v := s.Median / 1e9
		return &v
	}
	r.Read, r.ReadHow = median(read.Passes), read.How
	r.Peak, r.PeakHow = median(dot.Passes), dot.How
}

// judge computes what follows from the samples.
func (r *speedResult) judge(t speedTest, d engine.Demand) {
	r.Summary, _ = stats.Summarize(r.TokS)
	share := func(v float64, of *float64) *float64 {
		if of == nil || *of <= 0 {
			return nil
		}
		s := v / *of
		return &s
	}
	r.Gops = r.Summary.Median * float64(d.Operations) / 1e9
	r.OfPeak = share(r.Gops, r.Peak)
	if t.gen > 0 && t.drafts == 0 {
		// The middle token has depth + gen/2 positions before it.
		before := float64(t.depth) + float64(t.gen-1)/2
		bytes := d.Reads(before)
		gbs := bytes * r.Summary.Median / 1e9
		r.Bytes, r.GBs, r.Share = &bytes, &gbs, share(gbs, r.Read)
	}
}

func (r *speedReport) line(t *speedResult) speedLine {
	ns := make([]float64, len(t.NS))
	for i, v := range t.NS {
		ns[i] = float64(v)
	}
	l := speedLine{
		Engine: r.Engine, Commit: r.Commit, CPU: r.CPU, File: r.Model.File, Type: r.Model.Type, Bytes: r.Model.Bytes,
		Parameters: r.Model.Parameters, Batch: r.Model.Batch, KeyType: r.Model.KVType, ValueType: r.Model.KVType, speedResult: t,
	}
	l.AvgNS, l.StdNS = meanAndDeviation(ns)
	l.AvgTokS, l.StdTokS = meanAndDeviation(t.TokS)
	if r.Model.Huge != nil {
		l.HugePart = *r.Model.Huge
	}
	return l
}

// meanAndDeviation are llama-bench's: the deviation is the sample's, 0 of one
// value.
func meanAndDeviation(v []float64) (mean, deviation float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	if len(v) < 2 {
		return mean, 0
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(v)-1))
}

func (r *speedReport) print(w io.Writer) error {
	m := r.Model
	fmt.Fprintf(w, "%s: %s, %s, %s parameters; weights in memory %s", m.File, m.Type, size(uint64(m.Bytes)), thousands(m.Parameters), size(uint64(m.Memory)))
	if m.Huge != nil {
		fmt.Fprintf(w, ", %.0f %% in huge pages", 100**m.Huge)
	}
	fmt.Fprintf(w, "\nloaded in %.1f s; a token reads %.1f MB of weights (in the file's formats), and %s of %s a position before it\n\n",
		m.LoadMS/1000, float64(m.PerToken)/1e6, size(uint64(m.KVPosition)), m.KVType)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "test\tthreads\ttok/s\tsmallest\tlargest\tMB/token\tGB/s\tof read\tGop/s\tof peak\t")
	for _, x := range r.Tests {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t", x.Test, x.Threads, digits(x.Summary.Median), digits(x.Summary.Min), digits(x.Summary.Max))
		if x.Bytes != nil {
			fmt.Fprintf(t, "%.1f\t%.1f\t%s\t\t\t\n", *x.Bytes/1e6, *x.GBs, percent(x.Share))
		} else {
			fmt.Fprintf(t, "\t\t\t%.0f\t%s\t\n", x.Gops, percent(x.OfPeak))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var threads []int
	for _, x := range r.Tests {
		if slices.Contains(threads, x.Threads) {
			continue
		}
		threads = append(threads, x.Threads)
		fmt.Fprintf(w, "this machine, %d threads: reads %s GB/s by %s, computes %s Gop/s by %s\n",
			x.Threads, r.around(x.Threads, func(t *speedResult) *float64 { return t.Read }), x.ReadHow,
			r.around(x.Threads, func(t *speedResult) *float64 { return t.Peak }), x.PeakHow)
	}
	return nil
}

// around is the range of a figure of the machine over the tests of one number
// of threads.
func (r *speedReport) around(threads int, get func(*speedResult) *float64) string {
	var v []float64
	for _, t := range r.Tests {
		if x := get(t); t.Threads == threads && x != nil {
			v = append(v, *x)
		}
	}
	if len(v) == 0 {
		return "an unknown number of"
	}
	if low, high := digits(slices.Min(v)), digits(slices.Max(v)); low != high {
		return low + " to " + high
	}
	return digits(v[0])
}

// digits writes v with three digits or more.
func digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// percent writes a share, or why it is not there.
func percent(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

// speedMemory is how much memory is read to measure it: far more than caches
// hold, and a small part of what is free.
func speedMemory() int {
	n := 512 << 20
	if free, err := freeMemory(string(os.PathSeparator)); err == nil {
		n = min(n, int(free.bytes/8))
	}
	return max(n, 64<<20)
}
