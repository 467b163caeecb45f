package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"assay/internal/chat/reply"
	"assay/internal/engine"
	"assay/internal/engine/grammar"
)

// form is what an answer has to look like. The zero form is free text.
type form struct {
	schema   json.RawMessage // of the text; nil: none
	field    string          // that it came from
	tools    []tool          // that may be called
	rawTools json.RawMessage
	must     bool   // a tool has to be called
	only     string // this one; "": any
	parallel bool   // more than one call
}

// tool is one of a request's tools.
type tool struct {
	name       string
	parameters json.RawMessage
	strict     bool // its schema has to be obeyed
}

// readForm reads response_format and json_schema.
func readForm(f *fields) form {
	var out form
	set := func(field string, schema json.RawMessage) {
		if out.schema != nil {
			f.fail(field, "can't be used beside %s", out.field)
		}
		out.schema, out.field = schema, field
	}
	if raw := f.get("response_format"); raw != nil && !isEmpty(raw) {
		var sub fields
		if kind(raw) != "an object" || json.Unmarshal(raw, &sub.raw) != nil {
			f.fail("response_format", "%s is not an object", kind(raw))
			return out
		}
		switch t := sub.string("type", ""); t {
		case "text":
		case "json_object":
			schema := sub.get("schema") // llama-server's
			if schema == nil {
				schema = json.RawMessage(`{"type":"object"}`)
			}
			set("response_format", schema)
		case "json_schema":
			var inner fields
			if raw := sub.get("json_schema"); kind(raw) == "an object" {
				_ = json.Unmarshal(raw, &inner.raw) // it is part of a document that has been parsed
			}
			schema := inner.get("schema")
			if schema == nil {
				schema = sub.get("schema")
			}
			if schema == nil {
				f.fail("response_format", "json_schema.schema is missing")
				return out
			}
			set("response_format", schema)
		default:
			f.fail("response_format", "the type %q is not known (want text, json_object or json_schema)", t)
		}
	}
	if raw := f.get("json_schema"); raw != nil && !isEmpty(raw) {
		set("json_schema", raw)
	}
	return out
}

// readTools reads tools, tool_choice and parallel_tool_calls.
func (o *form) readTools(f *fields) {
	raw := f.get("tools")
	var list []json.RawMessage
	switch {
	case raw == nil:
	case kind(raw) != "an array" || json.Unmarshal(raw, &list) != nil:
		f.fail("tools", "%s is not an array", kind(raw))
		return
	}
	var tools []tool
	for i, t := range list {
		if kind(t) != "an object" {
			f.fail("tools", "element %d is %s, not an object", i, kind(t))
			return
		}
		var v struct {
			Type     string
			Function struct {
				Name       string
				Parameters json.RawMessage
				Strict     bool
			}
		}
		if err := json.Unmarshal(t, &v); err != nil || v.Type != "" && v.Type != "function" {
			f.fail("tools", `element %d is not of the form {"type":"function","function":{"name":...,"parameters":{...}}}`, i)
			return
		}
		name := v.Function.Name
		if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }) {
			f.fail("tools", "element %d: function.name: %q is not a name of letters, digits, _, - and . (at most 128)", i, name)
			return
		}
		if slices.ContainsFunc(tools, func(o tool) bool { return o.name == name }) {
			f.fail("tools", "element %d: there are two tools with the name %q", i, name)
			return
		}
		parameters := v.Function.Parameters
		if k := kind(parameters); k == "nothing" || k == "null" {
			parameters = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}
		tools = append(tools, tool{name, parameters, v.Function.Strict})
	}
	o.parallel = f.bool("parallel_tool_calls", true)
	o.choose(f, tools, raw)
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r)
}

// choose reads tool_choice.
func (o *form) choose(f *fields, tools []tool, raw json.RawMessage) {
	choice := f.get("tool_choice")
	word, isWord := asString(choice)
	switch {
	case choice == nil, isWord && word == "auto":
	case isWord && word == "none":
		return
	case isWord && word == "required":
		o.must = true
	case kind(choice) == "an object":
		var v struct {
			Type     string
			Name     string
			Function struct{ Name string }
		}
		_ = json.Unmarshal(choice, &v) // what is of another type stays empty
		o.only = v.Function.Name
		if o.only == "" {
			o.only = v.Name
		}
		if v.Type != "function" || !slices.ContainsFunc(tools, func(t tool) bool { return t.name == o.only }) {
			f.fail("tool_choice", `%s names none of the tools (want {"type":"function","function":{"name":...}})`, brief(choice))
			return
		}
		o.must = true
	default:
		f.fail("tool_choice", `%s is not known (want "none", "auto", "required" or {"type":"function",...})`, brief(choice))
		return
	}
	if len(tools) == 0 {
		if o.must {
			f.fail("tool_choice", "asks for a call, but there are no tools")
		}
		return
	}
	o.tools, o.rawTools = tools, raw
}

// key tells forms apart that have different grammars.
func (o *form) key(style reply.Format, after reply.Thinking) string {
	return fmt.Sprintf("%v %d %t %q %t\n%s\n%s", style, after, o.must, o.only, o.parallel, o.schema, o.rawTools)
}

// grammars are those that were compiled lately.
type grammars struct {
	once  sync.Once
	vocab *grammar.Vocabulary

	mu   sync.Mutex
	list []cachedGrammar // the last one used last
}

type cachedGrammar struct {
	key string
	g   *grammar.Grammar // nil: none is needed
}

// maxGrammars bounds what is kept: a grammar grows as it is used, to some ten
// megabytes at most.
const maxGrammars = 16

// constrain gives a job the grammar of its form, if it has one.
func (s *Server) constrain(e *engine.Engine, j *job, format reply.Format, after reply.Thinking) *apiError {
	o := &j.form
	if o.schema == nil && len(o.tools) == 0 {
		return nil
	}
	key := o.key(format, after)
	g, known := s.grammars.get(key)
	if !known {
		expr, bad := formExpr(o, format, after)
		if bad != nil {
			return bad
		}
		if expr != nil {
			var err error
			if g, err = grammar.Compile(expr, s.grammars.vocabulary(e)); err != nil {
				field := "tools"
				if o.schema != nil {
					field = o.field
				}
				return badField(field, "%v", err)
			}
		}
		s.grammars.put(key, g)
	}
	if g != nil {
		j.Constraint = g.Matcher()
	}
	return nil
}

// vocabulary is the model's, read when a grammar is first asked for.
func (c *grammars) vocabulary(e *engine.Engine) *grammar.Vocabulary {
	c.once.Do(func() { c.vocab = grammar.NewVocabulary(e.Tokenizer()) })
	return c.vocab
}

// get returns a grammar that was compiled before, and marks it as used.
func (c *grammars) get(key string) (*grammar.Grammar, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(g cachedGrammar) bool { return g.key == key })
	if i < 0 {
		return nil, false
	}
	used := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), used)
	return used.g, true
}

func (c *grammars) put(key string, g *grammar.Grammar) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) >= maxGrammars {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, cachedGrammar{key, g})
}

// formExpr is the grammar of a form, nil where none is needed.
func formExpr(o *form, format reply.Format, after reply.Thinking) (*grammar.Expr, *apiError) {
	var text, calls *grammar.Expr
	if o.schema != nil {
		var err error
		if text, err = grammar.Schema(o.schema); err != nil {
			return nil, badField(o.field, "%v", err)
		}
	}
	if len(o.tools) > 0 {
		w := callWriter{style: format.Style}
		var options []*grammar.Expr
		for _, t := range o.tools {
			if o.only != "" && t.name != o.only {
				continue
			}
			call, err := w.call(t)
			if err != nil && t.strict {
				return nil, badField("tools", "%s: parameters: %v", t.name, err)
			}
			if err != nil { // not asked to be strict: any object
				t.parameters = json.RawMessage(`{"type":"object"}`)
				if call, err = w.call(t); err != nil {
					return nil, badField("tools", "%s: parameters: %v", t.name, err)
				}
			}
			options = append(options, call)
		}
		calls = grammar.Alt(options...)
	}
	many := o.parallel && o.only == ""
	return answerExpr(format, after, o.must, many, text, calls), nil
}
