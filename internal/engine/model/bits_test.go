package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// draw is one way to compute a text: everything that must not change a bit.
type draw struct {
	level   kernel.Level
	threads int
	batches []int
	room    int // for pages that are computed apart, in floats; 0: as much as there is
}

func randomDraw(r *rand.Rand, n int) draw {
	levels := kernel.Levels()
	d := draw{level: levels[r.IntN(len(levels))], threads: 1 + r.IntN(3)}
	most := []int{1, 7, 40, n}[r.IntN(4)]
	for n > 0 {
		k := min(1+r.IntN(most), n)
		d.batches = append(d.batches, k)
		n -= k
	}
	return d
}

// logits are those of every position.
func (d draw) logits(t *testing.T, path string, f kernel.KVFormat, ids []int32) []float32 {
	t.Helper()
	defer kernel.Use(kernel.Use(d.level))
	m, p := open(t, path, d.threads)
	pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(f)).NewCache()
	if d.room > 0 {
		pass.attends.apart.outs = pass.attends.apart.outs[:d.room]
	}
	var out []float32
	for _, n := range d.batches {
		all := make([]float32, n*m.Vocabulary)
		run(t, pass, Sequence{Cache: cache, Tokens: ids[:n], Logits: all})
		out, ids = append(out, all...), ids[n:]
	}
	return out
}

// The logits have the same bits at every level of SIMD, with 1 to 3 threads and
// however the text is cut into batches: whole, token by token, at random. With
// ASSAY_WIDE=1 it tries 200 ways.
func TestBitsDependOnTokensOnly(t *testing.T) {
	ids, tested, draws := make([]int32, 270), formats, 3 // over a page of the cache
	switch {
	case testing.Short(): // for the race detector
		ids, tested = ids[:24], formats[3:]
	case os.Getenv("ASSAY_WIDE") != "":
		draws = 200/(len(formats)*3) + 1
	}
	for i := range ids {
		ids[i] = int32((i*i*7 + 13*i + 3) % 4090)
	}
	r := rand.New(rand.NewPCG(3, 14))
	for i, format := range tested {
		for cache := range 3 {
			f := kernel.KVFormat(cache)
			if i%3 != cache && os.Getenv("ASSAY_WIDE") == "" {
				continue // each cache format with some format of weights
			}
			t.Run(fmt.Sprintf("%s/%s", format.name, f), func(t *testing.T) {
				checkBits(t, r, format.path, f, ids, draws)
			})
		}
	}
}

// So have those of other architectures, with their windows, sinks and short vectors,
// in every format of the cache.
func TestBitsOfOtherArchitectures(t *testing.T) {
	ids, draws := make([]int32, 290), 2 // over a page of the cache
	switch {
	case testing.Short():
		ids, draws = ids[:24], 1
	case os.Getenv("ASSAY_WIDE") != "":
		draws = 30
	}
	for i := range ids {
		ids[i] = int32((i*i*7 + 13*i + 3) % 2045)
	}
	r := rand.New(rand.NewPCG(2, 72))
	for i, name := range []string{"gemma3", "gpt-oss", "glm4moe", "deepseek2", "qwen35moe", "qwen4exp"} {
		for cache := range 3 {
			if testing.Short() && cache != i%2*2 {
				continue // F16 or F32
			}
			t.Run(fmt.Sprintf("%s/%s", name, kernel.KVFormat(cache)), func(t *testing.T) {
				path := archPath(t, name)
				m, _ := open(t, path, 1)
				if f := cacheFormat(m, cache); f == kernel.KVFormat(cache) {
					checkBits(t, r, path, f, ids, draws)
				}
			})
		}
	}
}

// So have those of the last of four pages, which a few tokens compute apart from each
// other and then join, however many there is room for at once; with windows and sinks.
func TestBitsOfPagesApart(t *testing.T) {
	if testing.Short() {
		t.Skip("long texts")
	}
	ids := make([]int32, 900)
	for i := range ids {
		ids[i] = int32((i*i*7 + 13*i + 3) % 2045)
	}
	best, _ := kernel.Active()
	for _, name := range []string{"seedling", "gemma3", "gpt-oss"} {
		t.Run(name, func(t *testing.T) {
			path := formats[0].path
			if name != "seedling" {
				path = archPath(t, name)
			}
			m, _ := open(t, path, 1)
			f := cacheFormat(m, 0)
			want := draw{level: best, threads: 1, batches: []int{512, 388}}.logits(t, path, f, ids)
			one := 0 // the room for a page of one token
			for _, l := range m.KVShape(f).Layers {
				one = max(one, l.Heads*kernel.Heads*l.Layout.ValueDim())
			}
			for i, room := range []int{2 * one, 3 * one, 12 * one, 0} {
				d := draw{best, 2 + i%2, []int{512, 260, 1, 1, 7, 8, 3, 1, 2, 100, 1, 4}, room}
				for i, got := range d.logits(t, path, f, ids) {
					if math.Float32bits(got) != math.Float32bits(want[i]) {
						t.Fatalf("%+v: logit %d is %g, want %g", d, i, got, want[i])
					}
				}
			}
		})
	}
}

// checkBits computes a text in several ways.
func checkBits(t *testing.T, r *rand.Rand, path string, f kernel.KVFormat, ids []int32, draws int) {
	t.Helper()
	best, _ := kernel.Active()
	want := draw{level: best, threads: 1, batches: []int{len(ids)}}.logits(t, path, f, ids)
	for range draws {
		d := randomDraw(r, len(ids))
		for i, got := range d.logits(t, path, f, ids) {
			if math.Float32bits(got) != math.Float32bits(want[i]) {
				n := len(want) / len(ids)
				t.Fatalf("%+v: logit %d of position %d is %g, want %g", d, i%n, i/n, got, want[i])
			}
		}
	}
}
