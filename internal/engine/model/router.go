package model

import (
	"math"

	"assay/internal/engine/quant"
)

// gating is how the router's outputs become shares of experts.
type gating int

const (
	gateSoftmax gating = iota + 1 // softmax over all experts
	gateSigmoid                   // each expert's by itself
	gateChosen                    // softmax over the outputs of those that are chosen
)

// routing is how the experts of a token are chosen and weighted.
type routing struct {
	router     linear    // [experts, width]
	used       int       // experts a token
	gating     gating    //
	choiceBias []float32 // [experts], added for the choice only; nil: none
	groups     int       // experts are cut into so many groups, and chosen from the best; 0: not
	groupsUsed int       //
	normalised bool      // the chosen shares are divided by their sum
	scale      float32   // of the shares; 0: 1
}

// leastSum is the smallest sum that chosen shares are divided by: the smallest
// normal half float, as llama.cpp has it.
const leastSum = 6.103515625e-5

// choose finds the experts of a token from the router's outputs p, [experts]: the
// best ones first, the lower number among equals, and their weights. It spoils p.
// biased is scratch of the same size.
func (r *routing) choose(p, biased []float32, chosen []int32, weight []float32) {
	switch r.gating {
	case gateSoftmax:
		softmax(p)
	case gateSigmoid:
		for i, v := range p {
			p[i] = sigmoid(v)
		}
	}
	choice := p
	if r.choiceBias != nil {
		choice = biased[:len(p)]
		for i, v := range p {
			choice[i] = v + r.choiceBias[i]
		}
	}
	if r.groups > 1 {
		r.keepGroups(choice)
	}
	taken := float32(math.Inf(-1))
	sum := float32(0)
	for rank := range chosen {
		e := 0
		for i, v := range choice {
			if v > choice[e] {
				e = i
			}
		}
		chosen[rank], weight[rank] = int32(e), p[e]
		sum += p[e]
		choice[e] = taken
	}
	switch {
	case r.gating == gateChosen:
		softmax(weight)
	case r.normalised:
		sum = max(sum, leastSum)
		for rank := range weight {
			weight[rank] /= sum
		}
	}
	if r.scale != 0 {
		for rank := range weight {
			weight[rank] *= r.scale
		}
	}
}

// maxGroups bounds the scratch of keepGroups; DeepSeek's models have 8.
const maxGroups = 64

// keepGroups bars the experts outside of the best groups. A group's worth is the
// sum of its two best; the earlier of equal groups is the better one.
func (r *routing) keepGroups(choice []float32) {
	var worth [maxGroups]float32
	size := len(choice) / r.groups
	for g := range r.groups {
		first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
		for _, v := range choice[g*size:][:size] {
			if v > first {
				first, second = v, first
			} else if v > second {
				second = v
			}
		}
		worth[g] = first + second
	}
	for g, w := range worth[:r.groups] {
		better := 0
		for o, v := range worth[:r.groups] {
			if v > w || v == w && o < g {
				better++
			}
		}
		if better >= r.groupsUsed {
			for i := range size {
				choice[g*size+i] = float32(math.Inf(-1))
			}
		}
	}
}

func softmax(x []float32) {
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	sum := float32(0)
	for i, v := range x {
		x[i] = quant.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
