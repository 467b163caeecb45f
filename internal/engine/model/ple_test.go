package model

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/pool"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// The table of n-grams stays on the disk: it takes no memory. When it can't be read
// any more, that is an error of the pass, which leaves the sequence as it was.
func TestGramTableStaysInItsFile(t *testing.T) {
	whole, err := os.ReadFile(archPath(t, "qwen4exp"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.gguf")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	table, _ := f.Tensor(gramTable)
	with, without := weights.MemoryBytes(f, weights.Options{}), weights.MemoryBytes(f, WeightOptions(f))
	if saved := with - without; saved < int(table.Bytes()) {
		t.Errorf("leaving %d bytes on the disk saves %d", table.Bytes(), saved)
	}
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	w, err := weights.Load(context.Background(), f, WeightOptions(f))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := New(c, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(table.Offset)
	if err := f.Close(); err != nil { // the table has its own
		t.Fatal(err)
	}
	p := pool.New(2)
	defer p.Close()
	pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF16)).NewCache()
	ids := []int32{5, 9, 1000, 3, 77, 5, 9, 1000}
	want := make([]float32, m.Vocabulary)
	run(t, pass, Sequence{Cache: cache, Tokens: ids, Logits: want})
	cache.Release()

	run(t, pass, Sequence{Cache: cache, Tokens: ids[:4]})
	if err := os.Truncate(path, at+7); err != nil {
		t.Fatal(err)
	}
	err = pass.Run(nil, []Sequence{{Cache: cache, Tokens: ids[4:]}})
	if err == nil || !strings.Contains(err.Error(), "tensor "+gramTable+", row ") || !strings.Contains(err.Error(), "ends before") || cache.Len() != 4 {
		t.Errorf("with a file that was cut: %v, and %d positions", err, cache.Len())
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, m.Vocabulary)
	run(t, pass, Sequence{Cache: cache, Tokens: ids[4:], Logits: got})
	sameEnd(t, "logit", got, want, m.Vocabulary)
}

// What a file says that can't be is refused by name, before anything is loaded.
func TestWhatRecurrentModelsRefuse(t *testing.T) {
	for _, c := range []struct {
		model, key string
		value      any
		want       string
	}{
		{"qwen35moe", "ssm.group_count", uint32(3), "qwen35moe.ssm.group_count: 3 does not divide the 4 value heads"},
		{"qwen35moe", "ssm.state_size", uint32(24), "qwen35moe.ssm.state_size: 24 is no multiple of 16"},
		{"qwen35moe", "ssm.inner_size", uint32(64), "qwen35moe.ssm.inner_size: 64 is not the 4 value heads of 32"},
		{"qwen35moe", "ssm.conv_kernel", uint32(400), "qwen35moe.ssm.conv_kernel: 400 is not between 1 and 16"},
		{"qwen35moe", "rope.dimension_sections", []int32{1, 1, 1, 1}, "leave pair 3 of 4 aside"},
		{"qwen35moe", "full_attention_interval", uint32(1), "tensors are missing: blk.0.attn_"},
		{"qwen4exp", "ple.layers", []int32{9}, "qwen4exp.ple.layers: 9, for layer 0, is not between 0 and 4"},
		{"qwen4exp", "ple.head_vocab_sizes", []uint64{1, 2, 3}, "qwen4exp.ple.head_vocab_sizes: it is no list of 4 whole numbers"},
		{"qwen4exp", "ple.head_vocab_sizes", []uint64{0, 2, 3, 1 << 60}, "qwen4exp.ple.head_vocab_sizes: head 0 has 0 rows from 0 on"},
		{"qwen4exp", "ple.layer_multipliers", nil, "qwen4exp.ple.layer_multipliers: the key is missing"},
		{"qwen4exp", "embedding_length_per_layer_input", uint32(16), "qwen4exp.embedding_length_per_layer_input: 4 rows of 16 are not the width 128"},
		{"qwen4exp", "hyper_connection.count", uint32(1000), "qwen4exp.hyper_connection.count: 1000 is not between 1 and 64"},
		{"lfm2moe", "attention.head_count_kv", []int32{0, 3, 0, 3}, "lfm2moe.attention.head_count_kv: 3, for layer 1, does not divide"},
	} {
		t.Run(c.model+"/"+c.key, func(t *testing.T) {
			path := archPath(t, c.model)
			e := edit{keys: map[string]any{c.model + "." + c.key: c.value}}
			keepLists(t, path, e)
			if _, err := ReadConfig(edited(t, path, e)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	// A list that is right is not refused.
	path := archPath(t, "qwen4exp")
	e := edit{keys: map[string]any{}}
	if keepLists(t, path, e); len(e.keys) == 0 {
		t.Fatal("the file has no lists")
	}
	if _, err := ReadConfig(edited(t, path, e)); err != nil {
		t.Error(err)
	}
}
