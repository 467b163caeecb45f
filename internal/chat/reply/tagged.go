package reply

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Tool is what is known of a tool: of calls whose values are plain text, it
// tells which of them are strings.
type Tool struct {
	Name    string
	Strings []string // parameters whose type is string and nothing else
}

// ReadTools reads a request's tools as far as they are understood.
func ReadTools(raw json.RawMessage) []Tool {
	var list []struct {
		Function struct {
			Name       string
			Parameters struct {
				Properties map[string]struct {
					Type any
				}
			}
		}
	}
	_ = json.Unmarshal(raw, &list) // what has another shape has no strings
	tools := make([]Tool, len(list))
	for i, t := range list {
		tools[i].Name = t.Function.Name
		for name, p := range t.Function.Parameters.Properties {
			if p.Type == "string" {
				tools[i].Strings = append(tools[i].Strings, name)
			}
		}
	}
	return tools
}

// taggedCall reads the calls of XML and GLM.
type taggedCall struct {
	style    Style
	opening  string // what began it
	seen     string // all that came since, until the name is known
	tools    []Tool
	isString []string
	named    bool
	bad      bool
	inValue  bool
	key      string
	isText   bool // the value in work goes out as it comes
	started  bool // some of it has come
	members  int
	sawInner bool
}

func newTagged(style Style, opening string, tools []Tool) *taggedCall {
	return &taggedCall{style: style, opening: opening, tools: tools, sawInner: opening == "<function="}
}

func (t *taggedCall) valueEnd() string {
	if t.style == GLM {
		return "</arg_value>"
	}
	return "</parameter>"
}

// run uses up text and says whether the call is over. At the end of the answer
// what has begun is left as it is.
func (t *taggedCall) run(p *Parser, end bool) bool {
	for {
		switch {
		case !t.named:
			if !t.name(p, end) {
				return t.bad
			}
		case t.inValue:
			if !t.value(p, end) {
				return false
			}
		default:
			done, more := t.between(p, end)
			if done {
				return true
			}
			if !more {
				return false
			}
		}
	}
}

// name reads up to the end of the tool's name.
func (t *taggedCall) name(p *Parser, end bool) bool {
	text := strings.TrimLeft(p.in, space)
	if t.style == XML && !t.sawInner {
		const tag = "<function="
		if rest, found := strings.CutPrefix(text, tag); found {
			t.sawInner = true
			t.seen = p.in[:len(p.in)-len(rest)]
			p.in = rest
			return t.name(p, end)
		}
		if !end && strings.HasPrefix(tag, text) {
			return false
		}
		return t.fail()
	}
	stops := ">"
	if t.style == GLM {
		stops = "\n<"
	} else {
		text = p.in
	}
	at := strings.IndexAny(text, stops)
	if at < 0 {
		if end || len(text) > 256 {
			return t.fail()
		}
		return false
	}
	name := strings.TrimSpace(text[:at])
	if name == "" || strings.ContainsAny(name, "{}\"'<>\n") {
		return t.fail()
	}
	if t.style == XML {
		at++
	}
	p.in = text[at:]
	t.named = true
	for _, tool := range t.tools {
		if tool.Name == name {
			t.isString = tool.Strings
		}
	}
	p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, ID: NewCallID(), Name: name}})
	p.arguments("{")
	return true
}

func (t *taggedCall) fail() bool {
	t.bad = true
	return false
}

func (p *Parser) arguments(s string) {
	if s != "" {
		p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, Arguments: s}})
	}
}

// between reads tags: of the next parameter, or of the end.
func (t *taggedCall) between(p *Parser, end bool) (done, more bool) {
	text := strings.TrimLeft(p.in, space)
	p.in = text
	finish := func(rest string) {
		p.in = rest
		p.arguments("}")
		p.index++
	}
	open, shut, last := "<parameter=", ">", "</function>"
	if t.style == GLM {
		open, shut, last = "<arg_key>", "</arg_key>", "</tool_call>"
	}
	if rest, ok := strings.CutPrefix(text, last); ok {
		if t.style == XML { // the outer tag, where there is one, belongs to the call
			const outer = "</tool_call>"
			trimmed := strings.TrimLeft(rest, space)
			if after, found := strings.CutPrefix(trimmed, outer); found {
				rest = after
			} else if !end && strings.HasPrefix(outer, trimmed) {
				return false, false
			}
		}
		finish(rest)
		return true, true
	}
	if rest, ok := strings.CutPrefix(text, open); ok {
		key, after, found := strings.Cut(rest, shut)
		if !found {
			return false, false
		}
		if t.style == GLM {
			after = strings.TrimLeft(after, space)
			value, ok := strings.CutPrefix(after, "<arg_value>")
			if !ok {
				if strings.HasPrefix("<arg_value>", after) && !end {
					return false, false
				}
				finish(after)
				return true, true
			}
			after = value
		}
		p.in = after
		t.key = key
		t.isText = slices.Contains(t.isString, key)
		t.inValue, t.started = true, false
		if t.members++; t.members > 1 {
			p.arguments(", ")
		}
		p.arguments(quote(key) + ": ")
		return false, true
	}
	if !end && (strings.HasPrefix(open, text) || strings.HasPrefix(last, text)) {
		return false, false
	}
	if end && text == "" {
		return false, false // cut off
	}
	// Something else: the call ends here.
	if i := strings.Index(text, "</tool_call>"); i >= 0 {
		finish(text[i+len("</tool_call>"):])
		return true, true
	}
	if end {
		p.in = ""
	}
	return false, false
}

// value reads a parameter's value.
func (t *taggedCall) value(p *Parser, end bool) (whole bool) {
	stop := t.valueEnd()
	lined := t.style == XML // a line's end before and behind the value is not part of it
	text, after, found := strings.Cut(p.in, stop)
	if !t.isText {
		if !found {
			return false
		}
		if lined {
			text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
		}
		p.arguments(valueOf(text, false))
		p.in, t.inValue = after, false
		return true
	}
	if !t.started {
		if lined {
			if p.in == "" {
				return false
			}
			text = strings.TrimPrefix(text, "\n")
			p.in = strings.TrimPrefix(p.in, "\n")
		}
		t.started = true
		p.arguments(`"`)
	}
	if found {
		if lined {
			text = strings.TrimSuffix(text, "\n")
		}
		p.arguments(inner(text) + `"`)
		p.in, t.inValue = after, false
		return true
	}
	keep := partial(p.in, stop)
	if lined { // and the line's end before it
		keep = p.in[len(p.in)-max(len(keep), len(partial(p.in, "\n"+stop))):]
	}
	p.arguments(inner(p.in[:len(p.in)-len(keep)]))
	p.in = keep
	return false
}

// valueOf is a value's text as JSON: itself if it is JSON, else a string.
func valueOf(text string, isString bool) string {
	trimmed := strings.TrimSpace(text)
	if !isString && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return quote(text)
}

// quote is a text as a JSON string.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always can be
	return string(bytes.TrimSpace(b.Bytes()))
}

// inner is quote without the quotes.
func inner(s string) string {
	q := quote(s)
	return q[1 : len(q)-1]
}
