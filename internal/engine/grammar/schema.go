package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Schema is the JSON values of a JSON Schema (draft 2020-12). What it lets
// through satisfies the schema; it may be less than the schema allows:
//
//   - members come in the order of properties, those that are not listed there
//     behind them, and only where additionalProperties says so;
//   - a schema without a type that has keywords of one is of that type;
//   - numbers have 15 digits at most in front of their point and behind it;
//   - white space is one blank, or a line's end and 20 blanks, where it may be.
//
// A keyword that would have to be obeyed and can't be is an error that names it
// and all others of its kind: nothing is ignored but what says nothing about
// values (title, description, default, examples ...).
func Schema(schema json.RawMessage) (*Expr, error) {
	if !json.Valid(schema) {
		return nil, fmt.Errorf("the schema is not valid JSON")
	}
	c := &compiler{root: schema, rules: map[string]*Rule{}}
	e := c.value([]part{{path: "#", raw: schema}})
	if len(c.problems) > 0 {
		return nil, &SchemaError{c.problems}
	}
	return e, nil
}

// SchemaError says all that a schema has and that is not supported, or wrong.
type SchemaError struct{ Problems []string }

func (e *SchemaError) Error() string {
	const most = 10
	list := e.Problems
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(e.Problems)-most))
	}
	return strings.Join(list, "; ")
}

// part is a schema at a place of the document. A value has to satisfy several
// at once, where allOf or $ref say so.
type part struct {
	path string
	raw  json.RawMessage
	done bool // its anyOf and oneOf are parts of their own already
}

type compiler struct {
	root     json.RawMessage
	rules    map[string]*Rule // by the paths of their parts
	problems []string
	size     int
}

// Bounds of a schema: each place may come up in many combinations.
const (
	maxRules   = 20_000
	maxNesting = 200
)

func (c *compiler) problem(path, format string, args ...any) {
	p := path + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// value is what satisfies all parts. Parts that have been met are one rule, so
// that schemas may contain themselves.
func (c *compiler) value(parts []part) *Expr {
	parts = distinct(parts)
	key := keyOf(parts)
	if r := c.rules[key]; r != nil {
		return Call(r)
	}
	if len(c.rules) >= maxRules {
		c.problem("#", "the schema has too many combinations of parts (over %d)", maxRules)
		return Alt()
	}
	r := &Rule{}
	c.rules[key] = r
	r.Body = c.build(parts, 0)
	return Call(r)
}

func distinct(parts []part) []part {
	var out []part
	for _, p := range parts {
		if !slices.ContainsFunc(out, func(o part) bool { return o.path == p.path && o.done == p.done }) {
			out = append(out, p)
		}
	}
	return out
}

func keyOf(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%t%q", p.done, p.path)
	}
	return b.String()
}

func (c *compiler) build(parts []part, depth int) *Expr {
	if depth > maxNesting {
		c.problem(parts[0].path, "anyOf, oneOf, allOf and $ref refer to one another without end")
		return Alt()
	}
	s := c.gather(parts)
	if s.never || len(c.problems) > 0 {
		return Alt()
	}
	if len(s.choices) == 0 {
		return c.emit(s)
	}
	// One choice at a time: its options take the place of the schema's word.
	rest := make([]part, len(s.parts))
	for i, p := range s.parts {
		p.done = true
		rest[i] = p
	}
	var others []part
	for _, ch := range s.choices[1:] {
		others = append(others, ch.asPart())
	}
	first := s.choices[0]
	if first.exclusive {
		c.checkExclusive(first, rest)
	}
	var options []*Expr
	for _, o := range first.options {
		options = append(options, c.build(slices.Concat(rest, others, []part{o}), depth+1))
	}
	return Alt(options...)
}

// choice is an anyOf, or a oneOf, of which a value satisfies an option.
type choice struct {
	path      string
	raw       json.RawMessage
	options   []part
	exclusive bool
}

// asPart is a schema that has only this choice.
func (ch choice) asPart() part {
	name := "anyOf"
	if ch.exclusive {
		name = "oneOf"
	}
	raw, _ := json.Marshal(map[string]json.RawMessage{name: ch.raw}) // of valid JSON
	return part{path: strings.TrimSuffix(ch.path, "/"+name), raw: raw}
}

// spec is what several parts say together.
type spec struct {
	parts   []part // all that were read, $ref and allOf followed
	path    string // of the first, for messages
	never   bool
	types   types
	typed   bool
	enum    []json.RawMessage
	hasEnum bool
	choices []choice

	names      []string // of properties, in order
	properties map[string][]part
	closed     map[string]bool // by part: names that one with additionalProperties: false allows
	others     []others // additionalProperties, where it is not false
	required   []string
	minProps   int
	maxProps   int

	prefix   [][]part
	items    []part
	minItems int
	maxItems int

	minLen   int
	maxLen   int
	patterns []string
	formats  []string

	number   bounds
	multiple *big.Rat

	has types // kinds of value that keywords speak of
}

// others is what the members not named by one part's properties have to satisfy.
type others struct {
	own map[string]bool
	part
}

// types is a set of JSON's kinds of value.
type types uint8

const (
	typeNull types = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeNumber
	typeString
	typeInteger
	allTypes = typeNull | typeBoolean | typeObject | typeArray | typeNumber | typeString | typeInteger
)

var typeNames = map[string]types{
	"null": typeNull, "boolean": typeBoolean, "object": typeObject, "array": typeArray,
	"number": typeNumber | typeInteger, "string": typeString, "integer": typeInteger,
}

// gather reads parts and all they refer to.
func (c *compiler) gather(parts []part) *spec {
	s := &spec{
		path: parts[0].path, types: allTypes, properties: map[string][]part{},
		maxProps: -1, maxItems: -1, maxLen: -1,
	}
	todo := slices.Clone(parts)
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if i := slices.IndexFunc(s.parts, func(o part) bool { return o.path == p.path && string(o.raw) == string(p.raw) }); i >= 0 {
			// An option that asks for the schema that it is an option of adds
			// no value to the others.
			s.never = s.never || s.parts[i].done && !p.done
			continue
		}
		s.parts = append(s.parts, p)
		switch string(p.raw) {
		case "true":
			continue
		case "false":
			s.never = true
			continue
		}
		list, ok := members(p.raw)
		if !ok {
			c.problem(p.path, "not a schema (want an object, true or false)")
			continue
		}
		todo = append(todo, c.read(s, p, list)...)
	}
	c.finish(s)
	return s
}

// silent keywords say nothing about values, or are read with another one.
var silent = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "example": true,
	"$schema": true, "$id": true, "$comment": true, "$anchor": true, "$defs": true, "definitions": true,
	"deprecated": true, "readOnly": true, "writeOnly": true, "contentEncoding": true, "contentMediaType": true,
}

// read adds what one part says, and returns the parts that it refers to.
func (c *compiler) read(s *spec, p part, list []member) (more []part) {
	for _, m := range list {
		at := p.path + "/" + pointerName(m.name)
		switch m.name {
		case "$ref":
			var ref string
			if json.Unmarshal(m.value, &ref) != nil {
				c.problem(at, "not a string")
				continue
			}
			target, err := c.resolve(ref)
			if err != nil {
				c.problem(at, "%v", err)
				continue
			}
			more = append(more, target)
		case "allOf":
			more = append(more, c.list(at, m.value)...)
		case "anyOf", "oneOf":
			if !p.done {
				s.choices = append(s.choices, choice{path: at, raw: m.value, options: c.list(at, m.value), exclusive: m.name == "oneOf"})
			}
		case "type":
			c.readType(s, at, m.value)
		case "enum":
			values, ok := elements(m.value)
			if !ok {
				c.problem(at, "not an array")
				continue
			}
			s.limit(values)
		case "const":
			s.limit([]json.RawMessage{m.value})
		default:
			if !c.readObject(s, at, m, list) && !c.readArray(s, at, m) && !c.readScalar(s, at, m) && !silent[m.name] {
				c.problem(p.path, "the keyword %q is not supported", m.name)
			}
		}
	}
	return more
}

// list are the schemas of allOf, anyOf, oneOf or prefixItems.
func (c *compiler) list(path string, raw json.RawMessage) (out []part) {
	values, ok := elements(raw)
	if !ok || len(values) == 0 {
		c.problem(path, "not an array of at least one schema")
	}
	for i, v := range values {
		out = append(out, part{path: path + "/" + strconv.Itoa(i), raw: v})
	}
	return out
}

func (c *compiler) readType(s *spec, path string, raw json.RawMessage) {
	names := []string{""}
	if json.Unmarshal(raw, &names[0]) != nil {
		names = nil
		if json.Unmarshal(raw, &names) != nil || len(names) == 0 {
			c.problem(path, "neither the name of a type nor an array of such")
			return
		}
	}
	var t types
	for _, n := range names {
		if typeNames[n] == 0 {
			c.problem(path, "%q is not a type", n)
			return
		}
		t |= typeNames[n]
	}
	s.types &= t
	s.typed = true
}

// limit keeps the values of an enum that are in another one, too.
func (s *spec) limit(values []json.RawMessage) {
	if !s.hasEnum {
		s.enum, s.hasEnum = values, true
		return
	}
	s.enum = slices.DeleteFunc(slices.Clone(s.enum), func(v json.RawMessage) bool {
		return !slices.ContainsFunc(values, func(o json.RawMessage) bool { return equal(v, o) })
	})
}

// resolve finds what a $ref within the document points to.
func (c *compiler) resolve(ref string) (part, error) {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return part{}, fmt.Errorf("%q is outside the schema, which is not supported (want #/$defs/...)", ref)
	}
	p := part{path: "#", raw: c.root}
	if rest == "" {
		return p, nil
	}
	if rest[0] != '/' {
		return part{}, fmt.Errorf("%q is an anchor, which is not supported (want #/$defs/...)", ref)
	}
	for _, step := range strings.Split(rest[1:], "/") {
		if u, err := url.PathUnescape(step); err == nil {
			step = u
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		p.path += "/" + pointerName(step)
		if list, ok := members(p.raw); ok {
			p.raw = find(list, step)
		} else if list, ok := elements(p.raw); ok {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(list) {
				return part{}, fmt.Errorf("%q leads nowhere: there is no %s", ref, p.path)
			}
			p.raw = list[i]
		} else {
			p.raw = nil
		}
		if p.raw == nil {
			return part{}, fmt.Errorf("%q leads nowhere: there is no %s", ref, p.path)
		}
	}
	return p, nil
}

func pointerName(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}
