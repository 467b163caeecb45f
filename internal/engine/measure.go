package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// Bench is a slot taken for measuring: tokens are fed to it, nothing is
// sampled. It belongs to one goroutine.
type Bench struct {
	e      *Engine
	s      *slot
	logits []float32 // of Verify
}

// Bench takes a slot, when one is free, until the Bench is closed.
func (e *Engine) Bench(ctx context.Context) (*Bench, error) {
	s, _, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.busy.Store(true)
	s.turn.Sequence.Cache = s.cache
	return &Bench{e: e, s: s}, nil
}

// Close gives the slot back.
func (b *Bench) Close() {
	if b.s != nil {
		b.e.release(b.s)
		b.s = nil
	}
}

// Feed appends tokens, BatchTokens at a time, and computes the logits after the
// last of them: what a prompt costs, or with one token what one of the answer
// does, sampling left out.
func (b *Bench) Feed(ctx context.Context, ids []int32) error {
	if n := b.s.cache.Len() + len(ids); n > b.e.options.Context {
		return &ContextError{Prompt: n, Context: b.e.options.Context}
	}
	g := generation{e: b.e, slot: b.s}
	t := b.s.turn
	t.ended = func() error { return g.ended(ctx) }
	t.prompt = len(ids) > 1
	defer func() { t.prompt = false }()
	for len(ids) > 0 {
		if err := g.forward(ctx, ids, b.s.logits); err != nil {
			return err
		}
		ids = ids[t.taken:]
	}
	return nil
}

// Verify appends up to 1+spec.MaxDrafts tokens in one pass, and computes the logits
// after each: what a round costs that verifies len(ids)-1 drafts, drafting left out.
func (b *Bench) Verify(ctx context.Context, ids []int32) error {
	if n := b.s.cache.Len() + len(ids); n > b.e.options.Context {
		return &ContextError{Prompt: n, Context: b.e.options.Context}
	}
	if n := len(ids) * b.e.info.Vocabulary; len(b.logits) < n {
		b.logits = make([]float32, n)
	}
	g := generation{e: b.e, slot: b.s}
	b.s.turn.ended = func() error { return g.ended(ctx) }
	return g.forward(ctx, ids, b.logits[:len(ids)*b.e.info.Vocabulary])
}

// Len is how many positions the slot holds.
func (b *Bench) Len() int { return b.s.cache.Len() }

// Truncate forgets the positions from n on.
func (b *Bench) Truncate(n int) { b.s.cache.Truncate(n) }

// BatchTokens is how many tokens of a prompt one pass takes at most.
const BatchTokens = model.MaxBatch

// Demand is what a model needs: memory, and what one token moves and computes.
type Demand struct {
	Weights    int64 // bytes of the tensors that are kept in memory, in the file's formats
	Memory     int64 // bytes of them when loaded: rows are laid out for the kernels, which takes more in some formats
	PerToken   int64 // bytes of weights that one token reads: the experts it takes, not the others, one row of the embeddings, and nothing of blocks that only draft
	OfExperts  int64 // of these, the ones of experts
	Chosen     int   // experts that one token takes, over all layers
	Operations int64 // multiplications and additions of one token with those weights; attention's are left out
	KVPosition int64 // bytes of keys and values that one position takes, and that every later token reads
	KVType     string
	KVPage     int   // positions that are allocated at a time
	Buffers    int64 // about what a pass, the logits, the tokenizer and the states of recurrent layers take, in bytes
	Context    int   // positions of one slot, defaults filled in
	Slots      int
}

// KV is how much keys and values take when every slot is full, in bytes.
func (d Demand) KV() int64 {
	pages := (d.Context + d.KVPage - 1) / d.KVPage
	return int64(d.Slots) * int64(pages*d.KVPage) * d.KVPosition
}

// Total is the memory that a loaded engine takes at most, in bytes.
func (d Demand) Total() int64 { return d.Memory + d.KV() + d.Buffers }

// Reads is how many bytes of memory a generated token reads when there are
// depth positions before it: weights as they lie in memory, keys and values.
func (d Demand) Reads(depth float64) float64 {
	return float64(d.PerToken)*float64(d.Memory)/float64(d.Weights) + depth*float64(d.KVPosition)
}

// RoundReads is how many bytes of weights, in the file's formats, a round reads that
// computes so many different experts, over all layers: each once, however many tokens
// chose it.
func (d Demand) RoundReads(experts float64) float64 {
	bytes := float64(d.PerToken)
	if d.Chosen > 0 {
		bytes += float64(d.OfExperts) * (experts/float64(d.Chosen) - 1)
	}
	return bytes
}

// DemandOf says what the model of f will need under o, from its metadata alone.
func DemandOf(f *gguf.File, o Options) (Demand, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return Demand{}, err
	}
	if o.Slots == 0 {
		o.Slots = 1
	}
	if o.Context == 0 {
		o.Context = min(c.Context, defaultContext)
	}
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	switch {
	case o.Slots < 1 || o.Slots > 1024:
		return Demand{}, fmt.Errorf("slots: %d is not between 1 and 1024", o.Slots)
	case o.Context < 2 || o.Context > c.Context:
		return Demand{}, fmt.Errorf("context: %d is not between 2 and the %d that %s declares", o.Context, c.Context, f.Name())
	}
	format, err := kernel.ParseKVFormat(o.CacheType)
	if err != nil {
		return Demand{}, err
	}
	shape := c.KVShape(format)
	d := Demand{
		KVPosition: int64(shape.PageBytes() / kv.PageSize), KVType: format.String(), KVPage: kv.PageSize,
		Context: o.Context, Slots: o.Slots,
	}
	tied := true
	if _, ok := f.Tensor("output.weight"); ok {
		tied = false
	}
	how := model.WeightOptions(f)
	o.beforeHead(f, c, &how)
	for _, t := range f.Tensors() {
		if slices.Contains(how.Disk, t.Name) || slices.Contains(how.Elsewhere, t.Name) {
			continue
		}
		d.Weights += int64(t.Bytes())
		if c.Drafts(t.Name) {
			continue
		}
		bytes, products := int64(t.Bytes()), int64(t.Elements())
		switch {
		case t.Name == "token_embd.weight" && !tied:
			bytes, products = bytes/int64(c.Vocabulary), 0
		case c.Experts > 0 && strings.Contains(t.Name, "_exps."):
			bytes = bytes / int64(c.Experts) * int64(c.Used)
			d.OfExperts += bytes
			if strings.HasSuffix(t.Name, "ffn_down_exps.weight") {
				d.Chosen += c.Used
			}
			products = products / int64(c.Experts) * int64(c.Used)
		case len(t.Dims) < 2:
			products = 0
		}
		d.PerToken += bytes
		d.Operations += 2 * products
	}
	if d.Weights == 0 {
		return Demand{}, fmt.Errorf("%s: it has no weights", f.Name())
	}
	d.Memory, d.Buffers = int64(weights.MemoryBytes(f, how)), buffers(c, o)+2*int64(o.Slots)*int64(shape.StateBytes())
	if o.Mmap {
		d.Memory = d.Weights
	}
	return d, nil
}

// buffers is about what else is allocated: the scratch of a pass of BatchTokens
// tokens, the logits of every slot, and tokenizer and runtime, which were seen
// to take about 200 bytes a token of the vocabulary and 16 MiB.
func buffers(c *model.Config, o Options) int64 {
	return int64(c.Scratch()) + 4*int64(o.Slots)*int64(c.Vocabulary) + 200*int64(c.Vocabulary) + 16<<20
}
