package row

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"assay/internal/kit/figure"
)

// Form is which rows a schema describes.
type Form int

// The forms.
const (
	// Written is the form of every row that Append writes.
	Written Form = iota
	// Published is that of rows that travel: values may have been taken out, and
	// rows of other tools, which name no schema, may lack fields and mean others.
	Published
)

// Keywords beside those of JSON Schema.
const (
	unitKeyword       = "x-unit"       // of the number
	ruleKeyword       = "x-rule"       // where the value comes from
	redactableKeyword = "x-redactable" // publication may put a mark in its place
	withholdKeyword   = "x-withholding"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// JSONSchema is the JSON Schema of a row. What it can't say, Validate checks:
// that every null has its reason, and which fields can't exceed which.
func JSONSchema(form Form) *jsonschema.Schema {
	var s *jsonschema.Schema
	if form == Written {
		s = maker{}.row()
		s.Title = "A row of Assay"
	} else {
		s = &jsonschema.Schema{
			Title:       "A published row",
			Description: "A row of Assay from which values may have been taken out, or a row of another tool.",
			Defs: map[string]*jsonschema.Schema{
				"redacted": {Type: "string", Pattern: redactionPattern, Description: "a value that was taken out for publication, and when"},
				"ours":     maker{redacted: true}.row(),
				"others":   maker{redacted: true, lenient: true}.row(),
			},
			If:   &jsonschema.Schema{Required: []string{"schema"}},
			Then: &jsonschema.Schema{Ref: "#/$defs/ours"},
			Else: &jsonschema.Schema{Ref: "#/$defs/others"},
		}
	}
	s.Schema = dialect
	if s.Extra == nil {
		s.Extra = map[string]any{}
	}
	s.Extra[withholdKeyword] = Withholding()
	return s
}

// CheckSchema says what in an encoded row is not as the schema wants it.
func CheckSchema(form Form, line []byte) error {
	root, err := parse(line)
	if err != nil {
		return err
	}
	if err := compiled[form]().Validate(plain(root)); err != nil {
		return schemaFault(err)
	}
	return nil
}

// schemaFault shortens a complaint of the validator, which repeats the way
// through the schema at each of its steps, to the last one.
func schemaFault(err error) error {
	s := err.Error()
	if i := strings.LastIndex(s, "validating /"); i >= 0 {
		s = s[i+len("validating "):]
	}
	return errors.New(s)
}

// compiled holds the schemas, made when they are first asked for.
var compiled = map[Form]func() *jsonschema.Resolved{
	Written:   sync.OnceValue(func() *jsonschema.Resolved { return compile(Written) }),
	Published: sync.OnceValue(func() *jsonschema.Resolved { return compile(Published) }),
}

func compile(form Form) *jsonschema.Resolved {
	r, err := JSONSchema(form).Resolve(nil)
	if err != nil {
		panic(err) // the schema has no input
	}
	return r
}

// plain turns numbers as they are written into numbers: the schema's validator
// takes the former for text.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil { // beyond a float64; which number it is does not matter here
			return math.Copysign(math.MaxFloat64, f)
		}
		return f
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = plain(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	}
	return v
}

// maker makes schemas of nodes.
type maker struct {
	redacted bool // marks may stand in place of values
	lenient  bool // rows of other tools: any field may be null or absent, and texts may say anything
}

// lenientRequired is what a row of another tool can't lack.
var lenientRequired = []string{"row_id", "arm", "status"}

func (m maker) row() *jsonschema.Schema {
	s := m.bare(shape)
	if m.lenient {
		s.Required = lenientRequired
		s.Properties["row_id"].Types, s.Properties["arm"].Types, s.Properties["status"].Types = nil, nil, nil
		for _, name := range lenientRequired {
			s.Properties[name].Type = "string"
		}
		return s
	}
	field := func(name string, is *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{name: is}}
	}
	text := &jsonschema.Schema{Type: "string", MinLength: new(1)}
	null := &jsonschema.Schema{Type: "null"}
	noError := null.CloneSchemas()
	if m.redacted {
		noError = &jsonschema.Schema{} // a publisher may take it out of all rows
	}
	s.AllOf = []*jsonschema.Schema{
		{
			If:   field("status", constant(string(OK))),
			Then: &jsonschema.Schema{AllOf: []*jsonschema.Schema{field("fail_kind", null), field("error", noError)}},
			Else: &jsonschema.Schema{AllOf: []*jsonschema.Schema{field("fail_kind", text), field("error", text.CloneSchemas())}},
		},
		{
			If:   field("engine", constant(OwnEngine)),
			Else: &jsonschema.Schema{Not: &jsonschema.Schema{Required: []string{OwnEngine}}},
		},
	}
	var names []any
	for _, n := range shape.fields {
		if n.name != OwnEngine {
			names = append(names, n.name)
		}
	}
	s.Properties["engine"].Not = &jsonschema.Schema{Enum: names} // its block stands under its name
	return s
}

func constant(v any) *jsonschema.Schema { return &jsonschema.Schema{Const: &v} }

// of is the schema of a place, with the mark that may stand there.
func (m maker) of(n *node) *jsonschema.Schema {
	s := m.bare(n)
	if !m.redacted || !redactable(n) {
		return s
	}
	out := s
	if n.kind != textKind || s.Pattern != "" || s.Enum != nil {
		out = &jsonschema.Schema{
			Description: s.Description,
			Extra:       s.Extra,
			AnyOf:       []*jsonschema.Schema{s, {Ref: "#/$defs/redacted"}},
		}
		s.Description, s.Extra = "", nil
	}
	if out.Extra == nil {
		out.Extra = map[string]any{}
	}
	out.Extra[redactableKeyword] = true
	return out
}

func (m maker) bare(n *node) *jsonschema.Schema {
	s := &jsonschema.Schema{Description: n.About, Type: string(n.kind)}
	for keyword, v := range map[string]string{unitKeyword: n.Unit, ruleKeyword: n.Rule} {
		if v == "" {
			continue
		}
		if s.Extra == nil {
			s.Extra = map[string]any{}
		}
		s.Extra[keyword] = v
	}
	switch n.kind {
	case objectKind:
		s.Properties = map[string]*jsonschema.Schema{}
		for _, f := range n.fields {
			s.Properties[f.name] = m.of(f)
			s.PropertyOrder = append(s.PropertyOrder, f.name)
			if !f.optional && !m.lenient {
				s.Required = append(s.Required, f.name)
			}
		}
	case mapKind:
		s.Type = string(objectKind)
		s.AdditionalProperties = m.of(n.each)
	case listKind:
		s.Items = m.of(n.each)
	}
	if m.lenient && n.Path == "count_check.unread[]" {
		return &jsonschema.Schema{Description: s.Description, AnyOf: []*jsonschema.Schema{s, {Type: "string"}}}
	}
	if n.null || m.lenient && n != shape {
		s.Types, s.Type = []string{s.Type, "null"}, ""
	}
	if !m.lenient {
		n.limit.into(s, n)
	}
	return s
}

// into adds the limit's keywords.
func (l limit) into(s *jsonschema.Schema, n *node) {
	switch {
	case l.oneOf != nil:
		for _, v := range l.oneOf {
			s.Enum = append(s.Enum, v)
		}
		if n.null {
			s.Enum = append(s.Enum, nil)
		}
	case l.pattern != nil:
		s.Pattern = l.pattern.String()
	case l.some:
		s.MinItems = new(1)
	case l.anything:
	case l.atLeast != nil:
		s.Minimum = l.atLeast
	case n.kind == numberKind || n.kind == wholeKind:
		s.Minimum = new(0.0)
	}
}

// WithholdingRule is one check of the table of what is withheld when, with the
// figures of a row that it concerns.
type WithholdingRule struct {
	Code    string   `json:"code"`
	When    string   `json:"when"`
	Figures []string `json:"figures"` // their paths
	Groups  []string `json:"groups"`  // the groups of figures, some of which a run may not have
	Fails   bool     `json:"fails"`   // the run's status is then failed
}

// Withholding is the table of figure.Table in terms of a row.
func Withholding() []WithholdingRule {
	all := new(figure.Figures).All()
	var out []WithholdingRule
	for _, c := range figure.Table {
		rule := WithholdingRule{Code: string(c.Code), When: c.Means, Groups: texts(c.Withholds...), Fails: c.Fails, Figures: []string{}}
		for _, f := range all {
			if slices.ContainsFunc(f.Groups, func(g figure.Group) bool { return slices.Contains(c.Withholds, g) }) {
				rule.Figures = append(rule.Figures, pathOf(f.Name))
			}
		}
		out = append(out, rule)
	}
	return out
}
