package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"assay/internal/engine"
)

// fitReport is what fit found; its JSON is the command's --json.
type fitReport struct {
	File       string      `json:"file"`
	Context    int         `json:"context"`
	Slots      int         `json:"parallel"`
	Weights    int64       `json:"weight_bytes"`        // in the file
	Memory     int64       `json:"weight_memory_bytes"` // when loaded, those of experts_bytes left out
	Experts    *fitExperts `json:"experts"`             // null: the model's are among the weights, or it has none
	KV         int64       `json:"kv_bytes"`
	KVType     string      `json:"kv_type"`
	KVPosition int64       `json:"kv_bytes_per_position"`
	Reuse      *int64      `json:"cache_ram_bytes"` // of the cache of prompts, at most; null: it has no limit
	Drafts     int64       `json:"draft_bytes"`     // estimated
	Buffers    int64       `json:"buffer_bytes"`    // estimated
	Reserve    int64       `json:"reserve_bytes"`   // that --expert-ram auto leaves to others
	Total      int64       `json:"total_bytes"`
	Free       *int64      `json:"free_bytes"` // null where that can't be read
	FreeFrom   string      `json:"free_from"`  // what says so, or why it is null
	Fits       *bool       `json:"fits"`       // null when free_bytes is
	Advice     string      `json:"advice,omitempty"`
	PerToken   int64       `json:"weight_bytes_per_token"`
	Threads    int         `json:"threads"`
	Read       *float64    `json:"read_gb_s"` // measured now
	ReadWhy    string      `json:"read_why,omitempty"`
	Efficiency float64     `json:"efficiency"`
	Speeds     []fitSpeed  `json:"speeds"` // empty when read_gb_s is null

	need  engine.Need
	asked int64 // --expert-ram, 0 or engine.ExpertAuto
	mmap  bool
}

// fitExperts is of experts that are read when they are wanted.
type fitExperts struct {
	Bytes  int64    `json:"ram_bytes"`   // that they will have
	All    int64    `json:"all_bytes"`   // that all of them would take
	Least  int64    `json:"least_bytes"` // without which nothing runs
	Hit    *float64 `json:"hit_share"`   // null: see hit_why
	HitWhy string   `json:"hit_why,omitempty"`
}

// hitWhy is why nobody can tell how many lookups will be hits.
const hitWhy = "it depends on which experts the text asks for; assay speed with the same flags measures it"

// fitSpeed is the decode rate after so many positions.
type fitSpeed struct {
	Depth    int      `json:"depth"`
	Bytes    int64    `json:"bytes_per_token"`
	Bound    float64  `json:"bound_tok_s"`    // read rate over bytes
	Expected *float64 `json:"expected_tok_s"` // times efficiency; null where experts are read from the disk
}

func newFitReport(file string, n engine.Need, o engine.Options) *fitReport {
	r := &fitReport{need: n, File: file, Speeds: []fitSpeed{}, asked: o.ExpertRAM, mmap: o.Mmap}
	r.Context, r.Slots, r.PerToken = n.Context, n.Slots, n.PerToken
	r.Weights, r.Memory, r.Drafts, r.Buffers, r.Reserve, r.Total = n.Weights, n.Dense, n.Drafts, n.Buffers, n.Reserve, n.Total()
	r.KV, r.KVType, r.KVPosition = n.KV(), n.KVType, n.KVPosition
	if n.Reuse >= 0 {
		r.Reuse = &n.Reuse
	}
	if n.Experts > 0 {
		r.Experts = &fitExperts{Bytes: n.Experts, All: n.AllExperts, Least: n.LeastExperts, HitWhy: hitWhy}
		if !r.partial() {
			all := 1.0
			r.Experts.Hit, r.Experts.HitWhy = &all, ""
		}
	}
	return r
}

// partial says that some experts will have to be read from the disk.
func (r *fitReport) partial() bool { return r.need.Experts > 0 && r.need.Experts < r.need.AllExperts }

// judge says whether it fits, and what to do where it does not.
func (r *fitReport) judge() {
	if r.Free == nil {
		return
	}
	few := r.need.Experts > 0 && r.need.Experts < r.need.LeastExperts
	// As the engine has it, which wants all that is asked for to be free.
	much := r.asked > r.need.AllExperts && r.need.Dense+r.need.Buffers+r.asked > *r.Free
	fits := *r.Free >= r.Total && !few && !much
	r.Fits = &fits
	room := r.need.ExpertRoom(*r.Free)
	switch {
	case fits:
	case r.asked != engine.ExpertAuto && r.need.AllExperts > 0 && room >= r.need.LeastExperts:
		r.Advice = "try --expert-ram " + sizeFlag(min(room, r.need.AllExperts), room > r.need.AllExperts)
	default:
		r.Advice = r.smaller()
	}
}

// smaller is the context that would fit, or else what may.
func (r *fitReport) smaller() string {
	room := *r.Free - (r.Total - r.KV)
	page := int64(r.need.KVPage) * r.KVPosition * int64(r.Slots)
	if pages := room / max(1, page); page > 0 && pages > 0 && pages*int64(r.need.KVPage) < int64(r.Context) {
		return fmt.Sprintf("-c %d would fit", pages*int64(r.need.KVPage))
	}
	if r.Slots > 1 {
		return "try a smaller --parallel"
	}
	if r.Reuse != nil && r.Total-*r.Reuse <= *r.Free {
		return "--cache-ram 0 would fit"
	}
	return "free memory, or take a smaller model"
}

// sizeFlag is a size as --expert-ram takes it, in tenths of GiB or whole MiB; up is
// which way to round.
func sizeFlag(n int64, up bool) string {
	unit, steps, name, format := int64(1<<20), int64(1), "MiB", "%.0f"
	if n >= 10<<30 {
		unit, steps, name, format = 1<<30, 10, "GiB", "%.1f"
	}
	if n *= steps; up {
		n += unit - 1
	}
	return fmt.Sprintf(format+name, float64(n/unit)/float64(steps))
}

func (r *fitReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "file\t%s\n", r.File)
	fmt.Fprintf(t, "weights\t%s", size(uint64(r.Memory)))
	switch {
	case r.Experts != nil:
		fmt.Fprint(t, " that every token needs\n")
	case r.mmap:
		fmt.Fprint(t, ", the file's own pages: what has no room of them is read from the disk again, slowly\n")
	default:
		fmt.Fprintf(t, " (%s in the file)\n", size(uint64(r.Weights)))
	}
	r.printExperts(t)
	fmt.Fprintf(t, "keys and values\t%s: %d positions of %s (%s)", size(uint64(r.KV)), r.Context, size(uint64(r.KVPosition)), r.KVType)
	if r.Slots > 1 {
		fmt.Fprintf(t, " in each of %d slots", r.Slots)
	}
	fmt.Fprintln(t)
	switch {
	case r.Reuse == nil:
		fmt.Fprint(t, "prompt cache\tno limit: it is left out of the sum, and grows until memory is full\n")
	case *r.Reuse == 0:
		fmt.Fprint(t, "prompt cache\tnone\n")
	default:
		fmt.Fprintf(t, "prompt cache\tup to %s of earlier prompts\n", size(uint64(*r.Reuse)))
	}
	if r.Drafts > 0 {
		fmt.Fprintf(t, "drafts\tabout %s\n", size(uint64(r.Drafts)))
	}
	fmt.Fprintf(t, "buffers\tabout %s\n", size(uint64(r.Buffers)))
	if r.Reserve > 0 {
		fmt.Fprintf(t, "left to others\t%s\n", size(uint64(r.Reserve)))
	}
	fmt.Fprintf(t, "together\t%s\n", size(uint64(r.Total)))
	switch {
	case r.Free == nil:
		fmt.Fprintf(t, "free\tunknown: %s\n", r.FreeFrom)
	case *r.Fits:
		fmt.Fprintf(t, "free\t%s, by %s: it fits\n", size(uint64(*r.Free)), r.FreeFrom)
	default:
		fmt.Fprintf(t, "free\t%s, by %s: it does NOT fit", size(uint64(*r.Free)), r.FreeFrom)
		if missing := max(r.Total, r.asked+r.need.Dense+r.need.Buffers) - *r.Free; missing > 0 {
			fmt.Fprintf(t, ", by %s", size(uint64(missing)))
		}
		fmt.Fprintf(t, "; %s\n", r.Advice)
	}
	return r.printSpeeds(t)
}

func (r *fitReport) printExperts(w io.Writer) {
	e := r.Experts
	if e == nil {
		return
	}
	fmt.Fprintf(w, "experts\t%s of %s in RAM (%.0f %%)", size(uint64(e.Bytes)), size(uint64(e.All)), 100*float64(e.Bytes)/float64(e.All))
	switch {
	case e.Bytes < e.Least:
		fmt.Fprintf(w, ": too few, it takes %s to run at all\n", size(uint64(e.Least)))
	case e.Hit == nil:
		fmt.Fprintf(w, "\nhit share\tunknown: %s\n", e.HitWhy)
	default:
		fmt.Fprint(w, ": each is read once\n")
	}
}

func (r *fitReport) printSpeeds(t *tabwriter.Writer) error {
	if r.Read == nil {
		fmt.Fprintf(t, "speed\tunknown: %s\n", r.ReadWhy)
		return t.Flush()
	}
	fmt.Fprintf(t, "memory reads\t%s GB/s, measured now on %d threads\n", digits(*r.Read), r.Threads)
	for _, s := range r.Speeds {
		if s.Expected == nil {
			fmt.Fprintf(t, "generates\tat most %s tok/s after %d tokens (%.0f MB a token), were every expert at hand; those that are read from the disk cost more\n",
				digits(s.Bound), s.Depth, float64(s.Bytes)/1e6)
			continue
		}
		fmt.Fprintf(t, "generates\tabout %s tok/s after %d tokens (%.0f MB a token: at most %s tok/s, of which %.0f %% can be expected)\n",
			digits(*s.Expected), s.Depth, float64(s.Bytes)/1e6, digits(s.Bound), 100*r.Efficiency)
	}
	return t.Flush()
}
