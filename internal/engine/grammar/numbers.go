package grammar

import (
	"math/big"
	"strings"
)

// maxDigits is how many digits a number has at most before its point: what a
// 64-bit float holds exactly.
const maxDigits = 15

var (
	digit = span('0', '9')
	// plainInt and plainNumber are any, in a form that every reader takes.
	natural     = Alt(Lit("0"), Seq(span('1', '9'), Repeat(digit, 0, maxDigits-1)))
	plainInt    = Seq(Opt(Lit("-")), natural)
	plainNumber = Seq(plainInt, Opt(Seq(Lit("."), Repeat(digit, 1, maxDigits))), Opt(Seq(chars("eE"), Opt(chars("+-")), Repeat(digit, 1, 2))))
)

// bounds are those of a number.
type bounds struct {
	lo, hi         *big.Rat // nil: none
	loOpen, hiOpen bool     // the bound itself is outside
}

func (b *bounds) raise(v *big.Rat, open bool) {
	if b.lo == nil || v.Cmp(b.lo) > 0 || v.Cmp(b.lo) == 0 && open {
		b.lo, b.loOpen = v, open
	}
}

func (b *bounds) lower(v *big.Rat, open bool) {
	if b.hi == nil || v.Cmp(b.hi) < 0 || v.Cmp(b.hi) == 0 && open {
		b.hi, b.hiOpen = v, open
	}
}

// integers are the whole numbers within bounds.
func (b *bounds) integers() *Expr {
	if b.lo == nil && b.hi == nil {
		return plainInt
	}
	lo, hi := b.scaled(0)
	return decimals(lo, hi, 0, false)
}

// numbers are numbers within bounds: with as many digits behind the point as
// the bounds need to have some room between them, and more where that is sure to
// stay within.
func (b *bounds) numbers() *Expr {
	if b.lo == nil && b.hi == nil {
		return plainNumber
	}
	for scale := 0; ; scale++ {
		lo, hi := b.scaled(scale)
		room := new(big.Int).Sub(hi, lo)
		if room.Sign() > 0 || scale == maxDigits || room.Sign() == 0 && b.lo != nil && b.hi != nil && b.lo.Cmp(b.hi) == 0 {
			return Alt(decimals(lo, hi, scale, false), decimals(lo, hi, scale, true))
		}
	}
}

// scaled are the least and the greatest n for which n/10^scale is within bounds.
func (b *bounds) scaled(scale int) (lo, hi *big.Int) {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDigits), nil)
	most.Mul(most, unit).Sub(most, big.NewInt(1))
	lo, hi = new(big.Int).Neg(most), new(big.Int).Set(most)
	one := big.NewInt(1)
	if b.lo != nil {
		v := new(big.Rat).Mul(b.lo, new(big.Rat).SetInt(unit))
		n, rest := new(big.Int).DivMod(v.Num(), v.Denom(), new(big.Int)) // rounds down
		if rest.Sign() != 0 || b.loOpen {
			n.Add(n, one)
		}
		if n.Cmp(lo) > 0 {
			lo = n
		}
	}
	if b.hi != nil {
		v := new(big.Rat).Mul(b.hi, new(big.Rat).SetInt(unit))
		n, rest := new(big.Int).DivMod(v.Num(), v.Denom(), new(big.Int))
		if rest.Sign() == 0 && b.hiOpen {
			n.Sub(n, one)
		}
		if n.Cmp(hi) < 0 {
			hi = n
		}
	}
	return lo, hi
}

// decimals are n/10^scale for n from lo to hi, written with scale digits behind
// the point. With more set, further digits follow, and lo and hi are moved so
// that these can't leave the bounds.
func decimals(lo, hi *big.Int, scale int, more bool) *Expr {
	var options []*Expr
	zero, one := new(big.Int), big.NewInt(1)
	if hi.Sign() >= 0 {
		top := hi
		if more { // n.xxx is below n+1
			top = new(big.Int).Sub(hi, one)
		}
		options = append(options, magnitudes(maxInt(lo, zero), top, scale, more))
	}
	if lo.Sign() < 0 {
		// -n.xxx is above -(n+1).
		from, to := new(big.Int).Neg(minInt(hi, zero)), new(big.Int).Neg(lo)
		if from.Sign() == 0 && !more {
			from = one // -0 is 0
		}
		if more {
			to.Sub(to, one)
			if hi.Sign() >= 0 {
				from = zero
			}
		}
		options = append(options, Seq(Lit("-"), magnitudes(from, to, scale, more)))
	}
	return Alt(options...)
}

func maxInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func minInt(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// magnitudes are the numbers from lo to hi, neither below 0, as decimals has them.
func magnitudes(lo, hi *big.Int, scale int, more bool) *Expr {
	var options []*Expr
	ten := big.NewInt(10)
	for whole := 1; whole <= maxDigits; whole++ {
		length := whole + scale
		least := new(big.Int).Exp(ten, big.NewInt(int64(length-1)), nil)
		if whole == 1 {
			least.SetInt64(0)
		}
		most := new(big.Int).Exp(ten, big.NewInt(int64(length)), nil)
		most.Sub(most, big.NewInt(1))
		from, to := maxInt(least, lo), minInt(most, hi)
		if from.Cmp(to) > 0 {
			continue
		}
		options = append(options, digits(padded(from, length), padded(to, length), whole, more))
	}
	return Alt(options...)
}

func padded(n *big.Int, length int) string {
	s := n.String()
	return strings.Repeat("0", length-len(s)) + s
}

// digits are the texts of digits from lo to hi, which are as long as each other,
// with a point after so many of them.
func digits(lo, hi string, point int, more bool) *Expr {
	fraction := Seq()
	if more {
		fraction = Repeat(digit, 1, maxDigits)
		if point == len(lo) {
			fraction = Seq(Lit("."), fraction)
		}
	}
	dot := func(at int, rest *Expr) *Expr { // what follows the digit before at
		if at == point && at < len(lo) {
			return Seq(Lit("."), rest)
		}
		return rest
	}
	// low[i], high[i] and free[i] are the ends from digit i on: at least lo's,
	// at most hi's, any.
	low, high, free := fraction, fraction, fraction
	both := fraction // as long as lo and hi are the same from the left
	for i := len(lo) - 1; i >= 0; i-- {
		l, h := lo[i], hi[i]
		nextLow, nextHigh, nextFree := dot(i+1, low), dot(i+1, high), dot(i+1, free)
		nextBoth := dot(i+1, both)
		if l == h {
			both = Seq(span(l, l), nextBoth)
		} else if l < h {
			options := []*Expr{Seq(span(l, l), nextLow), Seq(span(h, h), nextHigh)}
			if l+1 <= h-1 {
				options = append(options, Seq(span(l+1, h-1), nextFree))
			}
			both = Alt(options...)
		} else {
			both = Alt() // only reached when lo > hi
		}
		lowOptions, highOptions := []*Expr{Seq(span(l, l), nextLow)}, []*Expr{Seq(span(h, h), nextHigh)}
		if l < '9' {
			lowOptions = append(lowOptions, Seq(span(l+1, '9'), nextFree))
		}
		if h > '0' {
			highOptions = append(highOptions, Seq(span('0', h-1), nextFree))
		}
		low, high, free = Alt(lowOptions...), Alt(highOptions...), Seq(digit, nextFree)
	}
	return both
}
