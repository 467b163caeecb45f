package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
)

// Attention over some positions has the bits of quant.Look.Attend, however few they
// are, and where whole pages aren't seen.
func TestSeenHasTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, l := range []KVLayout{{64, KVF16, 0}, {96, KVQ8, 0}, {32, KVF32, 0}} {
			r := rand.New(rand.NewPCG(7, uint64(l.Dim)))
			n := 3*PagePositions + 37
			var pages [][]byte
			keys, values := make([][]float32, n), make([][]float32, n)
			for pos := range n {
				if pos%PagePositions == 0 {
					pages = append(pages, aligned(l.Bytes()))
				}
				k, v := randomActs(r, l.Dim, 0), randomActs(r, l.Dim, pos%3)
				l.Put(pages[pos/PagePositions], pos%PagePositions, k, v, make([]uint16, l.Dim))
				keys[pos], values[pos] = kept(l, k), kept(l, v)
			}
			a := NewAttention(l)
			for _, share := range []float64{1, 0.5, 0.03, 0.002} {
				look := quant.Look{Scale: quant.AttentionScale(l.Dim), Seen: make([]bool, n)}
				seen := make([]Seen, len(pages))
				for pos := range n {
					if look.Seen[pos] = pos == n-1 || pos/PagePositions != 1 && r.Float64() < share; look.Seen[pos] {
						seen[pos/PagePositions].Add(pos % PagePositions)
					}
				}
				for rows := 1; rows <= Heads; rows++ {
					q := randomActs(r, rows*l.Dim, 0)
					got, want := make([]float32, len(q)), make([]float32, len(q))
					for i := range rows {
						look.Attend(want[i*l.Dim:][:l.Dim], q[i*l.Dim:][:l.Dim], keys, values)
					}
					Scale(q, look.Scale)
					var state AttentionState
					first := true
					for p, page := range pages {
						first = !a.AddSeen(&state, l, page, &seen[p], rows, q, got, first) && first
					}
					state.Finish(l, rows, got)
					same(t, fmt.Sprintf("%s, %g are seen, %d rows", l.Format, share, rows), len(got), got, want)
				}
			}
		}
	})
}

// All positions before n are those that are added one by one.
func TestSeenTo(t *testing.T) {
	for n := range PagePositions + 1 {
		var one, all Seen
		for p := range n {
			one.Add(p)
		}
		all.AddTo(n)
		if from, to := all.span(); one != all || from != 0 || to != n {
			t.Fatalf("%d positions: %v, from %d to %d", n, all, from, to)
		}
	}
}
