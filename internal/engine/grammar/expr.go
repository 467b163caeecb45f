package grammar

import "math"

// Expr is a set of byte strings, built from the functions below. An Expr may be
// used in several places.
type Expr struct {
	kind exprKind
	set  byteSet
	text string
	list []*Expr
	min  int
	max  int // unbounded: as often as one likes
	rule *Rule
}

type exprKind uint8

const (
	kindSet exprKind = iota
	kindText
	kindMark
	kindSeq
	kindAlt
	kindRepeat
	kindRule
	kindUntil
	kindWithout
)

const unbounded = math.MaxInt32

// byteSet is a bit a byte value.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// markByte stands before the name of a control token in the grammar's alphabet.
// It is in no UTF-8 text, so no text can spell a control token.
const markByte = 0xFF

// Rule is an expression with a name, so that it can contain itself. Body is set
// before the grammar is compiled.
type Rule struct{ Body *Expr }

// Lit is one text.
func Lit(text string) *Expr { return &Expr{kind: kindText, text: text} }

// Mark is a control token, where the vocabulary has one of this name, and else
// the text of the name.
func Mark(name string) *Expr { return &Expr{kind: kindMark, text: name} }

// Seq is one after the other.
func Seq(parts ...*Expr) *Expr { return &Expr{kind: kindSeq, list: parts} }

// Alt is any one of several; of none, nothing at all matches.
func Alt(options ...*Expr) *Expr { return &Expr{kind: kindAlt, list: options} }

// Repeat is e at least min and at most max times; max below 0 is without end.
func Repeat(e *Expr, min, max int) *Expr {
	if max < 0 {
		max = unbounded
	}
	return &Expr{kind: kindRepeat, list: []*Expr{e}, min: min, max: max}
}

// Opt is e or nothing.
func Opt(e *Expr) *Expr { return Repeat(e, 0, 1) }

// Call is what a rule matches.
func Call(r *Rule) *Expr { return &Expr{kind: kindRule, rule: r} }

// Until is any text up to the first time that end, a text or the name of a
// control token, comes, and end itself.
func Until(end string) *Expr { return &Expr{kind: kindUntil, text: end} }

// Without is any text that does not hold the given one.
func Without(text string) *Expr { return &Expr{kind: kindWithout, text: text} }

// span is one byte between two, both included.
func span(lo, hi byte) *Expr {
	e := &Expr{kind: kindSet}
	for b := int(lo); b <= int(hi); b++ {
		e.set.add(byte(b))
	}
	return e
}

// chars is any one byte of a text.
func chars(of string) *Expr {
	e := &Expr{kind: kindSet}
	for i := range len(of) {
		e.set.add(of[i])
	}
	return e
}
