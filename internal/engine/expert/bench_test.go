package expert

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/gguf"
)

// modelEnv names a model of tools/synth, larger than the memory it is given.
const modelEnv = "ASSAY_EXPERT_MODEL"

// shapeOf reads a model's shape.
func shapeOf(b *testing.B, f *gguf.File) Shape {
	arch, err := f.String("general.architecture")
	if err != nil {
		b.Fatal(err)
	}
	n := func(key string) int {
		v, err := f.Uint(arch + "." + key)
		if err != nil {
			b.Fatal(err)
		}
		return int(v)
	}
	return Shape{n("block_count"), n("expert_count"), n("expert_used_count"), n("embedding_length"), n("expert_feed_forward_length")}
}

// BenchmarkMisses reads what passes miss with the least memory, and, in turn with
// it, pieces of the same sizes by as many plain direct reads at a time: the bound.
//
//	ASSAY_EXPERT_MODEL=FILE go test -run - -bench Misses ./internal/engine/expert
func BenchmarkMisses(b *testing.B) {
	file := os.Getenv(modelEnv)
	if file == "" {
		b.Skip(modelEnv + " names no model")
	}
	f, err := gguf.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	shape := shapeOf(b, f)
	for _, plain := range []bool{false, true} {
		b.Run(strings.Fields("packed plain")[map[bool]int{false: 0, true: 1}[plain]], func(b *testing.B) {
			misses(b, f, shape, Options{Plain: plain})
		})
	}
}

func misses(b *testing.B, f *gguf.File, shape Shape, o Options) {
	least, all, err := Sizes(f, shape, o)
	if err != nil {
		b.Fatal(err)
	}
	o.Bytes = least + (all-least)/50
	s, err := Open(f, shape, o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	files, err := OpenFiles(f)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	const turn = 400 * time.Millisecond
	var ours, bound, waited time.Duration
	var ourBytes, boundBytes int64
	r := rand.New(rand.NewPCG(1, 2))
	layer := 0
	for b.Loop() {
		began, before := time.Now(), s.Stats()
		for time.Since(began) < turn {
			take(b, s, layer, ids(r, shape.Experts, shape.Used))
			layer = (layer + 1) % shape.Layers
		}
		after := s.Stats()
		ours += time.Since(began)
		ourBytes += after.BytesRead - before.BytesRead
		waited += after.Wait - before.Wait

		began = time.Now()
		boundBytes += direct(b, s, files, r.Uint64(), turn)
		bound += time.Since(began)
	}
	st := s.Stats()
	mine, most := float64(ourBytes)/ours.Seconds()/1e6, float64(boundBytes)/bound.Seconds()/1e6
	b.ReportMetric(mine, "MB/s")
	b.ReportMetric(most, "bound-MB/s")
	b.ReportMetric(100*mine/most, "%bound")
	b.ReportMetric(100*float64(st.Hits)/float64(st.Lookups), "%hits")
	b.ReportMetric(st.Pack.Seconds()/float64(st.Reads)*1e6, "pack-µs/matrix")
}

// take takes a batch and computes nothing.
func take(b *testing.B, s *Store, layer int, ids []int32) {
	batch, err := s.Begin(layer, ids, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer batch.End()
	for {
		group, err := batch.Next()
		if err != nil {
			b.Fatal(err)
		}
		if len(group) == 0 {
			return
		}
	}
}

// direct reads random experts' matrices with all readers for some time.
func direct(b *testing.B, s *Store, files Reader, seed uint64, d time.Duration) int64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i := range len(s.staging.mem) / s.stage {
		if i == DefaultReaders {
			break
		}
		wg.Go(func() {
			m, err := newMapping(padded(s.stage, hugePage))
			if err != nil {
				b.Error(err)
				return
			}
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for time.Now().Before(end) {
				e := &s.entries[r.IntN(len(s.entries))]
				g, id := s.origin(e, r.IntN(3))
				if _, err := piece(files, g.shard, g.offset+int64(id)*int64(g.bytes), g.bytes, m.mem); err != nil {
					b.Error(err)
					break
				}
				n.Add(int64(g.bytes))
			}
			if err := m.close(); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return n.Load()
}
