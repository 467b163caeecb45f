package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/expert"
	"assay/internal/engine/machine"
	"assay/internal/gguf"
	"assay/internal/kit/proc"
	"assay/internal/kit/stats"
)

const fitLong = `Say before loading whether a model fits into this machine's memory, and how fast
it can be: the memory that it needs at a context of -c, what is free (under the
limit of the cgroup, as in a container), and the tokens a second to expect.

The flags are those of assay serve that change how much memory it takes, with the
same meaning: what is said holds for a server, all of whose slots are full, and whose
cache of prompts is. Where experts are read when they are wanted (--expert-ram), it
says how many of them will be in memory. What share of those that tokens ask for are
there, and so the speed, depends on the text: assay speed measures it.

The speed is computed, not measured: a generated token reads the weights of the
experts it takes, all other weights, and the keys and values of the positions
before it. Memory's read rate is measured for a moment, on as many threads as
would compute. The bound is what that rate gives if nothing else cost time; the
expectation is a share of it, --efficiency, that the engine was seen to reach
(docs/Performance.md). assay speed measures the real figure.

Examples:
  assay fit model.gguf
  assay fit model.gguf -c 32768 --json
  assay fit model.gguf -c 32768 -np 4 --expert-ram auto --cache-ram 2048

EXIT STATUS
  0  it fits
  1  it does not fit, or the file can't be read or run
  2  wrong usage`

// usualEfficiency is the share of memory's read rate that decoding reaches: the
// lower end of what docs/Performance.md shows.
const usualEfficiency = 0.5

type fitOptions struct {
	engineFlags
	reuse      reuseFlags
	slots      int
	efficiency float64
	asJSON     bool
}

func (o *fitOptions) check() error {
	switch {
	case o.slots < 1:
		return usagef("--parallel: %d is not a number of slots (want 1 or more)", o.slots)
	case !(o.efficiency > 0 && o.efficiency <= 1):
		return usagef("--efficiency: %g is not a share (want more than 0, and at most 1)", o.efficiency)
	}
	if err := o.reuse.check(); err != nil {
		return err
	}
	return o.engineFlags.check()
}

func newFitCommand(env *Env) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit FILE",
		Short: "Say whether a model fits, and how fast it can be",
		Long:  fitLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			o.model = args[0]
			return runFit(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.context, "context", "c", 0, "positions of a context, prompt and answer together (0: the model's own, at most 8192)")
	f.IntVarP(&o.threads, "threads", "t", 0, "compute threads (0: one a core)")
	f.IntVar(&o.slots, "parallel", 1, "requests at once, each with its own context")
	f.StringVar(&o.keyType, "cache-type-k", cacheType, "`format` of the keys that are kept: f16, q8_0 or f32")
	f.StringVar(&o.valueType, "cache-type-v", cacheType, "`format` of the values that are kept: that of the keys")
	f.BoolVar(&o.mmap, "mmap", false, "use the file's own pages instead of a copy")
	o.drafts.register(cmd)
	o.experts.register(cmd)
	o.reuse.register(cmd)
	f.Float64Var(&o.efficiency, "efficiency", usualEfficiency, "`share` of memory's read rate to expect")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	return cmd
}

func runFit(ctx context.Context, env *Env, o fitOptions) error {
	f, err := openModel(env, o.model)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := engine.CanRun(f); err != nil {
		return err
	}
	options := engine.Options{
		Context: o.context, Slots: o.slots, Threads: o.threads, CacheType: o.keyType, Mmap: o.mmap,
	}
	o.experts.set(&options)
	o.reuse.set(&options)
	release, err := o.drafts.set(env, &options)
	if err != nil {
		return err
	}
	defer release()
	r, err := fit(ctx, f, o, options, freeMemory)
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

func fit(ctx context.Context, f *gguf.File, o fitOptions, options engine.Options, memory func(root string) (memoryFree, error)) (*fitReport, error) {
	if o.threads == 0 {
		o.threads = runtime.NumCPU()
	}
	free, freeErr := memory(string(os.PathSeparator))
	var has *expert.Free
	if freeErr == nil {
		has = &expert.Free{Bytes: free.bytes, Limit: free.limit}
	}
	n, err := engine.NeedOf(f, options, has)
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	r := newFitReport(f.Name(), n, options)
	r.Threads, r.Efficiency = o.threads, o.efficiency
	if freeErr != nil {
		r.FreeFrom = freeErr.Error()
	} else {
		r.Free, r.FreeFrom = &free.bytes, free.from
	}
	r.judge()
	if n.Weights < cacheBytes {
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
		bytes := r.need.Reads(float64(depth))
		bound := *r.Read * 1e9 / bytes
		s := fitSpeed{Depth: depth, Bytes: int64(bytes), Bound: bound}
		if !r.partial() {
			expected := bound * r.Efficiency
			s.Expected = &expected
		}
		r.Speeds = append(r.Speeds, s)
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
	limit int64  // of all that lives where that is free; 0: not known
}

// freeMemory is the smaller one of what the kernel has and what the cgroup's
// limit leaves.
func freeMemory(root string) (memoryFree, error) {
	n, err := proc.Root(root).Meminfo("MemAvailable")
	if err != nil {
		return memoryFree{}, err
	}
	free := memoryFree{bytes: n, from: "MemAvailable of /proc/meminfo"}
	if f, err := expert.Machine(root).Free(); err == nil {
		free.limit = f.Limit
	}
	c, err := proc.Root(root).MemoryCgroup("self")
	if err != nil {
		return free, nil // no cgroup, no limit
	}
	if left, limited, err := c.Available(); err == nil && limited && left < free.bytes {
		free.bytes, free.from = left, "the limit of cgroup "+c.Path
	}
	return free, nil
}
