package grammar

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// count reads a keyword that is a number of things.
func (c *compiler) count(path string, raw json.RawMessage) int {
	r, ok := new(big.Rat).SetString(strings.TrimSpace(string(raw)))
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() > 1<<30 {
		c.problem(path, "not a whole number of at least 0")
		return 0
	}
	return int(r.Num().Int64())
}

func (c *compiler) number(path string, raw json.RawMessage) *big.Rat {
	text := strings.TrimSpace(string(raw))
	// An exponent of many digits would be a number of many bytes.
	if len(text) > 40 || strings.ContainsAny(text, "eE") && len(text[strings.IndexAny(text, "eE"):]) > 4 {
		c.problem(path, "not a number of a size that is supported")
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		c.problem(path, "not a number")
		return nil
	}
	return r
}

// least lowers a limit that is below 0 when there is none.
func least(limit *int, n int) {
	if *limit < 0 || n < *limit {
		*limit = n
	}
}

func (c *compiler) readObject(s *spec, at string, m member, list []member) bool {
	switch m.name {
	case "properties":
		props, ok := members(m.value)
		if !ok {
			c.problem(at, "not an object")
			return true
		}
		for _, prop := range props {
			if _, known := s.properties[prop.name]; !known {
				s.names = append(s.names, prop.name)
			}
			s.properties[prop.name] = append(s.properties[prop.name], part{path: at + "/" + pointerName(prop.name), raw: prop.value})
		}
	case "required":
		var names []string
		if json.Unmarshal(m.value, &names) != nil {
			c.problem(at, "not an array of names")
			return true
		}
		for _, n := range names {
			if !slices.Contains(s.required, n) {
				s.required = append(s.required, n)
			}
		}
	case "additionalProperties":
		own := map[string]bool{}
		props, _ := members(find(list, "properties"))
		for _, prop := range props {
			own[prop.name] = true
		}
		switch {
		case string(m.value) != "false":
			s.others = append(s.others, others{own, part{path: at, raw: m.value}})
		case s.closed == nil:
			s.closed = own
		default:
			for n := range s.closed {
				if !own[n] {
					delete(s.closed, n)
				}
			}
		}
	case "minProperties":
		s.minProps = max(s.minProps, c.count(at, m.value))
	case "maxProperties":
		least(&s.maxProps, c.count(at, m.value))
	default:
		return false
	}
	s.has |= typeObject
	return true
}

func (c *compiler) readArray(s *spec, at string, m member) bool {
	switch m.name {
	case "items":
		if _, isList := elements(m.value); isList {
			c.problem(at, "an array is not supported (want one schema; prefixItems has several)")
			return true
		}
		s.items = append(s.items, part{path: at, raw: m.value})
	case "prefixItems":
		for i, p := range c.list(at, m.value) {
			if i == len(s.prefix) {
				s.prefix = append(s.prefix, nil)
			}
			s.prefix[i] = append(s.prefix[i], p)
		}
	case "minItems":
		s.minItems = max(s.minItems, c.count(at, m.value))
	case "maxItems":
		least(&s.maxItems, c.count(at, m.value))
	case "uniqueItems":
		if string(m.value) != "false" {
			return false
		}
	default:
		return false
	}
	s.has |= typeArray
	return true
}

func (c *compiler) readScalar(s *spec, at string, m member) bool {
	switch m.name {
	case "minLength":
		s.minLen = max(s.minLen, c.count(at, m.value))
	case "maxLength":
		least(&s.maxLen, c.count(at, m.value))
	case "pattern", "format":
		var text string
		if json.Unmarshal(m.value, &text) != nil {
			c.problem(at, "not a string")
			return true
		}
		if m.name == "pattern" {
			s.patterns = append(s.patterns, text)
		} else if numeric := strings.HasPrefix(text, "int") || strings.HasPrefix(text, "uint") || text == "float" || text == "double"; !numeric {
			s.formats = append(s.formats, text)
		} else {
			return true // OpenAPI's names of numbers: no limit
		}
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf":
		s.has |= typeNumber | typeInteger
		v := c.number(at, m.value)
		if v == nil {
			return true
		}
		switch m.name {
		case "minimum", "exclusiveMinimum":
			s.number.raise(v, m.name != "minimum")
		case "maximum", "exclusiveMaximum":
			s.number.lower(v, m.name != "maximum")
		default:
			if v.Sign() <= 0 {
				c.problem(at, "not above 0")
			} else if s.multiple == nil || s.multiple.Cmp(v) == 0 {
				s.multiple = v
			} else {
				c.problem(at, "two multiples at once are not supported")
			}
		}
		return true
	default:
		return false
	}
	s.has |= typeString
	return true
}

// finish decides what the parts together leave.
func (c *compiler) finish(s *spec) {
	s.said = s.types
	if !s.typed && s.has != 0 && !s.hasEnum && len(s.choices) == 0 {
		s.types = s.has
	}
	if s.hasEnum {
		s.enum = slices.DeleteFunc(slices.Clone(s.enum), func(v json.RawMessage) bool { return !c.holds(s, v) })
	}
	for n := range s.properties {
		for _, o := range s.others {
			if !o.own[n] {
				s.properties[n] = append(s.properties[n], o.part)
			}
		}
		if s.closed != nil && !s.closed[n] {
			delete(s.properties, n)
		}
	}
	s.names = slices.DeleteFunc(s.names, func(n string) bool { return s.properties[n] == nil })
}

// holds says whether a value of an enum satisfies the keywords beside it.
// Keywords of arrays and objects are not looked at: such values are rare.
func (c *compiler) holds(s *spec, raw json.RawMessage) bool {
	t := typeOf(raw)
	if t&s.types == 0 {
		return false
	}
	switch t {
	case typeString:
		var text string
		_ = json.Unmarshal(raw, &text)
		if len(s.patterns)+len(s.formats) > 0 {
			c.problem(s.path, "enum or const beside pattern or format is not supported; leave one of them out")
		}
		n := len([]rune(text))
		return n >= s.minLen && (s.maxLen < 0 || n <= s.maxLen)
	case typeInteger, typeNumber:
		v, ok := new(big.Rat).SetString(strings.TrimSpace(string(raw)))
		return ok && s.number.hold(v) && (s.multiple == nil || new(big.Rat).Quo(v, s.multiple).IsInt())
	case typeObject, typeArray:
		if s.has&t != 0 {
			c.problem(s.path, "enum or const of an array or object beside other keywords is not supported")
		}
	}
	return true
}

func (b *bounds) hold(v *big.Rat) bool {
	if b.lo != nil && (v.Cmp(b.lo) < 0 || b.loOpen && v.Cmp(b.lo) == 0) {
		return false
	}
	return b.hi == nil || v.Cmp(b.hi) < 0 || !b.hiOpen && v.Cmp(b.hi) == 0
}

// typeOf is the one type of a value: integer for a whole number.
func typeOf(raw json.RawMessage) types {
	text := strings.TrimSpace(string(raw))
	switch text[0] {
	case '{':
		return typeObject
	case '[':
		return typeArray
	case '"':
		return typeString
	case 't', 'f':
		return typeBoolean
	case 'n':
		return typeNull
	}
	if len(text) < 400 && !strings.ContainsAny(text, "eE") {
		if v, ok := new(big.Rat).SetString(text); ok && v.IsInt() {
			return typeInteger
		}
	}
	return typeNumber
}

// equal compares two JSON values.
func equal(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, _ := json.Marshal(x) // sorts keys
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// extra is whether members are written that no properties name, and what they
// have to satisfy.
func (s *spec) extra() (satisfy []part, ok bool) {
	for _, o := range s.others {
		satisfy = append(satisfy, o.part)
	}
	if len(satisfy) == 0 {
		satisfy = []part{anything}
	}
	return satisfy, s.closed == nil && (len(s.others) > 0 || len(s.names) == 0)
}

// anything is a schema that every value satisfies.
var anything = part{path: "any", raw: []byte("true")}
