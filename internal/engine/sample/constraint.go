package sample

import "math"

// Constraint keeps what is drawn in a form. Package grammar has one.
type Constraint interface {
	// Allowed is a bit a token, of those that may come next. It stays the
	// constraint's.
	Allowed() []uint64
	// Allows is the bit of one token.
	Allows(id int32) bool
	// Need is a number of tokens that is enough to complete the form.
	Need() int
	// Fits says whether the form can be completed by left tokens after this one.
	Fits(id int32, left int) bool
	// Shortest begins the shortest way to complete the form; from then on
	// Forced gives its tokens, until Accept was told of them all.
	Shortest() (id int32, ok bool)
	Forced() (id int32, ok bool)
	// Accept tells of a token that was drawn.
	Accept(id int32)
	// Ended says that the form is complete and nothing more may come.
	Ended() bool
}

// Constrain keeps the tokens that are drawn from now on in a form. The last of
// them has a position below end: the form is completed by then, if there is
// room for it now. It is called after the prompt's tokens were accepted.
func (s *Sampler) Constrain(c Constraint, position, end int) {
	s.constraint, s.end = c, math.MaxInt
	if c != nil && end-position >= c.Need() {
		s.end = end
	}
}

// Ended says that what was drawn is complete by its constraint.
func (s *Sampler) Ended() bool { return s.constraint != nil && s.constraint.Ended() }

// maxRedraws bounds the tokens that are tried near the end of the room.
const maxRedraws = 16

// drawConstrained is Draw after penalties, which are in l.
func (s *Sampler) drawConstrained(l []float32, position int) int32 {
	c := s.constraint
	if id, ok := c.Forced(); ok {
		return id
	}
	left := s.end - position - 1
	if s.p.Temperature == 0 { // most often the best token is allowed
		if id := best(l); c.Allows(id) && c.Fits(id, left) {
			return id
		}
	}
	mask := c.Allowed()
	for i := range l {
		if mask[i>>6]>>(i&63)&1 == 0 {
			l[i] = float32(math.Inf(-1))
		}
	}
	var id int32
	for range maxRedraws {
		id = s.pick(l, position)
		if math.IsInf(float64(l[id]), -1) {
			break
		}
		if c.Fits(id, left) {
			return id
		}
		l[id] = float32(math.Inf(-1))
	}
	if id, ok := c.Shortest(); ok {
		return id
	}
	return id
}
