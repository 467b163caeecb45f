package reply

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// family is a way to write calls behind a mark, which they keep to the answer's end.
type family struct {
	mark  string   // that begins them
	end   string   // that ends them; "": the answer's end
	inner []string // further marks among them
	read  func(text string) ([]oneCall, bool)
}

// oneCall is a call that is whole.
type oneCall struct{ name, arguments string }

// families are those that are known, of which a template has one.
var families = []family{
	{"[TOOL_CALLS]", "", []string{"[CALL_ID]", "[ARGS]"}, mistralCalls},
	{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", []string{"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"}, deepSeekCalls},
	{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", []string{"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"}, kimiCalls},
	{"<|tool_call_start|>", "<|tool_call_end|>", nil, pythonCalls},
	{"<function_calls>", "</function_calls>", nil, pythonCalls},
}

// familyOf finds the family of a mark.
func familyOf(mark string) *family {
	if i := slices.IndexFunc(families, func(f family) bool { return f.mark == mark }); i >= 0 {
		return &families[i]
	}
	return nil
}

// marked reads the calls behind a mark once the answer is over: what they are is
// certain only then.
func (p *Parser) marked(end bool) bool {
	if !end {
		return false
	}
	f, text := familyOf(p.f.Mark), p.in
	if f.end != "" {
		text, _, _ = strings.Cut(text, f.end)
	}
	if calls, ok := f.read(text); ok {
		for _, c := range calls {
			p.call(c.name, c.arguments)
		}
	} else {
		p.say(p.blank + p.f.Mark + p.in)
	}
	p.in, p.state = "", (*Parser).rest
	return false
}

// call sends a call that is whole.
func (p *Parser) call(name, arguments string) {
	p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, ID: NewCallID(), Name: name}})
	p.arguments(arguments)
	p.index++
}

var (
	mistralHead  = regexp.MustCompile(`^\s*(?:\[TOOL_CALLS\])?\s*([A-Za-z0-9_.-]+)(?:\[CALL_ID\][A-Za-z0-9]*)?\[ARGS\]`)
	deepSeekHead = regexp.MustCompile("^\\s*<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>\\s*([A-Za-z0-9_.-]+)\\s*```json|\\s*([A-Za-z0-9_.-]+)\\s*<｜tool▁sep｜>)")
	deepSeekTail = regexp.MustCompile("^\\s*(?:```)?\\s*<｜tool▁call▁end｜>")
	kimiHead     = regexp.MustCompile(`^\s*<\|tool_call_begin\|>\s*(?:functions\.)?([A-Za-z0-9_.-]+)(?::[0-9]+)?\s*<\|tool_call_argument_begin\|>`)
	kimiTail     = regexp.MustCompile(`^\s*<\|tool_call_end\|>`)
	empty        = regexp.MustCompile(`^`)
)

// mistralCalls are NAME[ARGS]{...} each, of later models, or one list of objects.
func mistralCalls(text string) ([]oneCall, bool) {
	if strings.HasPrefix(strings.TrimLeft(text, space), "[{") {
		var list []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.NewDecoder(strings.NewReader(text)).Decode(&list) != nil {
			return nil, false
		}
		var out []oneCall
		for _, c := range list {
			if c.Name == "" {
				return nil, false
			}
			if c.Arguments == nil {
				c.Arguments = json.RawMessage("{}")
			}
			out = append(out, oneCall{c.Name, string(c.Arguments)})
		}
		return out, len(out) > 0
	}
	return headed(text, mistralHead, empty)
}

// deepSeekCalls are a name and an object each; before V3.1 the object stands in a
// fence, behind the word function.
func deepSeekCalls(text string) ([]oneCall, bool) { return headed(text, deepSeekHead, deepSeekTail) }

// kimiCalls are functions.NAME:NUMBER and an object each.
func kimiCalls(text string) ([]oneCall, bool) { return headed(text, kimiHead, kimiTail) }

// headed reads calls of a head with the name, an object, and a tail. What follows the
// last one is dropped.
func headed(text string, head, tail *regexp.Regexp) ([]oneCall, bool) {
	var out []oneCall
	for {
		m := head.FindStringSubmatch(text)
		if m == nil {
			return out, len(out) > 0
		}
		text = text[len(m[0]):]
		dec := json.NewDecoder(strings.NewReader(text))
		var arguments json.RawMessage
		if dec.Decode(&arguments) != nil || arguments[0] != '{' {
			return out, len(out) > 0
		}
		text = text[dec.InputOffset():]
		out = append(out, oneCall{strings.Join(m[1:], ""), string(arguments)})
		text = text[len(tail.FindString(text)):]
	}
}

var pythonHead = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*)\(`)

// pythonCalls are name(key=value, ...) each, in a list or on lines of their own.
func pythonCalls(text string) ([]oneCall, bool) {
	text = strings.NewReplacer("```python", "", "```", "").Replace(text)
	var out []oneCall
	for {
		text = strings.TrimLeft(text, space+"[],;")
		m := pythonHead.FindStringSubmatch(text)
		if m == nil {
			return out, len(out) > 0 && text == ""
		}
		arguments, rest, ok := pythonArguments(text[len(m[0]):])
		if !ok {
			return nil, false
		}
		out = append(out, oneCall{m[1], arguments})
		text = rest
	}
}

var pythonKey = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*`)

// pythonArguments reads up to the closing bracket.
func pythonArguments(text string) (arguments, rest string, ok bool) {
	var b strings.Builder
	b.WriteByte('{')
	for {
		text = strings.TrimLeft(text, space+",")
		if rest, over := strings.CutPrefix(text, ")"); over {
			b.WriteByte('}')
			return b.String(), rest, true
		}
		m := pythonKey.FindStringSubmatch(text)
		if m == nil {
			return "", "", false
		}
		n := valueLength(text[len(m[0]):])
		if n < 0 {
			return "", "", false
		}
		if b.Len() > 1 {
			b.WriteString(", ")
		}
		b.WriteString(quote(m[1]) + ": " + pythonValue(text[len(m[0]):len(m[0])+n]))
		text = text[len(m[0])+n:]
	}
}

// valueLength is up to the comma or bracket that ends a value; -1: there is none.
func valueLength(text string) int {
	depth, in := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case in != 0:
			if c == '\\' {
				i++
			} else if c == in {
				in = 0
			}
		case c == '"' || c == '\'':
			in = c
		case c == '[' || c == '{' || c == '(':
			depth++
		case depth == 0 && (c == ',' || c == ')'):
			return i
		case c == ']' || c == '}' || c == ')':
			depth--
		}
	}
	return -1
}

// pythonValue is a value of Python's as JSON; a string where it is nothing else.
func pythonValue(text string) string {
	text = strings.TrimSpace(text)
	switch text {
	case "True", "False":
		return strings.ToLower(text)
	case "None":
		return "null"
	}
	if json.Valid([]byte(text)) {
		return text
	}
	if n := len(text); n > 1 && text[0] == '\'' && text[n-1] == '\'' {
		inner := strings.ReplaceAll(strings.ReplaceAll(text[1:n-1], `\'`, `'`), `"`, `\"`)
		if s := `"` + inner + `"`; json.Valid([]byte(s)) {
			return s
		}
		return quote(text[1 : n-1])
	}
	if s := strings.ReplaceAll(text, `'`, `"`); json.Valid([]byte(s)) { // a list or dict
		return s
	}
	return quote(text)
}
