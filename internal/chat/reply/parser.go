package reply

import (
	"crypto/rand"
	"slices"
	"strings"
)

// Delta is one piece of an answer: exactly one of its parts is set.
type Delta struct {
	Reasoning string
	Content   string
	Call      *CallDelta
}

// CallDelta is a piece of a tool call: its name, once, and then its arguments.
type CallDelta struct {
	Index     int
	ID        string // with the name only
	Name      string // with the first piece only
	Arguments string // pieces of JSON text
}

// Options say what to look for.
type Options struct {
	Thinking  Thinking // of the prompt's end
	Reasoning bool     // tell reasoning from text; else its tags stay in the text
	Tools     []Tool   // none: no calls are looked for
}

// Parser reads one answer. What it returns, joined, does not depend on how the
// answer was cut into pieces.
type Parser struct {
	f       Format
	o       Options
	in      string // what has come and was not used up yet
	state   func(*Parser, bool) bool
	out     []Delta
	index   int    // of the next call
	blank   string // white space before a call, which is none of the text
	begun   bool   // some text has gone out
	trimmed bool   // white space before the next text is dropped
	raw     strings.Builder
	json    *jsonCall
	tagged  *taggedCall
	header  string // of Harmony's part
}

// NewParser begins an answer.
func NewParser(f Format, o Options) *Parser {
	p := &Parser{f: f, o: o, state: (*Parser).start}
	if f.Style == Harmony {
		p.state = (*Parser).harmony
		if !o.Reasoning && len(o.Tools) == 0 {
			p.state = (*Parser).plain
		}
		return p
	}
	if o.Thinking == ThinkBegun && o.Reasoning {
		p.state = (*Parser).reasoning
		p.trimmed = true
	}
	return p
}

// Push adds a piece and returns what has become certain.
func (p *Parser) Push(text string) []Delta {
	p.in += text
	return p.run(false)
}

// Close ends the answer and returns the rest.
func (p *Parser) Close() []Delta { return p.run(true) }

// run calls states until one needs more text. A state returns true when it may
// be called again: it used something up, or handed over.
func (p *Parser) run(end bool) []Delta {
	p.out = nil
	for p.state(p, end) {
	}
	return p.out
}

const space = " \t\r\n"

// start decides whether the answer begins with reasoning.
func (p *Parser) start(end bool) bool {
	if p.o.Reasoning && p.f.ThinkOpen != "" && p.o.Thinking == ThinkMaybe {
		text := strings.TrimLeft(p.in, space)
		if rest, ok := strings.CutPrefix(text, p.f.ThinkOpen); ok {
			p.in, p.state, p.trimmed = rest, (*Parser).reasoning, true
			return true
		}
		if !end && strings.HasPrefix(p.f.ThinkOpen, text) {
			return false
		}
	}
	p.state = (*Parser).text
	return true
}

// reasoning goes on to its closing tag.
func (p *Parser) reasoning(end bool) bool {
	before, after, found := strings.Cut(p.in, p.f.ThinkClose)
	if found {
		p.think(strings.TrimRight(before, space))
		p.in, p.state, p.trimmed = after, (*Parser).text, true
		return true
	}
	keep := len(partial(p.in, p.f.ThinkClose))
	if end {
		keep = 0
	}
	say := strings.TrimRight(p.in[:len(p.in)-keep], space)
	p.in = p.in[len(say):]
	p.think(say)
	return false
}

func (p *Parser) think(s string) {
	if p.trimmed {
		s = strings.TrimLeft(s, space)
	}
	if s != "" {
		p.trimmed = false
		p.out = append(p.out, Delta{Reasoning: s})
	}
}

func (p *Parser) say(s string) {
	if p.trimmed {
		s = strings.TrimLeft(s, space)
	}
	if s != "" {
		p.trimmed = false
		p.begun = true
		p.out = append(p.out, Delta{Content: s})
	}
}

// triggers begin a tool call anywhere in a text.
func (p *Parser) triggers() []string {
	switch p.f.Style {
	case Hermes, GLM:
		return []string{"<tool_call>"}
	case XML:
		return []string{"<tool_call>", "<function="}
	}
	if p.f.Mark != "" {
		return []string{PythonTag, p.f.Mark}
	}
	return []string{PythonTag}
}

// plain passes everything on.
func (p *Parser) plain(bool) bool {
	p.say(p.in)
	p.in = ""
	return false
}

// text looks for tool calls.
func (p *Parser) text(end bool) bool {
	if len(p.o.Tools) == 0 {
		return p.plain(end)
	}
	if p.f.Style == Bare && !p.begun {
		text := strings.TrimLeft(p.in, space)
		if text == "" {
			if end {
				p.say(p.in)
				p.in = ""
			}
			return false
		}
		if text[0] == '{' {
			p.in = text
			p.beginJSON("")
			return true
		}
	}
	at, which := len(p.in), ""
	for _, t := range p.triggers() {
		if i := strings.Index(p.in, t); i >= 0 && i < at {
			at, which = i, t
		}
	}
	if which != "" {
		say := strings.TrimRight(p.in[:at], space)
		p.say(say)
		p.blank = p.in[len(say):at]
		p.in = p.in[at+len(which):]
		switch {
		case p.f.Style == Bare && which == p.f.Mark:
			p.state = (*Parser).marked
		case p.f.Style == Bare:
			p.state = (*Parser).python
		case p.f.Style == Hermes:
			p.beginJSON(which)
		default:
			p.tagged = newTagged(p.f.Style, which, p.o.Tools)
			p.state = (*Parser).taggedBody
		}
		return true
	}
	keep := ""
	if !end {
		for _, t := range p.triggers() {
			if s := partial(p.in, t); len(s) > len(keep) {
				keep = s
			}
		}
		rest := p.in[:len(p.in)-len(keep)]
		keep = p.in[len(strings.TrimRight(rest, space)):]
	}
	p.say(p.in[:len(p.in)-len(keep)])
	p.in = keep
	return false
}

func (p *Parser) beginJSON(opening string) {
	p.raw.Reset()
	if opening != "" {
		p.raw.WriteString(p.blank + opening)
	}
	p.json = &jsonCall{}
	p.state = (*Parser).jsonBody
}

// jsonBody reads a call that is a JSON object.
func (p *Parser) jsonBody(end bool) bool {
	j := p.json
	n := 0
	for n < len(p.in) && !j.ended && !j.bad {
		j.feed(p.in[n])
		n++
	}
	p.raw.WriteString(p.in[:n])
	p.in = p.in[n:]
	// Once it has a name it is a call, whatever follows; a bare object is one
	// only if the name is a tool's.
	isCall := j.named && (p.f.Style != Bare || slices.ContainsFunc(p.o.Tools, func(t Tool) bool { return t.Name == j.name }))
	switch {
	case isCall:
		p.tell(j)
		if j.bad || end && !j.ended { // its arguments stay as far as they came
			p.state = (*Parser).rest
			return true
		}
	case j.named || j.bad || end: // no call after all: it is shown as it came
		p.say(p.raw.String())
		p.begun, p.state = true, (*Parser).text
		return true
	}
	if !j.ended {
		return false
	}
	p.index++
	p.trimmed = true
	p.state = (*Parser).afterJSON
	return true
}

// tell sends what is new of a call.
func (p *Parser) tell(j *jsonCall) {
	if !j.announced {
		j.announced = true
		p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, ID: NewCallID(), Name: j.name}})
	}
	if s := j.news(); s != "" {
		p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, Arguments: s}})
	}
}

// afterJSON drops what stands between a call and the next one, or the text.
func (p *Parser) afterJSON(end bool) bool {
	if p.f.Style == Bare {
		text := strings.TrimLeft(p.in, space+";,")
		if text == "" {
			return false
		}
		p.in = text
		if text[0] == '{' {
			p.beginJSON("")
		} else {
			p.begun = true
			p.state = (*Parser).text
		}
		return true
	}
	_, after, found := strings.Cut(p.in, "</tool_call>")
	if found {
		p.in, p.state = after, (*Parser).text
		return true
	}
	if end {
		p.in = ""
	}
	return false
}

// rest drops what follows a call that went wrong.
func (p *Parser) rest(bool) bool {
	p.in = ""
	return false
}

// python reads what follows Llama's tag: a JSON call, or name.call(key="value").
func (p *Parser) python(end bool) bool {
	text := strings.TrimLeft(p.in, space)
	if text != "" && text[0] == '{' {
		p.in = text
		p.beginJSON(PythonTag)
		return true
	}
	if !end {
		return false
	}
	if name, arguments, ok := pythonCall(strings.TrimSpace(text)); ok {
		p.call(name, arguments)
	} else {
		p.say(p.blank + PythonTag + p.in)
	}
	p.in, p.state = "", (*Parser).rest
	return false
}

// taggedBody reads a call of tags.
func (p *Parser) taggedBody(end bool) bool {
	t := p.tagged
	if !t.run(p, end) {
		return false
	}
	if t.bad {
		p.say(p.blank + t.opening + t.seen)
		p.begun = true
	}
	p.trimmed = !t.bad
	p.state = (*Parser).text
	return true
}

// partial is the longest end of text with which mark begins, the whole mark
// excepted.
func partial(text, mark string) string {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return text[len(text)-n:]
		}
	}
	return ""
}

// NewCallID is an identifier as OpenAI's calls have.
func NewCallID() string { return "call_" + rand.Text() }
