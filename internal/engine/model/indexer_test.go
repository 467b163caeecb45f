package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/engine/ref"
	"assay/internal/gguf"
)

// Sparse attention sees what the reference lets it see by llama.cpp's rule, for blocks
// of several lengths and few or many positions.
func TestSparseAttentionSeesWhatTheReferenceSees(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, which the race detector slows twentyfold")
	}
	path := archPath(t, "qwen4exp")
	for _, c := range []struct{ ratio, topK int }{{1, 8}, {2, 16}, {4, 8}, {4, 40}, {8, 16}, {5, 20}} {
		t.Run(fmt.Sprintf("%d of blocks of %d", c.topK, c.ratio), func(t *testing.T) {
			e := edit{keys: map[string]any{
				"qwen4exp.attention.indexer.top_k":   uint32(c.topK),
				"qwen4exp.attention.compress_ratios": slices.Repeat([]uint32{uint32(c.ratio)}, 5),
			}}
			keepLists(t, path, e)
			f := edited(t, path, e)
			m := loaded(t, f)
			r, err := ref.Load(f)
			if err != nil {
				t.Fatal(err)
			}
			r.AsLlamaCpp()
			ids := make([]int32, 90)
			for i := range ids {
				ids[i] = int32((i*i*11 + 7*i + c.ratio) % 2040)
			}
			want, worst := r.Logits(ids), 0.0
			_, p := open(t, path, 2)
			for pos, got := range logits(t, m, p, ids, 13) {
				for i, v := range got {
					worst = max(worst, math.Abs(float64(v-want[pos][i])))
				}
			}
			t.Logf("logits within %.2g of the reference's", worst)
			if worst > 1e-3 {
				t.Errorf("logits differ by %g from the reference's", worst)
			}
		})
	}
}

// keepLists adds the lists of a file, which edited leaves out, to what is edited.
func keepLists(t *testing.T, path string, e edit) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, pair := range f.KVs() {
		if _, changed := e.keys[pair.Key]; changed {
			continue
		}
		if list, ok := pair.Value.Uints(); ok {
			e.keys[pair.Key] = slices.Clone(list)
		}
	}
}

// The positions chosen are the best ones, and those of the last block are always among
// them. Scores that are equal are the usual case: what is below 0 counts as 0.
func TestChosenAreTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	var c choosing
	for range 300 {
		ratio, blocks := 1+r.IntN(8), r.IntN(60)
		n := ratio*blocks + r.IntN(ratio)
		if n < 2 {
			continue
		}
		width := 1 + r.IntN(n-1)
		scores, cells := make([]float32, blocks), make([]float32, n)
		for i := range scores {
			scores[i] = float32(max(0, r.IntN(9)-4))
		}
		for i := range cells {
			if cells[i] = tailScore; i < ratio*blocks {
				cells[i] = scores[i/ratio]
			}
		}
		got := slices.Sorted(slices.Values(c.chosen(scores, ratio, n, width)))
		if len(slices.Compact(got)) != width {
			t.Fatalf("%d of %d positions: %v", width, n, got)
		}
		best := slices.Sorted(slices.Values(cells))[n-width:]
		var have []float32
		for _, p := range got {
			have = append(have, cells[p])
		}
		slices.Sort(have)
		if !slices.Equal(have, best) {
			t.Fatalf("%d of %d positions with scores %v, want %v", width, n, have, best)
		}
	}
}
