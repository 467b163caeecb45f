// Package model is the forward pass that serves. It reads like the paper: norm,
// attention, route, experts, add; speed lives below it, in kernel and pool. Its
// output bits depend on the tokens alone, never on the number of threads or on
// how a prompt was cut into batches.
package model

import (
	"errors"
	"fmt"

	"assay/internal/gguf"
)

// Config is the shape of a model, from the file's metadata.
type Config struct {
	Architecture string
	Layers       int
	Width        int // of the residual stream
	Heads        int // query heads
	KVHeads      int // key-value heads, each shared by Heads/KVHeads query heads
	HeadDim      int // of queries, keys and values
	Experts      int // a layer
	Used         int // experts a token
	ExpertWidth  int // inner width of one expert
	Vocabulary   int
	Context      int // positions that the file declares
	Eps          float32
	RopeBase     float64
	RopeDims     int // leading elements of a head that are turned
}

// Architectures are those that this engine runs.
var Architectures = []string{"qwen3moe"}

// ReadConfig reads the metadata of f and checks that they hold together.
func ReadConfig(f *gguf.File) (*Config, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	if arch != "qwen3moe" {
		return nil, fmt.Errorf("%s: general.architecture is %q, which this engine can't run yet; it runs %v", f.Name(), arch, Architectures)
	}
	r := reader{f: f, arch: arch}
	c := &Config{
		Architecture: arch,
		Layers:       r.number("block_count", 1, 1<<10),
		Width:        r.number("embedding_length", 1, 1<<17),
		Heads:        r.number("attention.head_count", 1, 1<<12),
		Experts:      r.number("expert_count", 1, 1<<14),
		ExpertWidth:  r.number("expert_feed_forward_length", 1, 1<<17),
		Context:      r.number("context_length", 1, 1<<27),
		Eps:          float32(r.real("attention.layer_norm_rms_epsilon", 0, 1)),
		RopeBase:     r.realOr("rope.freq_base", 10000, 1, 1e12),
	}
	if r.err != nil {
		return nil, r.err
	}
	c.KVHeads = r.numberOr("attention.head_count_kv", c.Heads, 1, c.Heads)
	c.Used = r.number("expert_used_count", 1, c.Experts)
	c.HeadDim = r.numberOr("attention.key_length", c.Width/c.Heads, 2, 1<<12)
	c.RopeDims = r.numberOr("rope.dimension_count", c.HeadDim, 2, c.HeadDim)
	c.Layers -= r.numberOr("nextn_predict_layers", 0, 0, c.Layers-1) // those only draft
	valueDim := r.numberOr("attention.value_length", c.HeadDim, 2, 1<<12)
	if r.err != nil {
		return nil, r.err
	}
	switch embed, ok := f.Tensor("token_embd.weight"); {
	case !ok:
		return nil, fmt.Errorf("%s: tensor token_embd.weight is missing; is this a file of drafting heads only?", f.Name())
	case len(embed.Dims) < 2:
		return nil, fmt.Errorf("%s: tensor token_embd.weight has dimensions %v, expected [width, vocabulary]", f.Name(), embed.Dims)
	default:
		c.Vocabulary = int(embed.Dims[1])
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return nil, r.fail("attention.head_count_kv", "%d does not divide the %d query heads", c.KVHeads, c.Heads)
	case valueDim != c.HeadDim:
		return nil, r.fail("attention.value_length", "%d differs from key_length %d, which this engine can't run", valueDim, c.HeadDim)
	case c.RopeDims%2 != 0:
		return nil, r.fail("rope.dimension_count", "%d is odd", c.RopeDims)
	}
	if s, err := f.String(arch + ".rope.scaling.type"); err == nil && s != "none" {
		return nil, r.fail("rope.scaling.type", "%q is not supported yet", s)
	}
	return c, nil
}

// reader reads the keys of one architecture and keeps the first error.
type reader struct {
	f    *gguf.File
	arch string
	err  error
}

func (r *reader) fail(key, format string, args ...any) error {
	return fmt.Errorf("%s: %s.%s: %s", r.f.Name(), r.arch, key, fmt.Sprintf(format, args...))
}

func (r *reader) number(key string, least, most int) int {
	v, err := r.f.Uint(r.arch + "." + key)
	if err == nil && (v < uint64(least) || v > uint64(most)) {
		err = r.fail(key, "%d is not between %d and %d", v, least, most)
	}
	if err != nil {
		if r.err == nil {
			r.err = err
		}
		return least
	}
	return int(v)
}

func (r *reader) numberOr(key string, missing, least, most int) int {
	if _, err := r.f.Uint(r.arch + "." + key); errors.Is(err, gguf.ErrMissing) {
		return missing
	}
	return r.number(key, least, most)
}

func (r *reader) real(key string, least, most float64) float64 {
	v, err := r.f.Float(r.arch + "." + key)
	if err == nil && !(v >= least && v <= most) {
		err = r.fail(key, "%g is not between %g and %g", v, least, most)
	}
	if err != nil {
		if r.err == nil {
			r.err = err
		}
		return least
	}
	return v
}

func (r *reader) realOr(key string, missing, least, most float64) float64 {
	if _, err := r.f.Float(r.arch + "." + key); errors.Is(err, gguf.ErrMissing) {
		return missing
	}
	return r.real(key, least, most)
}
