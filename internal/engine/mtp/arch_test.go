package mtp

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/pool"
	"assay/internal/engine/spec"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// archDir has tiny random models of other architectures with llama.cpp's outputs.
// They are test data of this machine, not of the repository.
const archDir = "../../../../shared/models/arch/"

// Heads that lie in the model's own file give llama.cpp's logits, and go on from
// their own state.
func TestHeadsOfOtherArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers")
	}
	for _, name := range []string{"glm4moe", "qwen35moe"} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(model.Architectures(), name) {
				t.Skip("this engine does not run it")
			}
			f, err := gguf.Open(archDir + "models/" + name + ".gguf")
			if err != nil {
				t.Skipf("the models of other architectures are not on this machine: %v", err)
			}
			defer f.Close()
			raw, err := os.ReadFile(archDir + "golden/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var golden struct {
				Sequences []struct {
					Name string
					IDs  []int32
					MTP  struct {
						Top5 [][2][]float64
						Last []float32 `json:"h_last"`
					}
				}
			}
			if err := json.Unmarshal(raw, &golden); err != nil {
				t.Fatal(err)
			}
			w, err := weights.Load(context.Background(), f, model.WeightOptions(f))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.Close() }()
			c, err := model.ReadConfig(f)
			if err != nil {
				t.Fatal(err)
			}
			m, err := model.New(c, w, nil)
			if err != nil {
				t.Fatal(err)
			}
			hm, err := model.NewHead(m, f, w)
			if err != nil {
				t.Fatal(err)
			}
			p := pool.New(2)
			defer p.Close()
			both := pair{m, model.NewPass(m, p), New(hm, p, kernel.KVF32, new(sync.Mutex))}
			worst, positions := 0.0, 0
			for _, s := range golden.Sequences {
				states, n := both.states(t, s.IDs), len(s.IDs)-1
				for i, want := range s.MTP.Last {
					got := states[n*m.Width+i]
					worst = max(worst, math.Abs(float64(got-want)))
				}
				logits := make([]float32, n*m.Vocabulary)
				if err := both.head.pass.Run(nil, []model.Sequence{{
					Cache: kv.NewStore(hm.KVShape(kernel.KVF32)).NewCache(), Tokens: s.IDs[1:], Before: states[:n*m.Width], Logits: logits,
				}}); err != nil {
					t.Fatal(err)
				}
				for pos, top := range s.MTP.Top5 {
					for i, id := range top[0] {
						worst = max(worst, math.Abs(float64(logits[pos*m.Vocabulary+int(id)])-top[1][i]))
					}
					positions++
				}
				d, to := both.head.NewDrafter(len(s.IDs)), make([]spec.Guess, 3)
				d.Begin(s.IDs[:1])
				d.Accept(s.IDs[1:], states[:n*m.Width])
				if k := d.Draft(to, 0); k != 3 || float64(to[0].ID) != s.MTP.Top5[n-1][0][0] {
					t.Errorf("%s: drafted %v, llama.cpp's best is %v", s.Name, to[:k], s.MTP.Top5[n-1][0][0])
				}
			}
			t.Logf("%d positions, greatest difference of a logit or state %.2g", positions, worst)
			if worst > 2e-3 {
				t.Errorf("logits or states differ by %g", worst)
			}
		})
	}
}
