package model

import (
	"fmt"

	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
)

// experts is a mixture of experts: a feed-forward.
type experts struct {
	routing
	n, inner   int
	source     func() expertSource // a new one for each pass
	gateBias   []float32           // [n, inner]; nil: none
	upBias     []float32           // [n, inner]
	downBias   []float32           // [n, width]
	act        activation          // nil: silu(gate)*up
	shared     *dense              // an expert that is always used; nil: none
	sharedGate []float32           // [width]: its share is sigmoid(gate . x); nil: 1
}

// experts reads what is common to mixtures of experts: counts, router, matrices,
// biases. The experts' inner width is under the key named. The shares are a softmax
// over all, normalised.
func (b *builder) experts(layer int, widthKey string) *experts {
	p := fmt.Sprintf("blk.%d.", layer)
	b.Experts = b.number("expert_count", 1, 1<<14)
	b.Used = b.number("expert_used_count", 1, b.Experts)
	b.ExpertWidth = b.number(widthKey, 1, 1<<17)
	e := &experts{
		routing: routing{
			router: linear{b.matrix(p+"ffn_gate_inp.weight", b.Experts, b.Width), b.vectorIf(p+"ffn_gate_inp.bias", b.Experts)},
			used:   b.Used, gating: gateSoftmax, normalised: true,
			choiceBias: b.vectorIf(p+"exp_probs_b.bias", b.Experts),
		},
		n: b.Experts, inner: b.ExpertWidth,
		source: b.expertSource(layer),
	}
	e.gateBias = b.expertBias(p+"ffn_gate_exps.bias", b.Experts, b.ExpertWidth)
	e.upBias = b.expertBias(p+"ffn_up_exps.bias", b.Experts, b.ExpertWidth)
	e.downBias = b.expertBias(p+"ffn_down_exps.bias", b.Experts, b.Width)
	if v := b.realOr("expert_weights_scale", 0, 0, 1e6); v != 1 {
		e.scale = float32(v)
	}
	return e
}

// expertSource finds the matrices of a layer's experts, in w or in the store.
func (b *builder) expertSource(layer int) func() expertSource {
	p := fmt.Sprintf("blk.%d.", layer)
	names := [3]string{p + "ffn_gate_exps.weight", p + "ffn_up_exps.weight", p + "ffn_down_exps.weight"}
	if b.store != nil {
		kind := expert.Expert{Gate: b.format(names[0]), Up: b.format(names[1]), Down: b.format(names[2])}
		return func() expertSource { return &stored{store: b.store, layer: layer, kind: kind} }
	}
	var gate, up []*kernel.Matrix
	if both := p + "ffn_gate_up_exps.weight"; b.has(both) {
		for _, m := range b.stack(both, b.Experts, 2*b.ExpertWidth, b.Width) {
			cut := b.cut(both, linear{Matrix: m}, b.ExpertWidth, b.ExpertWidth)
			gate, up = append(gate, cut[0].Matrix), append(up, cut[1].Matrix)
		}
	} else {
		gate = b.stack(names[0], b.Experts, b.ExpertWidth, b.Width)
		up = b.stack(names[1], b.Experts, b.ExpertWidth, b.Width)
	}
	down := b.stack(names[2], b.Experts, b.Width, b.ExpertWidth)
	return func() expertSource { return &resident{gate: gate, up: up, down: down} }
}

func (e *experts) keeps() kept { return kept{} }

// expertsRun is experts bound to a pass. A slot is one of a token's chosen experts:
// slot t*used + rank, the best expert first.
type expertsRun struct {
	*experts
	s      *Pass
	layer  int
	source expertSource
	moe    *moe
	probs  *buffer // [n, experts]: the router's outputs
	biased *buffer // [n, experts]
	gates  *buffer // [slots, inner]; then the product of both
	ups    *buffer // [slots, inner]
	out    *buffer // [slots, width]
	hidden *acts   // [slots, inner]: input of down
	down   roundings
	always *denseRun    // nil: none
	next   []*foresight // of the layers that come next
	extra  *buffer      // [n, width]: what always gives

	route, pick, gateUp, middle, downs, sum, sharedDown func(int)
}

// moe is the scratch of routing, shared by all layers of a pass.
type moe struct {
	chosen []int32          // [slots]: expert numbers
	weight []float32        // [slots]
	tokens [][]kernel.Route // by expert: token to slot
	slots  [][]kernel.Route // by expert: slot to slot
	busy   []int32          // experts that have tokens
	uses   []int32          // how many
	group  []expert.Expert  // those at work
	active []int32          // their slots
	read   int64            // see Pass.ExpertsRead
}

func (x *moe) reserve(experts, used int) {
	for len(x.tokens) < experts {
		x.tokens = append(x.tokens, make([]kernel.Route, 0, MaxBatch))
		x.slots = append(x.slots, make([]kernel.Route, 0, MaxBatch))
	}
	if n := MaxBatch * used; len(x.chosen) < n {
		x.chosen, x.weight, x.active = make([]int32, n), make([]float32, n), make([]int32, 0, n)
	}
	if cap(x.busy) < experts {
		x.busy, x.uses = make([]int32, 0, experts), make([]int32, 0, experts)
	}
}

func (e *experts) bind(s *Pass, layer int) (runner, roundings) {
	r := &expertsRun{experts: e, s: s, layer: layer, source: e.source(), moe: &s.moe}
	kind := r.source.kinds()
	s.moe.reserve(e.n, e.used)
	r.probs, r.biased = s.floats("router", e.n), s.floats("router, biased", e.n)
	r.gates, r.ups = s.floats("expert gate", e.used*e.inner), s.floats("expert up", e.used*e.inner)
	r.out = s.floats("experts", e.used*s.m.Width)
	r.down = roundingsOf(kind.Down)
	r.hidden = s.slots("experts", r.down, MaxBatch*e.used, e.inner)
	wants := roundingsOf(e.router.Matrix, kind.Gate, kind.Up)
	if e.shared != nil {
		r.always, r.extra = e.shared.bindTo(s), s.floats("shared expert", s.m.Width)
		wants |= e.shared.wants()
		r.sharedDown = func(c int) { r.always.downChunk(c, r.extra.data) }
	}
	r.route, r.pick, r.gateUp, r.middle, r.downs, r.sum = r.routeChunk, r.pickToken, r.gateUpChunk, r.activate, r.downChunk, r.sumToken
	return r, wants
}

// run routes every token to its experts, computes those that are busy, group by
// group, and sums what they give for each token.
func (r *expertsRun) run() error {
	s, p, x := r.s, r.s.pool, r.moe
	p.Run(r.routeJobs(), r.route)
	p.Run(s.n, r.pick)
	x.sort(s.n, r.used)
	if s.trace != nil {
		s.trace(r.layer, x.chosen[:s.n*r.used])
	}
	if err := r.compute(); err != nil {
		return err
	}
	if r.always != nil {
		p.Run(r.always.gate.chunks()+r.always.up.chunks(), r.always.gateUp)
		p.Run(s.n, r.always.middle)
		p.Run(r.always.down.chunks(), r.sharedDown)
	}
	p.Run(s.n, r.sum)
	return nil
}

func (r *expertsRun) begins() *kernel.Matrix { return r.router.Matrix }

// compute runs the busy experts.
func (r *expertsRun) compute() error {
	p, x := r.s.pool, r.moe
	batch, err := r.source.begin(x.busy, x.uses)
	if err != nil {
		return err
	}
	defer batch.end()
	for i, f := range r.next {
		f.tell(i + 1)
	}
	for {
		p.Soon()
		group, err := batch.next()
		if err != nil || len(group) == 0 {
			return err
		}
		x.take(group)
		r.s.near(group[0].Down)
		p.Run(len(group)*(chunks(group[0].Gate)+chunks(group[0].Up)), r.gateUp)
		p.Run(len(x.active), r.middle)
		r.s.near(r.s.coming)
		p.Run(len(group)*chunks(group[0].Down), r.downs)
	}
}

// sort lists, for every expert, the tokens of the pass that chose it.
func (x *moe) sort(n, used int) {
	for _, i := range x.busy {
		x.tokens[i], x.slots[i] = x.tokens[i][:0], x.slots[i][:0]
	}
	x.busy = x.busy[:0]
	for slot, i := range x.chosen[:n*used] {
		if len(x.tokens[i]) == 0 {
			x.busy = append(x.busy, i)
		}
		x.tokens[i] = append(x.tokens[i], kernel.Route{In: int32(slot / used), Out: int32(slot)})
		x.slots[i] = append(x.slots[i], kernel.Route{In: int32(slot), Out: int32(slot)})
	}
	x.read += int64(len(x.busy))
	x.uses = x.uses[:0]
	for _, i := range x.busy {
		x.uses = append(x.uses, int32(len(x.tokens[i])))
	}
}

// take lists the slots of a group's experts.
func (x *moe) take(group []expert.Expert) {
	x.group, x.active = group, x.active[:0]
	for i := range group {
		for _, route := range x.slots[group[i].ID] {
			x.active = append(x.active, route.In)
		}
	}
}

// routerTokens is how many tokens one job of the router takes.
const routerTokens = 48

func (r *expertsRun) routeJobs() int {
	return (r.s.n + routerTokens - 1) / routerTokens * r.router.chunks()
}

// routeChunk computes some rows of the router for some tokens.
func (r *expertsRun) routeChunk(job int) {
	c, from := job%r.router.chunks(), job/r.router.chunks()*routerTokens
	r.router.mul(c, r.probs.data, r.s.in, r.s.all[from:min(from+routerTokens, r.s.n)])
}

// pickToken chooses the experts of token t.
func (r *expertsRun) pickToken(t int) {
	r.experts.pick(t, r.probs, r.biased, r.moe.chosen, r.moe.weight)
}

// pick chooses the experts of token t, from the router's outputs in row t of probs.
func (e *experts) pick(t int, probs, biased *buffer, chosen []int32, weight []float32) {
	e.choose(row(probs.data, t, e.n), row(biased.data, t, e.n), chosen[t*e.used:][:e.used], row(weight, t, e.used))
}

// gateUpChunk computes a chunk of the rows of one expert's gate or up.
func (r *expertsRun) gateUpChunk(c int) {
	gates, ups := chunks(r.moe.group[0].Gate), chunks(r.moe.group[0].Up)
	e := &r.moe.group[c/(gates+ups)]
	routes := r.moe.tokens[e.ID]
	if c %= gates + ups; c < gates {
		rows(e.Gate, c, r.gates.data, r.s.in, routes)
	} else {
		rows(e.Up, c-gates, r.ups.data, r.s.in, routes)
	}
}

// activate makes the inner values of a slot, and rounds them for down.
func (r *expertsRun) activate(i int) {
	slot := int(r.moe.active[i])
	gate, up := row(r.gates.data, slot, r.inner), row(r.ups.data, slot, r.inner)
	e := int(r.moe.chosen[slot])
	if r.gateBias != nil {
		kernel.Add(gate, row(r.gateBias, e, r.inner))
	}
	if r.upBias != nil {
		kernel.Add(up, row(r.upBias, e, r.inner))
	}
	if r.act == nil {
		kernel.SiLUMul(gate, up)
	} else {
		r.act(gate, up)
	}
	r.hidden.set(r.down, slot, gate)
}

// downChunk computes a chunk of the rows of one expert's down.
func (r *expertsRun) downChunk(c int) {
	n := chunks(r.moe.group[0].Down)
	e := &r.moe.group[c/n]
	rows(e.Down, c%n, r.out.data, r.hidden, r.moe.slots[e.ID])
}

// sumToken adds the experts of token t up, in the order of their rank, and then
// the shared one.
func (r *expertsRun) sumToken(t int) {
	s, width := r.s, r.s.m.Width
	h := row(s.delta, t, width)
	clear(h)
	for rank := range r.used {
		slot := t*r.used + rank
		out := row(r.out.data, slot, width)
		if r.downBias != nil {
			kernel.Add(out, row(r.downBias, int(r.moe.chosen[slot]), width))
		}
		kernel.Axpy(h, out, r.moe.weight[slot])
	}
	if r.always == nil {
		return
	}
	extra := row(r.extra.data, t, width)
	if r.sharedGate == nil {
		kernel.Add(h, extra)
		return
	}
	kernel.Axpy(h, extra, sigmoid(kernel.Dot(r.sharedGate, row(s.normed, t, width))))
}
