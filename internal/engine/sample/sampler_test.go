package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plain are parameters that change nothing but the temperature.
func plain(temperature float32) Params {
	return Params{Temperature: temperature, TopP: 1, RepeatPenalty: 1}
}

func TestGreedyTakesTheBest(t *testing.T) {
	s := New(plain(0), 4, 100)
	if got := s.Draw([]float32{1, 3, 3, 2}, 0, nil); got != 1 {
		t.Errorf("drew %d, want 1 (the lower of two equals)", got)
	}
	if got := s.Draw([]float32{1, 3, 3, 2}, 0, []int32{1, 2}); got != 3 {
		t.Errorf("drew %d with the best two banned, want 3", got)
	}
}

// Tokens come as often as their probabilities say.
func TestDrawFollowsTheDistribution(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(3)), float32(math.Log(4))}
	p := plain(1)
	p.Seed = 7
	s := New(p, 4, 100)
	const n = 100_000
	var count [4]int
	for i := range n {
		count[s.Draw(logits, i, nil)]++
	}
	for id, c := range count {
		want := float64(id+1) / 10
		if got := float64(c) / n; math.Abs(got-want) > 0.005 {
			t.Errorf("token %d came in %.3f of draws, want %.3f", id, got, want)
		}
	}
}

// The stages, worked out by hand on probabilities 0.5, 0.25, 0.15, 0.1.
func TestStages(t *testing.T) {
	logits := []float32{float32(math.Log(0.15)), float32(math.Log(0.5)), float32(math.Log(0.1)), float32(math.Log(0.25))}
	for _, c := range []struct {
		name string
		set  func(*Params)
		want []int32 // tokens that can come
	}{
		{"all", func(*Params) {}, []int32{0, 1, 2, 3}},
		{"top-k 2", func(p *Params) { p.TopK = 2 }, []int32{1, 3}},
		{"top-p 0.7", func(p *Params) { p.TopP = 0.7 }, []int32{1, 3}},
		{"top-p 0", func(p *Params) { p.TopP = 0 }, []int32{1}},
		{"min-p 0.25", func(p *Params) { p.MinP = 0.25 }, []int32{0, 1, 3}}, // at least 0.125
		{"top-k 3, then top-p 0.8 of what is left", func(p *Params) { p.TopK, p.TopP = 3, 0.8 }, []int32{1, 3}},
		{"bias", func(p *Params) { p.LogitBias = map[int32]float32{2: 100} }, []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plain(1)
			c.set(&p)
			s := New(p, 4, 100)
			var got []int32
			for i := range 2000 {
				if id := s.Draw(logits, i, nil); !slices.Contains(got, id) {
					got = append(got, id)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("drew %v, want %v", got, c.want)
			}
		})
	}
}

func TestPenaltiesLookBackSoFar(t *testing.T) {
	p := plain(0)
	p.RepeatLastN, p.PresencePenalty = 2, 2
	s := New(p, 3, 100)
	logits := []float32{3, 2.5, 2}
	var got []int32
	for i := range 4 {
		id := s.Draw(logits, i, nil)
		s.Accept(id)
		got = append(got, id)
	}
	// 0; then 0 is at 1, so 1; then both are down, so 2; then 0 has left the window.
	if want := []int32{0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("drew %v, want %v", got, want)
	}
}

// What is drawn at a position depends on the seed and that position alone.
func TestDrawsAreIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults()
		p.Seed = rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(p.Seed, 1))
		rows := make([][]float32, 8)
		for i := range rows {
			rows[i] = make([]float32, 50)
			for j := range rows[i] {
				rows[i][j] = float32(r.NormFloat64())
			}
		}
		a, b := New(p, 50, 10), New(p, 50, 10)
		first := make([]int32, 8)
		for i := range rows {
			first[i] = a.Draw(rows[i], i, nil)
		}
		for i := 7; i >= 0; i-- {
			if got := b.Draw(rows[i], i, nil); got != first[i] {
				t.Fatalf("position %d: %d, then %d", i, first[i], got)
			}
		}
	})
}

// topK is the front of a full sort, for every k.
func TestTopKIsASort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int32Range(0, 20), 1, 400).Draw(t, "logits") // with many ties
		k := rapid.IntRange(0, len(values)).Draw(t, "k")
		var list []candidate
		for i, v := range values {
			list = append(list, candidate{id: int32(i), logit: float32(v)})
		}
		want := slices.Clone(list)
		slices.SortFunc(want, better)
		if got := topK(list, k); !slices.Equal(got, want[:k]) {
			t.Fatalf("k = %d: %v, want %v", k, got, want[:k])
		}
	})
}

func TestLogprobs(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(5))}
	of, top := Logprobs(logits, 1, 2)
	near := func(got float32, want float64) bool { return math.Abs(float64(got)-math.Log(want)) < 1e-6 }
	if !near(of, 0.25) || len(top) != 2 || top[0].ID != 2 || top[1].ID != 1 || !near(top[0].Logprob, 0.625) {
		t.Errorf("got %g and %v, want ln(0.25), and tokens 2 and 1", of, top)
	}
	if _, none := Logprobs(logits, 0, 0); len(none) != 0 {
		t.Errorf("asked for none, got %v", none)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	nan := float32(math.NaN())
	for want, set := range map[string]func(*Params){
		"temperature: -1 ":       func(p *Params) { p.Temperature = -1 },
		"temperature: NaN ":      func(p *Params) { p.Temperature = nan },
		"top_k: -2 ":             func(p *Params) { p.TopK = -2 },
		"top_p: 1.5 ":            func(p *Params) { p.TopP = 1.5 },
		"min_p: NaN ":            func(p *Params) { p.MinP = nan },
		"repeat_penalty: 0 ":     func(p *Params) { p.RepeatPenalty = 0 },
		"repeat_last_n: -5 ":     func(p *Params) { p.RepeatLastN = -5 },
		"presence_penalty: 3 ":   func(p *Params) { p.PresencePenalty = 3 },
		"frequency_penalty: -3 ": func(p *Params) { p.FrequencyPenalty = -3 },
		"logit_bias[5]: NaN ":    func(p *Params) { p.LogitBias = map[int32]float32{5: nan} },
	} {
		p := Defaults()
		if err := p.Validate(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		set(&p)
		if err := p.Validate(); err == nil || err.Error()[:len(want)] != want {
			t.Errorf("error %v, want %q...", err, want)
		}
	}
}
