// Package model is the forward pass that serves. It reads like the paper: norm,
// attention, route, experts, add; speed lives below it, in kernel and pool. Its
// output bits depend on the tokens alone, never on the number of threads, on how a
// prompt was cut into batches, or on what other sequences share a pass.
//
// An architecture is a file, arch_NAME.go: a function that reads the
// hyper-parameters and puts layers together from the parts that are here. A layer
// is a residual (residual.go) of two parts: a mixer, such as attention, and a
// feed-forward, such as experts; or anything else that is a layer. The recipe is
// in docs/adding-a-model.md.
package model

import (
	"slices"

	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// Config is what is known of a model without loading it.
type Config struct {
	Architecture string
	Layers       int     // that tokens pass; those that only draft left out
	Drafting     int     // layers behind them that draft (nextn)
	Width        int     // of the residual stream
	Vocabulary   int     // rows of the embeddings
	Context      int     // positions that the file declares
	Eps          float32 // of the norms
	Experts      int     // a layer; 0: none
	Used         int     // experts a token
	ExpertWidth  int     // inner width of one expert

	file    *gguf.File
	layers  []kept // what the layers keep
	scratch int    // see Scratch
}

// ReadConfig reads the metadata and the list of tensors of f. Its error lists all
// that keeps the engine from running the model. f must stay open until New is done.
func ReadConfig(f *gguf.File) (*Config, error) {
	m, err := build(f, weights.View(f), nil, false)
	if err != nil {
		return nil, err
	}
	return &m.Config, nil
}

// KVShape is what a sequence keeps, with keys and values in that format.
func (c *Config) KVShape(f kernel.KVFormat) kv.Shape {
	s := kv.Shape{Layers: make([]kv.Layer, len(c.layers))}
	for i, k := range c.layers {
		s.Layers[i] = kv.Layer{
			Heads: k.heads, Floats: k.floats, Memory: k.memory,
			Layout: kernel.KVLayout{Dim: k.dim, Values: k.values, Format: f},
		}
	}
	return s
}

// Drafts says whether a tensor belongs to a block that only drafts.
func (c *Config) Drafts(tensor string) bool {
	layer, ok := layerOf(tensor)
	return ok && layer >= c.Layers
}

// Scratch is about how many bytes a Pass allocates.
func (c *Config) Scratch() int { return 4 * c.scratch * MaxBatch }

// ExpertShape is what package expert asks for.
func (c *Config) ExpertShape() expert.Shape {
	return expert.Shape{Layers: c.Layers, Experts: c.Experts, Used: c.Used, Width: c.Width, Inner: c.ExpertWidth}
}

// kept is what a layer keeps of the positions that it saw. The zero value is
// nothing.
type kept struct {
	heads  int              // key-value heads
	dim    int              // of keys
	values int              // dimensions of values; 0: as many as keys
	floats int              // further numbers of each position
	memory []kv.MemoryShape // what recurrent parts remember
}

// and is what two parts of a layer keep, of which one at most has keys and values.
func (k kept) and(o kept) kept {
	if o.heads > 0 {
		k.heads, k.dim, k.values = o.heads, o.dim, o.values
	}
	k.floats += o.floats
	k.memory = slices.Concat(k.memory, o.memory)
	return k
}
