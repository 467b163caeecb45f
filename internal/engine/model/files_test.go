package model

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// edit is what a test changes of a file. A value of nil deletes a key.
type edit struct {
	keys    map[string]any
	tensors func(b *gguf.Builder, t *gguf.Tensor) // writes what is to be in place of t
}

// edited is the file at path, changed.
func edited(t *testing.T, path string, e edit) *gguf.File {
	t.Helper()
	f, err := gguf.Parse("changed.gguf", editedBytes(t, path, e))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func editedBytes(t *testing.T, path string, e edit) []byte {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := gguf.NewBuilder()
	for _, pair := range f.KVs() {
		if _, changed := e.keys[pair.Key]; changed || strings.HasPrefix(pair.Key, "tokenizer.") {
			continue
		}
		if s, ok := pair.Value.Text(); ok {
			b.Set(pair.Key, s)
		} else if n, ok := pair.Value.Uint(); ok {
			b.Set(pair.Key, uint32(n))
		} else if x, ok := pair.Value.Float(); ok {
			b.Set(pair.Key, float32(x))
		} else if x, ok := pair.Value.Bool(); ok {
			b.Set(pair.Key, x)
		}
	}
	for key, v := range e.keys {
		if v != nil {
			b.Set(key, v)
		}
	}
	for _, tensor := range f.Tensors() {
		if e.tensors == nil {
			copied(b, tensor)
		} else {
			e.tensors(b, tensor)
		}
	}
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func copied(b *gguf.Builder, t *gguf.Tensor) { b.Tensor(t.Name, t.Type, t.Dims, t.Data()) }

// loaded is a model in memory.
func loaded(t *testing.T, f *gguf.File) *Model {
	t.Helper()
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	w, err := weights.Load(context.Background(), f, WeightOptions(f))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(c, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// What keeps a model from running is told before anything is loaded, all of it at
// once, and so is what the engine would leave out silently.
func TestAllThatIsMissingIsListed(t *testing.T) {
	path := seedling + "formats/seedling-15m-q8_0.gguf"
	for name, c := range map[string]struct {
		edit
		want []string
	}{
		"architecture": {
			edit{keys: map[string]any{"general.architecture": "mamba"}},
			[]string{`changed.gguf: general.architecture is "mamba"`, "it runs", "llama, ", "qwen3moe"},
		},
		"hyper-parameters": {
			edit{keys: map[string]any{
				"qwen3moe.expert_used_count": uint32(99), "qwen3moe.rope.scaling.type": "longrope", "qwen3moe.embedding_length": nil,
				"qwen3moe.attn_logit_softcapping": float32(50), "qwen3moe.attention.causal": false, "qwen3moe.residual_scale": float32(1),
			}},
			[]string{
				"changed.gguf: this engine can't run it:\n", `key "qwen3moe.embedding_length"`, "not in the file", "qwen3moe.expert_used_count: 99 is not between 1 and 16",
				`qwen3moe.rope.scaling.type: "longrope"`, "qwen3moe.attn_logit_softcapping: ", "qwen3moe.attention.causal: ", "!residual_scale", "!dimensions",
			},
		},
		"tensors": {
			edit{tensors: func(b *gguf.Builder, t *gguf.Tensor) {
				switch {
				case strings.HasSuffix(t.Name, "attn_q.weight"): // missing
				case t.Name == "blk.1.attn_norm.weight":
					b.Tensor(t.Name, t.Type, []uint64{4, t.Dims[0] / 4}, t.Data())
				default:
					copied(b, t)
				}
			}},
			[]string{"4 tensors are missing: blk.0.attn_q.weight, blk.1.attn_q.weight", "tensor blk.1.attn_norm.weight has dimensions [4 64], but the metadata ask for [256]"},
		},
		"one tensor": {
			edit{tensors: func(b *gguf.Builder, t *gguf.Tensor) {
				if t.Name != "output_norm.weight" {
					copied(b, t)
				}
			}},
			[]string{"changed.gguf: tensor output_norm.weight is missing"},
		},
		"tensors that nobody asks for": {
			edit{tensors: func(b *gguf.Builder, t *gguf.Tensor) {
				copied(b, t)
				if t.Name == "blk.2.attn_q_norm.weight" {
					b.Tensor("blk.2.attn_gate.weight", t.Type, t.Dims, t.Data())
				}
			}},
			[]string{"changed.gguf: 1 tensors have no place in qwen3moe as this engine knows it: blk.2.attn_gate.weight"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadConfig(edited(t, path, c.edit))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				unwanted, not := strings.CutPrefix(want, "!")
				if not && strings.Contains(err.Error(), unwanted) || !not && !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q in it", err, want)
				}
			}
		})
	}
}

// A biased attention whose q, k and v are one tensor, and experts whose gate and up
// are one, are cut apart: the bits are those of the file with all of them apart.
func TestFusedTensors(t *testing.T) {
	for _, name := range []string{"qwen2", "llama-moe"} {
		t.Run(name, func(t *testing.T) {
			path := archPath(t, name)
			parts := map[string][]byte{}
			fused := edited(t, path, edit{tensors: func(b *gguf.Builder, x *gguf.Tensor) {
				for _, f := range []struct{ parts, whole string }{
					{"attn_q.weight attn_k.weight attn_v.weight", "attn_qkv.weight"},
					{"attn_q.bias attn_k.bias attn_v.bias", "attn_qkv.bias"},
					{"ffn_gate_exps.weight ffn_up_exps.weight", "ffn_gate_up_exps.weight"},
				} {
					layer, rest, _ := strings.Cut(strings.TrimPrefix(x.Name, "blk."), ".")
					names := strings.Fields(f.parts)
					i := slices.Index(names, rest)
					if i < 0 {
						continue
					}
					whole := "blk." + layer + "." + f.whole
					dims := slices.Clone(x.Dims)
					if len(dims) == 3 { // expert by expert: gate's rows, then up's
						if i == 0 {
							parts[whole] = slices.Clone(x.Data())
							return
						}
						var data []byte
						n := int(dims[2])
						size := len(x.Data()) / n
						for e := range n {
							data = append(append(data, parts[whole][e*size:][:size]...), x.Data()[e*size:][:size]...)
						}
						dims[1] *= 2
						b.Tensor(whole, x.Type, dims, data)
						return
					}
					parts[whole] = append(parts[whole], x.Data()...)
					if i == len(names)-1 {
						last := len(dims) - 1
						dims[last] = uint64(len(parts[whole])) / (4 * max(1, x.Elements()/dims[last]))
						b.Tensor(whole, x.Type, dims, parts[whole])
					}
					return
				}
				copied(b, x)
			}})
			if _, ok := fused.Tensor("blk.0.attn_qkv.weight"); !ok {
				t.Fatal("nothing was fused")
			}
			m, p := open(t, path, 2)
			ids := []int32{5, 700, 31, 9, 1000, 4, 77}
			want := logits(t, m, p, ids, 7)
			for pos, got := range logits(t, loaded(t, fused), p, ids, 7) {
				sameEnd(t, "logit", got, want[pos], m.Vocabulary)
			}
		})
	}
}

// disk is a file's reader for a store of experts that fails when it is told to.
type disk struct {
	data []byte
	bad  atomic.Bool
}

var errDisk = errors.New("the disk is on fire")

func (d *disk) ReadAt(_ int, b []byte, off int64) (int, error) {
	if d.bad.Load() {
		return 0, errDisk
	}
	return copy(b, d.data[min(off, int64(len(d.data))):]), nil
}

func (d *disk) Close() error { return nil }

// Experts that come from a store in groups, most of them read when they are asked
// for, give the bits of those that are all in memory. A read that fails is the
// pass's error, and the sequence goes on from where it was.
func TestExpertsOfAStore(t *testing.T) {
	t.Run("seedling", func(t *testing.T) { expertsOfAStore(t, formats[1].path) })
	for _, name := range []string{"gpt-oss", "glm4moe"} { // experts with biases; dense layers before them
		if !testing.Short() {
			t.Run(name, func(t *testing.T) { expertsOfAStore(t, archPath(t, name)) })
		}
	}
}

func expertsOfAStore(t *testing.T, path string) {
	m, p := open(t, path, 2)
	cache := kv.NewStore(m.KVShape(kernel.KVF16))
	want := alone(t, m, NewPass(m, p), cache, 70)[0]

	f := edited(t, path, edit{})
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{data: fileBytes(f)}
	least, all, err := expert.Sizes(f, c.ExpertShape(), expert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := expert.Open(f, c.ExpertShape(), expert.Options{Bytes: least + (all-least)/5, Reader: d})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w, err := weights.Load(context.Background(), f, WeightOptions(f))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, err := New(c, w, store)
	if err != nil {
		t.Fatal(err)
	}
	pass, seq := NewPass(s, p), cache.NewCache()
	got := make([]float32, len(want.logits))
	run(t, pass, Sequence{Cache: seq, Tokens: want.ids[:20], Logits: got[:20*s.Vocabulary]})

	d.bad.Store(true)
	rest := Sequence{Cache: seq, Tokens: want.ids[20:], Logits: got[20*s.Vocabulary:]}
	if err := pass.Run(nil, []Sequence{rest}); !errors.Is(err, errDisk) || seq.Len() != 20 {
		t.Errorf("with a broken disk: %v, and %d positions; want the disk's error and 20", err, seq.Len())
	}
	d.bad.Store(false) // reads that the pass had asked for may still be failing: the next one asks again
	run(t, pass, rest)
	sameEnd(t, "logit", got, want.logits, s.Vocabulary)
	if n := store.Stats(); n.Hits == 0 || n.Hits == n.Lookups {
		t.Errorf("%d hits of %d lookups: the store was no test", n.Hits, n.Lookups)
	}
}

// fileBytes is a file that has f's tensors where f has them.
func fileBytes(f *gguf.File) []byte {
	data := make([]byte, f.Size())
	for _, x := range f.Tensors() {
		copy(data[x.Offset:], x.Data())
	}
	return data
}

// Seedling's head, in a file of its own, drafts along the texts what PyTorch's does,
// within what quantised weights leave of it.
func TestHeadOfItsOwnFile(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, which the race detector slows twentyfold")
	}
	for _, format := range []string{"f16", "q8_0"} {
		t.Run(format, func(t *testing.T) {
			var texts struct {
				Cases []struct {
					Name    string
					IDs     []int32
					Drafts  []int32   `json:"draft_argmax"`
					Margins []float64 `json:"draft_margins"`
				}
			}
			golden(t, "mtp-"+format+".float32.json", &texts)
			m, p := open(t, seedling+"formats/seedling-15m-"+format+".gguf", 2)
			all, same := 0, 0
			for _, text := range texts.Cases {
				got := drafts(t, m, p, seedling+"formats/seedling-15m-mtp-"+format+".gguf", text.IDs)
				for pos, logits := range got {
					all++
					if argmax(logits) == text.Drafts[pos] {
						same++
					} else if text.Margins[pos] > 0.5 {
						t.Errorf("%s, position %d: drafted %d, want %d, which is ahead by %g", text.Name, pos, argmax(logits), text.Drafts[pos], text.Margins[pos])
					}
				}
			}
			t.Logf("%d of %d drafts are the same", same, all)
			if float64(same) < 0.98*float64(all) {
				t.Errorf("only %d of %d drafts are the same", same, all)
			}
		})
	}
}

// A head that is another model's, or a file without one, is refused by name.
func TestHeadThatDoesNotFit(t *testing.T) {
	m, _ := open(t, formats[1].path, 1)
	for name, c := range map[string]struct {
		path string
		edit
		want string
	}{
		"no head":      {formats[1].path, edit{}, "changed.gguf: qwen3moe.nextn_predict_layers is 0 or missing"},
		"other layers": {seedling + "formats/seedling-15m-mtp-q8_0.gguf", edit{keys: map[string]any{"qwen3moe.block_count": uint32(9)}}, "its head follows 8 layers"},
		"tensors": {seedling + "formats/seedling-15m-mtp-q8_0.gguf", edit{tensors: func(b *gguf.Builder, x *gguf.Tensor) {
			if !strings.Contains(x.Name, "hnorm") {
				copied(b, x)
			}
		}}, "changed.gguf: tensor blk.4.nextn.hnorm.weight is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			f := edited(t, c.path, c.edit)
			if _, err := NewHead(m, f, weights.View(f)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
