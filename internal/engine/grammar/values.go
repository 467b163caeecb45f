package grammar

import (
	"math/big"
	"slices"
	"strings"
)

// blank is the white space that may stand between the parts of a value.
var blank = Opt(Alt(Lit(" "), Seq(Lit("\n"), Repeat(Lit(" "), 0, 20))))

// emit is the values of a spec that has no choices left.
func (c *compiler) emit(s *spec) *Expr {
	if s.hasEnum {
		var options []*Expr
		for _, v := range s.enum {
			options = append(options, Lit(literal(v)))
		}
		return Alt(options...)
	}
	var options []*Expr
	if s.types&typeObject != 0 {
		options = append(options, c.object(s))
	}
	if s.types&typeArray != 0 {
		options = append(options, c.array(s))
	}
	if s.types&typeString != 0 {
		options = append(options, c.str(s))
	}
	if s.types&(typeNumber|typeInteger) != 0 {
		options = append(options, c.num(s))
	}
	if s.types&typeBoolean != 0 {
		options = append(options, Lit("true"), Lit("false"))
	}
	if s.types&typeNull != 0 {
		options = append(options, Lit("null"))
	}
	return Alt(options...)
}

// object has the properties in their order: each that is not required may be
// left out. Others follow.
func (c *compiler) object(s *spec) *Expr {
	others, extra := s.extra()
	for _, n := range s.required {
		if s.properties[n] != nil {
			continue
		}
		if s.closed != nil {
			return Alt() // required and not allowed
		}
		s.properties[n] = others
		s.names = append(s.names, n)
	}
	extra = extra && (len(s.others) > 0 || len(s.names) == 0)
	if s.maxProps >= 0 && s.maxProps < max(len(s.required), s.minProps) {
		return Alt()
	}
	countExtra := len(s.names) == 0
	if !countExtra && (s.minProps > len(s.required) || s.maxProps >= 0 && s.maxProps < len(s.names)) {
		c.problem(s.path, "minProperties and maxProperties are supported only for objects without properties of their own")
		return Alt()
	}
	if !countExtra && s.maxProps >= 0 {
		extra = false // nor would there be room to count
	}

	comma := Seq(Lit(","), blank)
	var more *Expr // ", member" for those not listed
	var member *Expr
	if extra {
		member = Seq(otherKey(s.names), Lit(":"), blank, c.value(others))
		more = Seq(comma, member)
	}
	if countExtra {
		body := Seq()
		switch {
		case member == nil && s.minProps > 0:
			return Alt()
		case member != nil && s.maxProps != 0:
			// Names that come twice would count once.
			if s.minProps > 1 {
				c.problem(s.path, "minProperties above 1 is supported only with that many required properties")
				return Alt()
			}
			rest := -1
			if s.maxProps > 0 {
				rest = s.maxProps - 1
			}
			body = Seq(member, Repeat(more, 0, rest), blank)
			if s.minProps == 0 {
				body = Opt(body)
			}
		}
		return Seq(Lit("{"), blank, body, Lit("}"))
	}

	// after[i] is what may follow from property i on when a member has been
	// written, first[i] when none has.
	after, first := Seq(), Seq()
	if extra {
		after = Repeat(more, 0, -1)
		first = Opt(Seq(member, after))
	}
	for i := len(s.names) - 1; i >= 0; i-- {
		n := s.names[i]
		pair := Seq(Lit(jsonString(n)+":"), blank, c.value(s.properties[n]))
		follow, begin := Seq(comma, pair, after), Seq(pair, after)
		if slices.Contains(s.required, n) {
			after, first = follow, begin
		} else {
			after, first = Alt(follow, after), Alt(begin, first)
		}
	}
	return Seq(Lit("{"), blank, first, blank, Lit("}"))
}

// otherKey is a member's name, in quotes, that is none of those given. It has no
// escapes, by which one of them could be written in another way, and beside
// other names only characters of ASCII.
func otherKey(names []string) *Expr {
	if len(names) == 0 {
		return Seq(Lit(`"`), Repeat(char, 0, -1), Lit(`"`))
	}
	var plain []string
	for _, n := range names {
		if !strings.ContainsFunc(n, func(r rune) bool { return r >= 0x80 || !asciiChar.set.has(byte(r)) }) {
			plain = append(plain, n)
		}
	}
	return Seq(Lit(`"`), noneOf(plain, asciiChar, Repeat(asciiChar, 0, -1)), Lit(`"`))
}

var asciiChar = &Expr{kind: kindSet, set: unescaped([]rune{' ', 0x7E}).list[0].set}

// noneOf is any text of characters but these names.
func noneOf(names []string, character, any *Expr) *Expr {
	if len(names) == 0 {
		return any
	}
	// Either the text leaves every name at its first byte, or it goes along with
	// some of them.
	var rest [0x80][]string
	away := &Expr{kind: kindSet, set: character.set}
	ends := false
	for _, n := range names {
		if n == "" {
			ends = true
			continue
		}
		rest[n[0]] = append(rest[n[0]], n[1:])
		away.set[n[0]>>6] &^= 1 << (n[0] & 63)
	}
	options := []*Expr{Seq(away, any)}
	if !ends {
		options = append(options, Seq())
	}
	for b, names := range rest {
		if names != nil {
			options = append(options, Seq(span(byte(b), byte(b)), noneOf(names, character, any)))
		}
	}
	return Alt(options...)
}

func (c *compiler) array(s *spec) *Expr {
	most := s.maxItems
	each := c.value([]part{anything})
	switch {
	case len(s.items) > 0:
		each = c.value(s.items)
	case len(s.prefix) > 0 && most < 0: // no more than are asked for
		most = max(len(s.prefix), s.minItems)
	}
	if most >= 0 && most < s.minItems {
		return Alt()
	}
	comma := Seq(Lit(","), blank)
	// From the last: what may follow when i items have been written.
	n := len(s.prefix)
	if most >= 0 {
		n = min(n, most)
	}
	limit := -1
	if most >= 0 {
		limit = most - n
	}
	from := max(s.minItems-n, 0)
	rest := Repeat(Seq(comma, each), from, limit)
	if n == 0 {
		if most == 0 {
			return Seq(Lit("["), blank, Lit("]"))
		}
		if limit > 0 {
			limit--
		}
		body := Seq(each, Repeat(Seq(comma, each), max(from-1, 0), limit))
		if s.minItems == 0 {
			body = Opt(body)
		}
		return Seq(Lit("["), blank, body, blank, Lit("]"))
	}
	for i := n - 1; i >= 0; i-- {
		item := c.value(s.prefix[i])
		if i > 0 {
			item = Seq(comma, item)
		}
		rest = Seq(item, rest)
		if i >= s.minItems {
			rest = Opt(rest)
		}
	}
	return Seq(Lit("["), blank, rest, blank, Lit("]"))
}

func (c *compiler) str(s *spec) *Expr {
	patterns := slices.Clone(s.patterns)
	for _, f := range s.formats {
		p, ok := formats[f]
		if !ok {
			c.problem(s.path, "the format %q is not supported", f)
			return Alt()
		}
		patterns = append(patterns, p)
	}
	patterns = slices.Compact(patterns)
	switch {
	case s.maxLen >= 0 && s.maxLen < s.minLen:
		return Alt()
	case len(patterns) == 0:
		return text(s.minLen, s.maxLen)
	case len(patterns) > 1:
		c.problem(s.path, "several patterns or formats at once are not supported")
		return Alt()
	}
	e, err := patterned(patterns[0], s.minLen, s.maxLen)
	if err != nil {
		c.problem(s.path, "pattern %q %v", patterns[0], err)
		return Alt()
	}
	return e
}

// formats are those of a string that a pattern can tell, as patterns: no more
// than the format allows, though not all of it.
var formats = map[string]string{
	"date":      `^` + datePattern + `$`,
	"time":      `^` + timePattern + `$`,
	"date-time": `^` + datePattern + `T` + timePattern + `$`,
	"uuid":      `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
	"ipv4":      `^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$`,
	"email":     `^[a-zA-Z0-9_+-]+(\.[a-zA-Z0-9_+-]+){0,4}@[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?(\.[a-zA-Z]{2,10}){1,3}$`,
	"hostname":  `^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?){0,5}$`,
	"uri":       `^https?://[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?(\.[a-zA-Z]{2,30}){0,4}(:[1-9][0-9]{0,3})?(/[a-zA-Z0-9_.~-]{0,60}){0,12}(\?[a-zA-Z0-9_.~=&-]{0,200})?(#[a-zA-Z0-9_.~-]{0,60})?$`,
	"duration":  `^P([1-9][0-9]{0,3}D(T([1-9][0-9]?H)?[1-9][0-9]?M)?|T[1-9][0-9]{0,3}[HMS])$`,
}

const (
	datePattern = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))`
	timePattern = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
)

// num are the numbers of a spec, whole ones if only these are asked for.
func (c *compiler) num(s *spec) *Expr {
	whole := s.types&typeNumber == 0
	if s.multiple != nil && !(whole && s.multiple.Cmp(big.NewRat(1, 1)) == 0) {
		return c.multiples(s, whole)
	}
	if whole {
		return s.number.integers()
	}
	return s.number.numbers()
}

// multiples writes them out, when there are few.
func (c *compiler) multiples(s *spec, whole bool) *Expr {
	const most = 2000
	if s.number.lo == nil || s.number.hi == nil {
		c.problem(s.path, "multipleOf is supported only with a minimum and a maximum")
		return Alt()
	}
	first := new(big.Rat).Quo(s.number.lo, s.multiple)
	n := new(big.Int).Div(first.Num(), first.Denom()) // not above the first
	var options []*Expr
	for range most + 2 {
		v := new(big.Rat).Mul(s.multiple, new(big.Rat).SetInt(n))
		if v.Cmp(s.number.hi) > 0 {
			return Alt(options...)
		}
		if s.number.hold(v) && (!whole || v.IsInt()) {
			digits, exact := v.FloatPrec()
			if !exact || digits > maxDigits {
				break
			}
			options = append(options, Lit(v.FloatString(digits)))
		}
		n.Add(n, big.NewInt(1))
	}
	c.problem(s.path, "multipleOf leaves too many values (over %d) between minimum and maximum", most)
	return Alt()
}
