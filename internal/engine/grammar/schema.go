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
	c := newCompiler(schema)
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
	done choiceKind // those of its choices that were made: an option is a part of its own
	// under are the paths of the schemas of whose options this one is a part.
	under []string
}

// choiceKind is a set of keywords.
type choiceKind uint8

const (
	anyOf choiceKind = 1 << iota
	oneOf
)

type compiler struct {
	root     json.RawMessage
	rules    map[string]*Rule    // by the paths of their parts
	read     map[string][]member // parts by their paths
	problems []string
	size     int // choices made
}

// Bounds of a schema: each place may come up in many combinations.
const (
	maxRules   = 20_000
	maxBuilds  = 3_000
	maxNesting = 200
)

func newCompiler(root json.RawMessage) *compiler {
	return &compiler{root: root, rules: map[string]*Rule{}, read: map[string][]member{}}
}

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
		fmt.Fprintf(&b, "%d%q", p.done, p.path)
	}
	return b.String()
}

func (c *compiler) build(parts []part, depth int) *Expr {
	if depth > 0 {
		c.size++
	}
	if c.size > maxBuilds {
		c.problem("#", "anyOf, oneOf and allOf make too many combinations (over %d)", maxBuilds)
		return Alt()
	}
	if depth > maxNesting {
		c.problem(parts[0].path, "anyOf, oneOf, allOf and $ref refer to one another without end")
		return Alt()
	}
	s := c.gather(parts)
	if s.never {
		return Alt()
	}
	if len(s.choices) == 0 {
		return c.emit(s)
	}
	// One choice at a time: its option goes beside all the other parts.
	first := s.choices[0]
	rest := slices.Clone(s.parts)
	rest[first.owner].done |= first.kind
	if first.kind == oneOf {
		c.checkExclusive(first, rest)
	}
	var options []*Expr
	for _, o := range first.options {
		o.under = append(slices.Clone(rest[first.owner].under), rest[first.owner].path)
		options = append(options, c.build(append(slices.Clone(rest), o), depth+1))
	}
	return Alt(options...)
}

// choice is an anyOf, or a oneOf, of which a value satisfies an option.
type choice struct {
	path    string
	owner   int // in the spec's parts
	kind    choiceKind
	options []part
}

// spec is what several parts say together.
type spec struct {
	parts   []part // all that were read, $ref and allOf followed
	path    string // of the first, for messages
	never   bool
	types   types
	said    types // before a type was taken from the keywords
	typed   bool
	enum    []json.RawMessage
	hasEnum bool
	choices []choice

	names      []string // of properties, in order
	properties map[string][]part
	closed     map[string]bool // by part: names that one with additionalProperties: false allows
	others     []others        // additionalProperties, where it is not false
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
		if slices.ContainsFunc(s.parts, func(o part) bool { return o.path == p.path }) {
			// An option that asks for the schema that it is an option of adds
			// no value to those of the others.
			s.never = s.never || slices.Contains(p.under, p.path)
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
		list, ok := c.read[p.path]
		if !ok {
			if list, ok = members(p.raw); !ok {
				c.problem(p.path, "not a schema (want an object, true or false)")
				continue
			}
			c.read[p.path] = list
		}
		for _, more := range c.readPart(s, p, list) {
			more.under = p.under
			todo = append(todo, more)
		}
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

// readPart adds what one part says, and returns the parts that it refers to.
func (c *compiler) readPart(s *spec, p part, list []member) (more []part) {
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
			kind := anyOf
			if m.name == "oneOf" {
				kind = oneOf
			}
			if p.done&kind == 0 {
				s.choices = append(s.choices, choice{path: at, owner: len(s.parts) - 1, kind: kind, options: c.list(at, m.value)})
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
