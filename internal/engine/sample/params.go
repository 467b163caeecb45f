// Package sample draws the next token from logits.
package sample

import (
	"fmt"
	"math"
)

// Params say how a token is drawn. The stages run in the order penalties,
// top-k, top-p, min-p, temperature, as llama.cpp's do.
type Params struct {
	Seed             uint64
	Temperature      float32 // 0: the best token
	TopK             int     // 0: all
	TopP             float32 // 1: all
	MinP             float32 // 0: all
	RepeatPenalty    float32 // 1: none
	RepeatLastN      int     // tokens that penalties look back on; -1: the context; 0: none
	PresencePenalty  float32 // 0: none
	FrequencyPenalty float32 // 0: none
	LogitBias        map[int32]float32
}

// Defaults are llama-server's.
func Defaults() Params {
	return Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1, RepeatLastN: 64}
}

// Probability is one candidate: a token and the natural log of its probability.
type Probability struct {
	ID      int32
	Logprob float32
}

// Validate names the first value that can't be used, with the range it must
// lie in.
func (p *Params) Validate() error {
	bad := func(name string, v any, want string) error {
		return fmt.Errorf("%s: %v is not %s", name, v, want)
	}
	finite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	switch {
	case !finite(p.Temperature) || p.Temperature < 0:
		return bad("temperature", p.Temperature, "a number of at least 0")
	case p.TopK < 0:
		return bad("top_k", p.TopK, "a whole number of at least 0")
	case !(p.TopP >= 0 && p.TopP <= 1):
		return bad("top_p", p.TopP, "between 0 and 1")
	case !(p.MinP >= 0 && p.MinP <= 1):
		return bad("min_p", p.MinP, "between 0 and 1")
	case !finite(p.RepeatPenalty) || p.RepeatPenalty <= 0:
		return bad("repeat_penalty", p.RepeatPenalty, "a number above 0")
	case p.RepeatLastN < -1:
		return bad("repeat_last_n", p.RepeatLastN, "-1, 0 or more")
	case !(p.PresencePenalty >= -2 && p.PresencePenalty <= 2):
		return bad("presence_penalty", p.PresencePenalty, "between -2 and 2")
	case !(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2):
		return bad("frequency_penalty", p.FrequencyPenalty, "between -2 and 2")
	}
	for id, b := range p.LogitBias {
		if math.IsNaN(float64(b)) {
			return bad(fmt.Sprintf("logit_bias[%d]", id), b, "a number")
		}
	}
	return nil
}
