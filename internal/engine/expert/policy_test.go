package expert

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// trace is what passes want: the experts of layer i%layers, for i from 0.
type trace [][]int32

// drawTrace draws used distinct experts for every layer and token, with weights
// 1/rank^skew and a ranking of its own for each layer, that is drawn anew every
// change tokens.
func drawTrace(seed uint64, layers, experts, used, tokens int, skew float64, change int) trace {
	r := rand.New(rand.NewPCG(seed, 1))
	ranks := make([][]int, layers)
	var out trace
	for t := range tokens {
		for l := range layers {
			if t == 0 || change > 0 && t%change == 0 {
				ranks[l] = r.Perm(experts)
			}
			// The largest keys u^(1/w) are a draw without putting back.
			type draw struct {
				key float64
				id  int32
			}
			draws := make([]draw, experts)
			for i := range draws {
				w := math.Pow(float64(ranks[l][i]+1), -skew)
				draws[i] = draw{math.Log(r.Float64()) / w, int32(i)}
			}
			slices.SortFunc(draws, func(a, b draw) int {
				if a.key > b.key {
					return -1
				}
				return 1
			})
			ids := make([]int32, used)
			for i := range ids {
				ids[i] = draws[i].id
			}
			out = append(out, ids)
		}
	}
	return out
}

// simulate runs the policy over a trace with so many slots, for all layers
// together or as many for each, and returns hits and lookups of its second half.
func (tr trace) simulate(layers, experts, used, slots int, perLayer bool) float64 {
	classes := []*class{{}}
	if perLayer {
		classes = nil
		for range layers {
			classes = append(classes, &class{})
		}
	}
	free := make([]int, len(classes))
	for i := range free {
		free[i] = slots / len(classes)
	}
	entries := make([]entry, layers*experts)
	for i := range entries {
		entries[i] = entry{index: int32(i), place: -1, slot: &slot{class: classes[i/experts%len(classes)]}}
	}
	var p policy
	p.init(entries)
	hits, lookups := 0, 0
	for i, ids := range tr {
		l := i % layers
		p.pass(l)
		p.tokens = 1.0 / halfLife
		c := classes[l%len(classes)]
		var held []*entry
		for _, id := range ids {
			e := &entries[l*experts+int(id)]
			p.use(e, 1)
			if i >= len(tr)/2 {
				lookups++
			}
			if e.state == ready {
				if i >= len(tr)/2 {
					hits++
				}
				heap.Remove(&c.idle, e.place)
				held = append(held, e)
			}
		}
		for _, id := range ids {
			e := &entries[l*experts+int(id)]
			if e.state == ready {
				continue
			}
			if free[l%len(classes)] > 0 {
				free[l%len(classes)]--
			} else {
				heap.Pop(&c.idle).(*entry).state = absent
			}
			e.state = ready
			held = append(held, e)
		}
		for _, e := range held {
			p.given++
			e.given = p.given
			heap.Push(&c.idle, e)
		}
	}
	return float64(hits) / float64(lookups)
}

// best is the hit rate of the best experts to hold all the time, for the second
// half of the trace, known beforehand.
func (tr trace) best(layers, experts, slots int) float64 {
	count, all := make([]int, layers*experts), 0
	for i, ids := range tr[len(tr)/2:] {
		for _, id := range ids {
			count[i%layers*experts+int(id)]++
			all++
		}
	}
	slices.Sort(count)
	hits := 0
	for _, n := range count[len(count)-slots:] {
		hits += n
	}
	return float64(hits) / float64(all)
}

// The policy comes close to the best that a fixed choice could do, which knows the
// trace. It may be better: a fixed choice does not follow chance.
func TestPolicy(t *testing.T) {
	const layers, experts, used, tokens = 12, 64, 8, 2400
	for _, c := range []struct {
		name string
		skew float64
		off  float64 // allowed below the best
	}{{"zipf 1.0", 1, 0.05}, {"uniform", 0, 0.05}} {
		tr := drawTrace(11, layers, experts, used, tokens, c.skew, 0)
		shares := []float64{0.1, 0.25, 0.5, 0.75}
		if testing.Short() {
			shares = shares[:2]
		}
		for _, share := range shares {
			slots := int(share * layers * experts)
			best := tr.best(layers, experts, slots)
			together, apart := tr.simulate(layers, experts, used, slots, false), math.NaN()
			if slots/layers > used {
				apart = tr.simulate(layers, experts, used, slots, true)
			}
			t.Logf("%-8s %3.0f %% in memory: best fixed %.1f %%, all layers together %.1f %%, each for itself %.1f %%", c.name, 100*share, 100*best, 100*together, 100*apart)
			if together < best-c.off {
				t.Errorf("%s, %.0f %% in memory: %.1f %% hits, the best fixed choice has %.1f %%", c.name, 100*share, 100*together, 100*best)
			}
		}
	}
	if testing.Short() {
		return
	}
	// When other experts become the frequent ones, it follows.
	tr := drawTrace(12, layers, experts, used, tokens, 1, tokens/4)
	slots := layers * experts / 4
	if got, best := tr.simulate(layers, experts, used, slots, false), tr.best(layers, experts, slots); got < best-0.05 {
		t.Errorf("changing topics: %.1f %% hits, the best fixed choice has %.1f %%", 100*got, 100*best)
	} else {
		t.Logf("changing topics, 25 %% in memory: best fixed %.1f %%, ours %.1f %%", 100*best, 100*got)
	}
}

// A long prompt wants all experts of all layers again and again. What fits must
// stay, not go before it is needed again. A third of the slots are always taken by
// the layer at work; of the rest, 64 of 160 can be kept.
func TestPolicyLongPrompt(t *testing.T) {
	const layers, experts, slots = 6, 32, 96 // half of them
	var everything []int32
	for i := range int32(experts) {
		everything = append(everything, i)
	}
	var tr trace
	for range 20 * layers {
		tr = append(tr, everything)
	}
	if got := tr.simulate(layers, experts, experts, slots, false); got < 0.38 {
		t.Errorf("%.1f %% hits with half of the experts in memory", 100*got)
	}
}
