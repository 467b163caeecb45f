package grammar

import "slices"

// checkExclusive demands of a oneOf that no value that one option writes
// satisfies another: then an option is written as in an anyOf.
func (c *compiler) checkExclusive(ch choice, base []part) {
	specs := make([]*spec, len(ch.options))
	for i, o := range ch.options {
		specs[i] = c.gather(append(slices.Clone(base), o))
	}
	for i, a := range specs {
		for j, b := range specs[:i] {
			if !apart(a, b) {
				c.problem(ch.path, "options %d and %d may both hold for one value, which is not supported; use anyOf, or give each a required property with a const of its own", j, i)
				return
			}
		}
	}
}

// apart says that no value that is written for one satisfies the other, as far
// as can be seen at once.
func apart(a, b *spec) bool {
	if a.never || b.never {
		return true
	}
	if a.hasEnum && b.hasEnum {
		return disjoint(a, b)
	}
	switch a.kinds() & b.kinds() {
	case 0:
		return true
	case typeObject:
		return lacks(a, b) && lacks(b, a) || tagged(a, b)
	}
	return false
}

func (s *spec) kinds() types {
	if !s.hasEnum {
		return s.said
	}
	var t types
	for _, v := range s.enum {
		t |= typeOf(v)
	}
	return t
}

func disjoint(a, b *spec) bool {
	for _, v := range a.enum {
		for _, o := range b.enum {
			if equal(v, o) {
				return false
			}
		}
	}
	return true
}

// lacks says that what is written for a is no b: it has no member that b asks
// for, or one that b forbids.
func lacks(a, b *spec) bool {
	if _, extra := a.extra(); !extra {
		for _, n := range b.required {
			if a.properties[n] == nil && !slices.Contains(a.required, n) {
				return true
			}
		}
	}
	for _, n := range a.required {
		if b.closed != nil && !b.closed[n] {
			return true
		}
	}
	return false
}

// tagged says that both have a required property whose values differ.
func tagged(a, b *spec) bool {
	for _, n := range a.required {
		if !slices.Contains(b.required, n) || a.properties[n] == nil || b.properties[n] == nil {
			continue
		}
		c := newCompiler(nil)
		x, y := c.gather(a.properties[n]), c.gather(b.properties[n])
		if len(c.problems) == 0 && x.hasEnum && y.hasEnum && disjoint(x, y) {
			return true
		}
	}
	return false
}
