package sample

import (
	"cmp"
	"math"
	"slices"
)

// Sampler draws the tokens of one sequence. It belongs to one goroutine.
type Sampler struct {
	p       Params
	recent  []int32 // the last tokens that penalties look at, a ring
	next    int     // where in recent the next one goes
	count   map[int32]int
	scratch []float32
	list    []candidate

	constraint Constraint // nil: none
	end        int        // the position behind the last that may be drawn
}

type candidate struct {
	id    int32
	logit float32
	prob  float64
}

// New makes a sampler for a vocabulary. context is what RepeatLastN = -1 means.
func New(p Params, vocabulary, context int) *Sampler {
	n := p.RepeatLastN
	if n < 0 {
		n = context
	}
	if p.RepeatPenalty == 1 && p.PresencePenalty == 0 && p.FrequencyPenalty == 0 {
		n = 0
	}
	return &Sampler{
		p: p, recent: make([]int32, 0, n), count: map[int32]int{},
		scratch: make([]float32, vocabulary), list: make([]candidate, 0, vocabulary),
	}
}

// Accept tells the sampler of a token of the sequence, prompt or drawn.
func (s *Sampler) Accept(id int32) {
	if s.constraint != nil {
		s.constraint.Accept(id)
	}
	n := cap(s.recent)
	if n == 0 {
		return
	}
	if len(s.recent) < n {
		s.recent = append(s.recent, id)
	} else {
		old := s.recent[s.next]
		if s.count[old]--; s.count[old] == 0 {
			delete(s.count, old)
		}
		s.recent[s.next] = id
		s.next = (s.next + 1) % n
	}
	s.count[id]++
}

// Draw chooses the token at a position of the sequence, which is all that its
// randomness depends on besides the seed. logits are left alone; the banned
// tokens are never drawn.
func (s *Sampler) Draw(logits []float32, position int, banned []int32) int32 {
	l := s.scratch
	copy(l, logits)
	for id, b := range s.p.LogitBias {
		if id >= 0 && int(id) < len(l) {
			l[id] += b
		}
	}
	for id, n := range s.count {
		if l[id] > 0 {
			l[id] /= s.p.RepeatPenalty
		} else {
			l[id] *= s.p.RepeatPenalty
		}
		l[id] -= float32(n)*s.p.FrequencyPenalty + s.p.PresencePenalty
	}
	for _, id := range banned {
		l[id] = float32(math.Inf(-1))
	}
	if s.constraint != nil {
		return s.drawConstrained(l, position)
	}
	return s.pick(l, position)
}

// pick draws from logits that are final.
func (s *Sampler) pick(l []float32, position int) int32 {
	if s.p.Temperature == 0 {
		return best(l)
	}
	list := s.candidates(l)
	sum := 0.0
	for i := range list {
		list[i].prob = math.Exp(float64(list[i].logit-list[0].logit) / float64(s.p.Temperature))
		sum += list[i].prob
	}
	u := uniform(s.p.Seed, uint64(position)) * sum
	for _, c := range list {
		if u -= c.prob; u < 0 {
			return c.id
		}
	}
	return list[0].id // rounding left a little over, or no number was finite
}

// candidates are the tokens that top-k, top-p and min-p leave, best first; the
// lower id goes first among equals. There is always one.
func (s *Sampler) candidates(l []float32) []candidate {
	list := s.list[:0]
	for id, v := range l {
		list = append(list, candidate{id: int32(id), logit: v})
	}
	k := s.p.TopK
	if k == 0 || k > len(list) {
		k = len(list)
	}
	list = topK(list, k)
	if s.p.TopP < 1 {
		sum := 0.0
		for i := range list {
			list[i].prob = math.Exp(float64(list[i].logit - list[0].logit))
			sum += list[i].prob
		}
		total := 0.0
		for i := range list {
			if total += list[i].prob / sum; total >= float64(s.p.TopP) {
				list = list[:i+1]
				break
			}
		}
	}
	if s.p.MinP > 0 {
		least := list[0].logit + float32(math.Log(float64(s.p.MinP)))
		for i := 1; i < len(list); i++ {
			if list[i].logit < least {
				list = list[:i]
				break
			}
		}
	}
	return list
}

func better(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// topK sorts the k best to the front and returns them. For small k it keeps
// the best so far in order and looks at every other token once.
func topK(list []candidate, k int) []candidate {
	if k == 0 {
		return nil
	}
	if k > 256 || k >= len(list) {
		slices.SortFunc(list, better)
		return list[:k]
	}
	slices.SortFunc(list[:k], better)
	for _, c := range list[k:] {
		if better(c, list[k-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(list[:k], c, better)
		copy(list[at+1:k], list[at:k-1])
		list[at] = c
	}
	return list[:k]
}

func best(l []float32) int32 {
	at := 0
	for i, v := range l {
		if v > l[at] {
			at = i
		}
	}
	return int32(at)
}

// uniform is a number in [0, 1) that depends on seed and position alone: the
// output function of SplitMix64 (Steele, Lea, Flood 2014), twice.
func uniform(seed, position uint64) float64 {
	return float64(mix(mix(seed)+position)>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Logprobs returns the natural log of the probability that the model itself
// gives to token id, before any penalty or temperature, and the n most likely
// tokens, best first.
func Logprobs(logits []float32, id int32, n int) (of float32, top []Probability) {
	list := make([]candidate, len(logits))
	high := logits[best(logits)]
	sum := 0.0
	for i, v := range logits {
		list[i] = candidate{id: int32(i), logit: v}
		sum += math.Exp(float64(v - high))
	}
	base := float64(high) + math.Log(sum)
	for _, c := range topK(list, min(n, len(list))) {
		top = append(top, Probability{c.id, float32(float64(c.logit) - base)})
	}
	return float32(float64(logits[id]) - base), top
}
