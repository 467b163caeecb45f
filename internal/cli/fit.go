package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/machine"
	"assay/internal/gguf"
	"assay/internal/kit/proc"
	"assay/internal/kit/stats"
)

const fitLong = `Say before loading whether a model fits into this machine's memory, and how fast
it can be: the memory that it needs at a context of -c, what is free (under the
limit of the cgroup, as in a container), and the tokens a second to expect.

The speed is computed, not measured: a generated token reads the weights of the
experts it takes, all other weights, and the keys and values of the positions
before it. Memory's read rate is measured for a moment, on as many threads as
would compute. The bound is what that rate gives if nothing else cost time; the
expectation is a share of it, --efficiency, that the engine was seen to reach
(docs/Performance.md). assay speed measures the real figure.

Examples:
  assay fit model.gguf
  assay fit model.gguf -c 32768 --json

EXIT STATUS
  0  it fits
  1  it does not fit, or the file can't be read or run
  2  wrong usage`

// usualEfficiency is the share of memory's read rate that decoding reaches: the
// lower end of what docs/Performance.md shows.
const usualEfficiency = 0.5

type fitOptions struct {
	context    int
	threads    int
	slots      int
	efficiency float64
	asJSON     bool
}

func newFitCommand(env *Env) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit FILE",
		Short: "Say whether a model fits, and how fast it can be",
		Long:  fitLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.context < 0:
				return usagef("--context: %d is not a number of positions (want 0 for the model's own, or more)", o.context)
			case o.threads < 0:
				return usagef("--threads: %d is not a number of threads (want 0 for one a core, or more)", o.threads)
			case o.slots < 1:
				return usagef("--parallel: %d is not a number of slots (want 1 or more)", o.slots)
			case !(o.efficiency > 0 && o.efficiency <= 1):
				return usagef("--efficiency: %g is not a share (want more than 0, and at most 1)", o.efficiency)
			}
			return runFit(cmd.Context(), env, o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.context, "context", "c", 0, "positions of a context, prompt and answer together (0: the model's own, at most 8192)")
	f.IntVarP(&o.threads, "threads", "t", 0, "compute threads (0: one a core)")
	f.IntVar(&o.slots, "parallel", 1, "requests at once, each with its own context")
	f.Float64Var(&o.efficiency, "efficiency", usualEfficiency, "`share` of memory's read rate to expect")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	return cmd
}

// fitReport is what fit found; its JSON is the command's --json.
type fitReport struct {
	File       string     `json:"file"`
	Context    int        `json:"context"`
	Slots      int        `json:"parallel"`
	Weights    int64      `json:"weight_bytes"`        // in the file
	Memory     int64      `json:"weight_memory_bytes"` // when loaded
	KV         int64      `json:"kv_bytes"`
	KVType     string     `json:"kv_type"`
	KVPosition int64      `json:"kv_bytes_per_position"`
	Buffers    int64      `json:"buffer_bytes"` // estimated
	Total      int64      `json:"total_bytes"`
	Free       *int64     `json:"free_bytes"` // null where that can't be read
	FreeFrom   string     `json:"free_from"`  // what says so, or why it is null
	Fits       *bool      `json:"fits"`       // null when free_bytes is
	PerToken   int64      `json:"weight_bytes_per_token"`
	Threads    int        `json:"threads"`
	Read       *float64   `json:"read_gb_s"` // measured now
	ReadWhy    string     `json:"read_why,omitempty"`
	Efficiency float64    `json:"efficiency"`
	Speeds     []fitSpeed `json:"speeds"` // empty when read_gb_s is null
	demand     engine.Demand
}

// fitSpeed is the decode rate after so many positions.
type fitSpeed struct {
	Depth    int     `json:"depth"`
	Bytes    int64   `json:"bytes_per_token"`
	Bound    float64 `json:"bound_tok_s"`    // read rate over bytes
	Expected float64 `json:"expected_tok_s"` // times efficiency
}

func runFit(ctx context.Context, env *Env, o fitOptions, file string) error {
	f, err := openModel(env, file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := engine.CanRun(f); err != nil {
		return err
	}
	r, err := fit(ctx, f, o)
	if err != nil {
		return err
	}
	if o.asJSON {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(env.Stdout)
	}
	if err == nil && r.Fits != nil && !*r.Fits {
		return &exitError{Code: ExitFailed} // the report has said so
	}
	return err
}

func fit(ctx context.Context, f *gguf.File, o fitOptions) (*fitReport, error) {
	if o.threads == 0 {
		o.threads = runtime.NumCPU()
	}
	d, err := engine.DemandOf(f, engine.Options{Context: o.context, Slots: o.slots, Threads: o.threads})
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	r := &fitReport{
		File: f.Name(), Context: d.Context, Slots: d.Slots, Weights: d.Weights, Memory: d.Memory, KV: d.KV(), KVType: d.KVType,
		KVPosition: d.KVPosition, Buffers: d.Buffers, Total: d.Total(), PerToken: d.PerToken,
		Threads: o.threads, Efficiency: o.efficiency, Speeds: []fitSpeed{}, demand: d,
	}
	if free, err := freeMemory(string(os.PathSeparator)); err != nil {
		r.FreeFrom = err.Error()
	} else {
		fits := free.bytes >= r.Total
		r.Free, r.FreeFrom, r.Fits = &free.bytes, free.from, &fits
	}
	if d.Weights < cacheBytes {
		r.ReadWhy = "the model is small enough for caches, so memory does not bound it; measure it with assay speed"
		return r, nil
	}
	if err := r.measure(ctx); err != nil {
		r.ReadWhy = err.Error()
		return r, ctx.Err()
	}
	r.expect()
	return r, nil
}

// cacheBytes is the size up to which a model may live in a processor's caches.
const cacheBytes = 512 << 20

// expect computes the speeds from what memory reads.
func (r *fitReport) expect() {
	for _, depth := range fitDepths(r.Context) {
		bytes := r.demand.Reads(float64(depth))
		bound := *r.Read * 1e9 / bytes
		r.Speeds = append(r.Speeds, fitSpeed{depth, int64(bytes), bound, bound * r.Efficiency})
	}
}

// measure reads memory for a moment.
func (r *fitReport) measure(ctx context.Context) error {
	reader, err := machine.NewReader(speedMemory(), true)
	if err != nil {
		return err
	}
	got := reader.Read(ctx, r.Threads, 9)
	s, ok := stats.Summarize(got.Passes)
	if err := errors.Join(reader.Close(), ctx.Err()); err != nil {
		return err
	}
	if !ok {
		return errors.New("memory could not be read")
	}
	v := s.Median / 1e9
	r.Read = &v
	return nil
}

// fitDepths are the depths that are shown: an empty context, 4096 positions and
// a full context.
func fitDepths(context int) []int {
	d := []int{0, min(4096, context-1), context - 1}
	slices.Sort(d)
	return slices.Compact(d)
}

// memoryFree is how much memory a new program can have.
type memoryFree struct {
	bytes int64
	from  string // what says so
}

// freeMemory is the smaller one of what the kernel has and what the cgroup's
// limit leaves.
func freeMemory(root string) (memoryFree, error) {
	n, err := proc.Root(root).Meminfo("MemAvailable")
	if err != nil {
		return memoryFree{}, err
	}
	free := memoryFree{n, "MemAvailable of /proc/meminfo"}
	c, err := proc.Root(root).MemoryCgroup("self")
	if err != nil {
		return free, nil // no cgroup, no limit
	}
	if left, limited, err := c.Available(); err == nil && limited && left < free.bytes {
		free = memoryFree{left, "the limit of cgroup " + c.Path}
	}
	return free, nil
}

func (r *fitReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "file\t%s\n", r.File)
	fmt.Fprintf(t, "weights\t%s (%s in the file)\n", size(uint64(r.Memory)), size(uint64(r.Weights)))
	fmt.Fprintf(t, "keys and values\t%s: %d positions of %s (%s)", size(uint64(r.KV)), r.Context, size(uint64(r.KVPosition)), r.KVType)
	if r.Slots > 1 {
		fmt.Fprintf(t, " in each of %d slots", r.Slots)
	}
	fmt.Fprintf(t, "\nbuffers\tabout %s\n", size(uint64(r.Buffers)))
	fmt.Fprintf(t, "together\t%s\n", size(uint64(r.Total)))
	switch {
	case r.Free == nil:
		fmt.Fprintf(t, "free\tunknown: %s\n", r.FreeFrom)
	case *r.Fits:
		fmt.Fprintf(t, "free\t%s, by %s: it fits\n", size(uint64(*r.Free)), r.FreeFrom)
	default:
		fmt.Fprintf(t, "free\t%s, by %s: it does NOT fit; %s are missing%s\n", size(uint64(*r.Free)), r.FreeFrom, size(uint64(r.Total-*r.Free)), r.advice())
	}
	if r.Read == nil {
		fmt.Fprintf(t, "speed\tunknown: %s\n", r.ReadWhy)
		return t.Flush()
	}
	fmt.Fprintf(t, "memory reads\t%s GB/s, measured now on %d threads\n", digits(*r.Read), r.Threads)
	for _, s := range r.Speeds {
		fmt.Fprintf(t, "generates\tabout %s tok/s after %d tokens (%.0f MB a token: at most %s tok/s, of which %.0f %% can be expected)\n",
			digits(s.Expected), s.Depth, float64(s.Bytes)/1e6, digits(s.Bound), 100*r.Efficiency)
	}
	return t.Flush()
}

// advice is what helps when the model does not fit.
func (r *fitReport) advice() string {
	room := *r.Free - r.Memory - r.Buffers
	page := int64(r.demand.KVPage) * r.KVPosition * int64(r.Slots)
	if pages := room / page; pages > 0 {
		return fmt.Sprintf(" (-c %d would fit)", pages*int64(r.demand.KVPage))
	}
	return ""
}
