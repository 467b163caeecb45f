package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/gguf"
)

// shape is the size of a model. An architecture takes from it what it has.
type shape struct {
	arch        string
	layers      int
	width       int // of the residual stream
	heads       int // query heads
	kvHeads     int
	headDim     int
	experts     int // a layer
	used        int // experts a token
	expertWidth int
	vocab       int
	context     int // that the file declares
}

// architecture is how to make one kind of model: one entry of architectures.
type architecture struct {
	// check says what is wrong with a shape, if anything.
	check func(s *shape) error
	// meta sets the architecture's own keys. What all have in common is in meta
	// of model.go.
	meta func(s *shape, b *gguf.Builder)
	// tensors lists the tensors in file order.
	tensors func(s *shape) []tensor
}

// architectures are those that can be made.
var architectures = map[string]architecture{
	"gpt-oss":   {checkQwen3MoE, metaGptOss, tensorsGptOss},
	"qwen35moe": {checkQwen35MoE, metaQwen35MoE, tensorsQwen35MoE},
	"qwen3moe":  {checkQwen3MoE, metaQwen3MoE, tensorsQwen3MoE},
}

// presets are whole shapes.
var presets = map[string]shape{
	// The shape of Qwen3-30B-A3B.
	"qwen3-30b-a3b": {
		arch: "qwen3moe", layers: 48, width: 2048, heads: 32, kvHeads: 4, headDim: 128,
		experts: 128, used: 8, expertWidth: 768, vocab: 151936, context: 40960,
	},
	// 2.55 billion weights: the file of the benchmarks.
	"2.5b": {
		arch: "qwen3moe", layers: 24, width: 1024, heads: 16, kvHeads: 4, headDim: 128,
		experts: 64, used: 8, expertWidth: 512, vocab: 4096, context: 32768,
	},
	// The shape of gpt-oss-20b; its files are of the mix MXFP4_MOE.
	"gpt-oss-20b": {
		arch: "gpt-oss", layers: 24, width: 2880, heads: 64, kvHeads: 8, headDim: 64,
		experts: 32, used: 4, expertWidth: 2880, vocab: 201088, context: 131072,
	},
	// The same with 2.2 billion weights, for benchmarks.
	"gpt-oss-2b": {
		arch: "gpt-oss", layers: 20, width: 1024, heads: 32, kvHeads: 4, headDim: 64,
		experts: 32, used: 4, expertWidth: 1024, vocab: 4096, context: 32768,
	},
	// The shape of Qwen3.5-35B-A3B, its drafting block left out.
	"qwen35-35b-a3b": {
		arch: "qwen35moe", layers: 40, width: 2048, heads: 16, kvHeads: 2, headDim: 256,
		experts: 256, used: 8, expertWidth: 512, vocab: 248320, context: 262144,
	},
	// The same with 2.3 billion weights, for benchmarks.
	"qwen35-2b": {
		arch: "qwen35moe", layers: 20, width: 1024, heads: 8, kvHeads: 2, headDim: 256,
		experts: 64, used: 8, expertWidth: 512, vocab: 4096, context: 32768,
	},
	// Small enough for tests.
	"tiny": {
		arch: "qwen3moe", layers: 4, width: 256, heads: 4, kvHeads: 2, headDim: 64,
		experts: 32, used: 4, expertWidth: 256, vocab: 4096, context: 4096,
	},
}

// kind is what a tensor is, which decides its format and its numbers.
type kind int

const (
	weight    kind = iota // a matrix in the wanted format
	embedding             // token_embd: its rows have the size of the stream
	output                // the matrix that gives logits
	value                 // weights that mixes keep in a finer format: attn_v and ffn_down
	norm                  // F32 about 1
	router                // F32, with the routing skew
	numbers               // F32, from the tensor's own function
)

// tensor is one tensor to make. dims are in GGUF's order, the row length first.
type tensor struct {
	name  string
	dims  []uint64
	kind  kind
	layer int                                   // for mixes and the skew; -1 outside layers
	gain  float64                               // of weights: an input of size 1 gives outputs of this size; 0 means 1
	draw  func(r *source, i int, out []float32) // of numbers: row i
}

func dims(n ...int) []uint64 {
	out := make([]uint64, len(n))
	for i, v := range n {
		out[i] = uint64(v)
	}
	return out
}

// std is the standard deviation of a matrix's weights: rows of length n times
// an input of n numbers of size 1 give outputs of size gain.
func (t *tensor) std() float64 {
	gain := t.gain
	if gain == 0 {
		gain = 1
	}
	if t.kind == embedding {
		return gain
	}
	return gain / math.Sqrt(float64(t.dims[0]))
}

// A mix gives the format of every matrix.
type mix func(s *shape, t *tensor) gguf.Type

// mixes are the names that are no single format.
var mixes = map[string]mix{"Q4_K_M": q4KM, "MXFP4_MOE": mxfp4MoE}

// mixOf finds a mix by the name of a format, for all matrices the same, or of a
// mix.
func mixOf(name string) (mix, error) {
	if m, ok := mixes[strings.ToUpper(name)]; ok {
		return m, nil
	}
	names := slices.Collect(maps.Keys(mixes))
	for t := range fillers {
		if strings.EqualFold(t.String(), name) {
			return func(*shape, *tensor) gguf.Type { return t }, nil
		}
		names = append(names, t.String())
	}
	slices.Sort(names)
	return nil, fmt.Errorf("-quant %s: want one of %s", name, strings.Join(names, ", "))
}

// q4KM is llama.cpp's Q4_K_M: Q6_K for the output, and for attn_v and ffn_down
// of the first and last eighth of the layers and of every third between.
func q4KM(s *shape, t *tensor) gguf.Type {
	n, i := s.layers, t.layer
	switch {
	case t.kind == output:
		return gguf.Q6_K
	case t.kind == value && (i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2):
		return gguf.Q6_K
	}
	return gguf.Q4_K
}

// mxfp4MoE is what gpt-oss comes in: MXFP4 for the experts, which are stacks of
// matrices, and Q8_0 for the others.
func mxfp4MoE(_ *shape, t *tensor) gguf.Type {
	if len(t.dims) == 3 {
		return gguf.MXFP4
	}
	return gguf.Q8_0
}

// fileTypes are llama.cpp's numbers for general.file_type; a file without one
// is read all the same.
var fileTypes = map[string]uint32{
	"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K": 12, "Q4_K": 15, "Q4_K_M": 15, "Q5_K": 17, "Q6_K": 18,
	"IQ3_XXS": 23, "IQ4_NL": 25, "IQ3_S": 26, "IQ4_XS": 30, "BF16": 32, "MXFP4": 38, "MXFP4_MOE": 38,
}

// attentionGain is the gain of the matrix that adds attention's result to the
// stream. Attention averages over positions: what all tokens have in common
// passes in full, what sets them apart does not. With a gain of 1 the common part
// would double in every layer, and after twenty the router would choose the same
// experts for every token.
const attentionGain = 0.25
