package model

import (
	"fmt"
	"math"
	"slices"
)

// qwen4 reads qwen4exp: DeltaNet layers and layers of sparse attention on a residual
// stream of several (hyper-connections), experts with a gated shared one, and one
// layer that looks up n-grams.
func qwen4(b *builder) family {
	streams, rank := b.number("hyper_connection.count", 1, 64), b.number("hyper_connection.low_rank", 1, 1<<16)
	attention := b.gatedAttention()
	interval := b.numberOr("full_attention_interval", 4, 1, 1<<10)
	ratios := b.numbers("attention.compress_ratios", b.Layers, 0, 256)
	look := b.grams(streams)
	return family{
		streams: streams,
		layer: func(i int) layer {
			p := fmt.Sprintf("blk.%d.", i)
			l := &hyper{
				mix: b.streamMixer(p+"hc_attn", streams, rank, true),
				ffn: b.streamMixer(p+"hc_ffn", streams, rank, true), inner: b.gatedExperts(i),
			}
			switch {
			case (i+1)%interval != 0:
				d := b.deltaNet(p)
				d.sigmoid = true
				l.mixer = d
			default:
				a := attention(p)
				if ratios[i] > 0 {
					a.sparse = b.indexer(p, ratios[i], a.rope)
				}
				l.mixer = a
			}
			if look.layer == i {
				l.grams = b.gramLayer(look, p)
			}
			return l
		},
		ending: func() ending { return &hyperEnding{b.streamMixer("output_hc", streams, rank, false)} },
	}
}

func (b *builder) indexer(p string, ratio int, r *rope) *indexer {
	x := &indexer{
		heads: b.number("attention.indexer.head_count", 1, 1<<10), dim: b.number("attention.indexer.key_length", 2*len(r.freqs), 1<<12),
		topK: b.number("attention.indexer.top_k", 1, 1<<24), ratio: ratio, rope: r,
	}
	x.q, x.k = b.linear(p+"indexer.q_proj", x.heads*x.dim, b.Width), b.linear(p+"indexer.k_proj", x.dim, b.Width)
	x.qNorm, x.kNorm = b.vector(p+"indexer.q_norm.weight", x.dim), b.vector(p+"indexer.k_norm.weight", x.dim)
	return x
}

// gramLook is what the file says about n-grams.
type gramLook struct {
	layer, streams int
	grams          grams // without the layer's own tensors
	kernel         int   // taps of its convolution
}

// grams reads what n-grams are made of, and their table.
func (b *builder) grams(streams int) gramLook {
	g := grams{
		n: b.number("ple.ngram_size", 2, mostTaps), heads: b.number("ple.heads_per_ngram", 1, 1<<10),
		eos: int32(b.number("ple.eos_token_id", 0, math.MaxInt32)),
	}
	look := gramLook{layer: b.numbers("ple.layers", 1, 0, b.Layers-1)[0], streams: streams, kernel: b.number("ple.conv_kernel", 1, mostTaps)}
	heads := (g.n - 1) * g.heads
	cols := b.number("embedding_length_per_layer_input", 1, 1<<16)
	if heads*cols != b.Width {
		b.fail("embedding_length_per_layer_input", "%d rows of %d are not the width %d", heads, cols, b.Width)
	}
	if b.Vocabulary >= 1<<24 {
		b.fail("ple.ngram_size", "the vocabulary of %d is too large for it", b.Vocabulary)
	}
	g.multipliers = b.wholes("ple.layer_multipliers", g.n)
	g.offsets, g.sizes = b.wholes("ple.head_offsets", heads), b.wholes("ple.head_vocab_sizes", heads)
	g.table = b.table(gramTable, cols)
	if t, ok := b.file.Tensor(gramTable); ok {
		for h, size := range g.sizes {
			if rows := t.Rows(); size == 0 || size > rows || g.offsets[h] > rows-size || rows > math.MaxInt32 {
				b.fail("ple.head_vocab_sizes", "head %d has %d rows from %d on, but %s has %d", h, size, g.offsets[h], gramTable, rows)
				break
			}
		}
	}
	look.grams = g
	return look
}

// wholes are n whole numbers, up to 2^64-1.
func (b *builder) wholes(key string, n int) []uint64 {
	v, ok := b.reader.f.Lookup(b.name(key))
	if !ok {
		b.fail(key, "the key is missing")
		return slices.Repeat([]uint64{1}, n)
	}
	list, ok := v.Uints()
	if !ok || len(list) != n {
		b.fail(key, "it is no list of %d whole numbers", n)
		return slices.Repeat([]uint64{1}, n)
	}
	return list
}

// gramLayer reads the tensors of the layer that looks up n-grams.
func (b *builder) gramLayer(look gramLook, p string) *grams {
	g, n := look.grams, look.streams*b.Width
	g.key, g.value = b.linear(p+"ple_key", n, b.Width), b.linear(p+"ple_value", b.Width, b.Width)
	g.keyNorm, g.queryNorm, g.convNorm = b.vector(p+"ple_norm_key.weight", n), b.vector(p+"ple_norm_query.weight", n), b.vector(p+"ple_norm_conv.weight", n)
	g.taps = b.taps(p+"ple_conv1d.weight", n, look.kernel)
	return &g
}
