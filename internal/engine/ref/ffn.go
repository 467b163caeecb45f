package ref

import (
	"math"
	"slices"
	"sort"
)

// swiGLU is down(act(gate x) * (up x)).
type swiGLU struct {
	gate, up, down matrix // [F, D], [F, D], [D, F]
	act            func(float64) float64
}

func (s *swiGLU) forward(_ *Model, _, _ int, h []float64) []float64 { return s.of(h) }

func (s *swiGLU) of(h []float64) []float64 {
	gate := s.gate.mul(h)
	for j, u := range s.up.mul(h) {
		gate[j] = s.act(gate[j]) * u
	}
	return s.down.mul(gate)
}

func (l *loader) swiGLU(p, suffix string, act func(float64) float64) *swiGLU {
	return &swiGLU{l.matrix(p + "ffn_gate" + suffix), l.matrix(p + "ffn_up" + suffix), l.matrix(p + "ffn_down" + suffix), act}
}

// experts is a mixture of experts.
type experts struct {
	used           int
	router         *linear                        // [E, D]
	sigmoid        bool                           // each expert's share by itself; else softmax over all
	chosenOnly     bool                           // softmax over the chosen logits (gpt-oss)
	choiceBias     []float32                      // [E], for the choice only; nil: none
	normed         bool                           // the chosen shares add up to 1
	scale          float64                        // of the chosen shares
	groups         int                            // experts are chosen from the best groups; 0: no groups
	groupsUsed     int                            //
	gate, up, down []matrix                       // E x [F, D], [F, D], [D, F]
	gateB, upB     []float32                      // [E, F]; nil: none
	downB          []float32                      // [E, D]
	act            func(gate, up float64) float64 // of an inner element
	shared         *swiGLU                        // an expert that is always used; nil: none
	sharedGate     []float32                      // [D]: its share is sigmoid(gate . h); nil: 1
}

func (l *loader) experts(p string) *experts {
	return &experts{
		used: l.int("expert_used_count"), router: &linear{l.matrix(p + "ffn_gate_inp.weight"), l.vectorIf(p + "ffn_gate_inp.bias")},
		choiceBias: l.vectorIf(p + "exp_probs_b.bias"), normed: true, scale: 1,
		gate: l.stack(p + "ffn_gate_exps.weight"), up: l.stack(p + "ffn_up_exps.weight"), down: l.stack(p + "ffn_down_exps.weight"),
		gateB: l.vectorIf(p + "ffn_gate_exps.bias"), upB: l.vectorIf(p + "ffn_up_exps.bias"), downB: l.vectorIf(p + "ffn_down_exps.bias"),
		act: func(gate, up float64) float64 { return silu(gate) * up },
	}
}

// gptOss is the inner element of gpt-oss' experts.
func gptOss(gate, up float64) float64 {
	gate, up = min(gate, 7), min(7, max(-7, up))
	return gate * sigmoid(1.702*gate) * (up + 1)
}

func (e *experts) forward(m *Model, layer, position int, h []float64) []float64 {
	logits := e.router.mul(h)
	share := slices.Clone(logits)
	switch {
	case e.chosenOnly:
	case e.sigmoid:
		for i := range share {
			share[i] = sigmoid(share[i])
		}
	default:
		softmax(share)
	}
	choice := slices.Clone(share)
	for i, b := range e.choiceBias {
		choice[i] += float64(b)
	}
	e.keepGroups(choice)
	order := make([]int, len(choice))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return choice[order[i]] > choice[order[j]] })
	chosen := order[:e.used]
	if m.Trace != nil {
		margin := math.Inf(1)
		if e.used < len(order) {
			margin = logits[order[e.used-1]] - logits[order[e.used]]
		}
		m.Trace(layer, position, chosen, margin)
	}
	shares := make([]float64, e.used)
	for i, x := range chosen {
		shares[i] = share[x]
	}
	if e.chosenOnly {
		softmax(shares)
	} else if e.normed {
		total := 0.0
		for _, s := range shares {
			total += s
		}
		for i := range shares {
			shares[i] /= max(total, 6.103515625e-5)
		}
	}
	out := make([]float64, len(h))
	for i, x := range chosen {
		addScaled(out, shares[i]*e.scale, e.one(x, h))
	}
	if e.shared != nil {
		share := 1.0
		if e.sharedGate != nil {
			share = sigmoid(dotW(e.sharedGate, h))
		}
		addScaled(out, share, e.shared.of(h))
	}
	return out
}

// one is what expert x makes of h.
func (e *experts) one(x int, h []float64) []float64 {
	gate, up := e.gate[x].mul(h), e.up[x].mul(h)
	f := len(gate)
	for j := range gate {
		g, u := gate[j], up[j]
		if e.gateB != nil {
			g, u = g+float64(e.gateB[x*f+j]), u+float64(e.upB[x*f+j])
		}
		gate[j] = e.act(g, u)
	}
	y := e.down[x].mul(gate)
	if e.downB != nil {
		for j := range y {
			y[j] += float64(e.downB[x*len(y)+j])
		}
	}
	return y
}

// keepGroups bars the experts outside of the best groups. A group's worth is the
// sum of its two best.
func (e *experts) keepGroups(choice []float64) {
	if e.groups <= 1 {
		return
	}
	size := len(choice) / e.groups
	worth, order := make([]float64, e.groups), make([]int, e.groups)
	for g := range worth {
		best := slices.Clone(choice[g*size:][:size])
		slices.Sort(best)
		for _, v := range best[max(0, size-2):] {
			worth[g] += v
		}
		order[g] = g
	}
	sort.SliceStable(order, func(i, j int) bool { return worth[order[i]] > worth[order[j]] })
	for _, g := range order[e.groupsUsed:] {
		for i := range size {
			choice[g*size+i] = math.Inf(-1)
		}
	}
}
