package engine

import (
	"math"

	"assay/internal/engine/expert"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/spec"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// Need is what an engine takes of memory with its options, part by part, in bytes.
type Need struct {
	Demand        // its Memory and Total are those with all experts in memory
	Dense   int64 // weights but for experts that are read when they are wanted
	Experts int64 // for those; 0: all are in Dense
	Drafts  int64 // about what drafting takes
	Reuse   int64 // for what is kept of earlier prompts, at most; -1: nothing bounds it
	Reserve int64 // that ExpertAuto leaves to others

	// What experts would take at least, and all of them, if they were read when they are
	// wanted, and the weights that every token needs. 0: the model has no experts, or is no
	// file that they could be read from.
	LeastExperts, AllExperts, Others int64
}

// Total is the memory that has to be free.
func (n Need) Total() int64 {
	return n.Dense + n.Experts + n.KV() + n.Buffers + n.Drafts + max(0, n.Reuse) + n.Reserve
}

// ExpertRoom is how much of what is free Options.ExpertRAM could be, beside all else.
func (n Need) ExpertRoom(free int64) int64 {
	return free - (n.Total() - n.Dense - n.Experts - n.Reserve) - n.Others
}

// NeedOf says what an engine will take, from the metadata of f alone, where free
// memory is free; nil: nobody can tell. The options are checked as Load does.
func NeedOf(f *gguf.File, o Options, free *expert.Free) (Need, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return Need{}, err
	}
	o, shape, err := o.settle(f, c)
	if err != nil {
		return Need{}, err
	}
	d, err := DemandOf(f, o)
	if err != nil {
		return Need{}, err
	}
	n := Need{Demand: d, Dense: d.Memory, Drafts: draftBytes(c, shape, o)}
	if c.Experts > 0 && f.Mapped() && !o.Mmap {
		if n.LeastExperts, n.AllExperts, err = expert.Sizes(f, c.ExpertShape(), expert.Options{}); err != nil {
			return Need{}, err
		}
		how := model.WeightOptions(f)
		o.beforeHead(f, c, &how)
		how.Elsewhere = append(how.Elsewhere, expert.Tensors(f, c.ExpertShape())...)
		n.Others = int64(weights.MemoryBytes(f, how))
	}
	if o.ExpertRAM != 0 {
		n.Dense = n.Others
	}
	switch {
	case o.ReuseBytes == math.MaxInt64:
		n.Reuse = -1
	case free == nil:
		n.Reuse = autoReuse(o.ReuseBytes, 0, false)
	default: // experts come into memory later
		n.Reuse = autoReuse(o.ReuseBytes, max(0, free.Bytes-n.Dense-n.Buffers-n.Drafts), true)
	}
	switch {
	case o.ExpertRAM == 0:
	case o.ExpertRAM != ExpertAuto:
		n.Experts = min(o.ExpertRAM, n.AllExperts)
	default: // what is left, and at least what Load asks for
		n.Experts = max(n.LeastExperts, n.AllExperts/10)
		if free != nil {
			n.Reserve = expert.Reserve(free.Limit)
			n.Experts = max(n.Experts, min(n.AllExperts, free.Bytes-n.Total()+n.Experts))
		}
	}
	return n, nil
}

// draftBytes is about what drafting takes: logits of whole windows, and the tables or
// the block that draft.
func draftBytes(c *model.Config, shape kv.Shape, o Options) int64 {
	if o.Drafts == 0 {
		return 0
	}
	slot := 4 * int64(1+o.Drafts) * int64(c.Vocabulary)
	if o.Drafter != spec.KindMTP {
		return int64(o.Slots) * (slot + spec.SuffixBytes(o.Context))
	}
	slot += 4 * int64(max(o.Batch, 1+o.Drafts)*c.Width+c.Vocabulary)
	attends := 0
	for _, l := range shape.Layers {
		if l.Heads > 0 {
			attends++
		}
	}
	slot += pagesOf(o.Context) * int64(shape.PageBytes()/max(1, attends)) // one layer's
	all := int64(o.Slots)*slot + int64(c.Scratch())
	if o.Head != nil {
		all += int64(weights.MemoryBytes(o.Head, model.WeightOptions(o.Head)))
	}
	return all
}
