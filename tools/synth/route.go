package main

import (
	"math"
	"slices"
)

// How the routing skew arises. A router's logit for expert e is row e times the
// normalised stream, which changes from token to token and has size 1. Rows are
// random, so the logit is about normal with the row's length as its standard
// deviation: a longer row is above the threshold of the best few more often. A
// row of length g is above a threshold of 1 with probability Q(1/g), Q being the
// upper tail of the normal distribution; so the length that an expert needs for a
// share p of the tokens is 1/Q^-1(p), for any p below one half. No bias is
// needed, which most architectures don't have.
//
// The shares are Zipf-Mandelbrot: p_r proportional to 1/(r+q)^s for the r-th most
// used expert, in an order of its own in every layer. They sum to the experts a
// token takes. q is the smallest that keeps the first at topShare or less.
//
// That it comes out so was measured with the engine on the preset 2.5b, Q8_0, skew
// 1, over 192 random tokens in one context. Experts of a layer by how many of the
// tokens they had, in the mean of all layers, and what was wanted:
//
//	rank      1      8      16     32     64
//	had       0.372  0.226  0.163  0.105  0.031
//	wanted    0.350  0.223  0.158  0.099  0.057
//
// (Sorting by what was counted makes the last ranks come out low.)

// topShare is the largest share of the tokens that one expert gets. A share near
// one half would need a row without end.
const topShare = 0.35

// shares are the wanted shares of tokens of n experts, the most used first, of
// which used are taken by each token, with exponent s.
func shares(n, used int, s float64) []float64 {
	of := func(q float64) []float64 {
		p, sum := make([]float64, n), 0.0
		for i := range p {
			p[i] = math.Pow(float64(i+1)+q, -s)
			sum += p[i]
		}
		for i := range p {
			p[i] *= float64(used) / sum
		}
		return p
	}
	most := max(topShare, 1.1*float64(used)/float64(n)) // with no skew at all every share is used/n
	low, high := 0.0, 1.0
	for of(high)[0] > most && high < 1e9 {
		low, high = high, 2*high
	}
	if of(0)[0] <= most {
		return of(0)
	}
	for range 60 {
		if mid := (low + high) / 2; of(mid)[0] > most {
			low = mid
		} else {
			high = mid
		}
	}
	return of(high)
}

// rowLengths are the lengths of a router's rows, in the layer's own order.
func rowLengths(r *source, n, used int, s float64) []float64 {
	g := make([]float64, n)
	for i, p := range shares(n, used, s) {
		// Q^-1(p) is sqrt(2) erfinv(1-2p). Shares of one half and more, which
		// only models that take half of their experts have, get a long row.
		g[i] = 1 / max(math.Sqrt2*math.Erfinv(1-2*min(p, 0.499)), 0.1)
	}
	for i := range slices.Backward(g) {
		j := int(r.float() * float64(i+1))
		g[i], g[j] = g[j], g[i]
	}
	return g
}
