package reply

import (
	"encoding/json"
	"regexp"
	"strings"
)

// jsonCall reads one object with a name and arguments, byte by byte.
type jsonCall struct {
	where     where
	depth     int // of brackets within a value
	inString  bool
	escaped   bool
	key       []byte
	value     []byte // of the member in work
	name      string
	named     bool
	arguments []byte
	sent      int
	announced bool
	ended     bool
	bad       bool
}

type where uint8

const (
	beforeObject where = iota
	beforeKey
	inKey
	beforeColon
	beforeValue
	inValue
	afterValue
)

func isBlank(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func (j *jsonCall) feed(b byte) {
	switch j.where {
	case inKey:
		j.key = append(j.key, b)
		if j.string(b) {
			j.where = beforeColon
		}
		return
	case inValue:
		j.inValue(b)
		return
	}
	if isBlank(b) {
		return
	}
	switch {
	case j.where == beforeObject && b == '{':
		j.where = beforeKey
	case j.where == beforeKey && b == '"':
		j.key, j.inString, j.where = append(j.key[:0], b), true, inKey
	case j.where == beforeKey && b == '}' || j.where == afterValue && b == '}':
		j.end()
	case j.where == beforeColon && b == ':':
		j.where, j.value = beforeValue, nil
	case j.where == beforeValue:
		j.where = inValue
		j.inValue(b)
	case j.where == afterValue && b == ',':
		j.where = beforeKey
	default:
		j.bad = true
	}
}

// string follows a string and says whether b ends it.
func (j *jsonCall) string(b byte) bool {
	switch {
	case j.escaped:
		j.escaped = false
	case b == '\\':
		j.escaped = true
	case b == '"':
		j.inString = false
		return true
	}
	return false
}

func (j *jsonCall) inValue(b byte) {
	whole := false
	switch {
	case j.inString:
		whole = j.string(b) && j.depth == 0
	case b == '"':
		j.inString = true
	case b == '{' || b == '[':
		j.depth++
	case j.depth == 0 && (b == '}' || b == ',' || isBlank(b)): // behind a number, true, null
		j.member()
		if j.where = afterValue; !isBlank(b) {
			j.feed(b)
		}
		return
	case b == '}' || b == ']':
		j.depth--
		whole = j.depth == 0
	}
	j.value = append(j.value, b)
	if j.isArguments() && j.value[0] == '{' {
		j.arguments = append(j.arguments, b)
	}
	if whole {
		j.member()
		j.where = afterValue
	}
}

func (j *jsonCall) isArguments() bool {
	k := string(j.key)
	return k == `"arguments"` || k == `"parameters"`
}

// member takes a value that is whole.
func (j *jsonCall) member() {
	var text string
	isText := json.Unmarshal(j.value, &text) == nil && j.value[0] == '"'
	switch {
	case !json.Valid(j.value):
		j.bad = true
	case j.named && !j.isArguments(): // the first name counts
	case string(j.key) == `"name"` || string(j.key) == `"function"` && isText:
		j.name, j.named = text, isText && text != ""
		j.bad = j.bad || !j.named
	case j.isArguments() && isText: // some models write JSON in a string
		if json.Valid([]byte(text)) {
			j.arguments = []byte(text)
		} else {
			j.arguments = j.value
		}
	}
}

func (j *jsonCall) end() {
	j.ended = true
	if !j.named {
		j.bad = true
	} else if len(j.arguments) == 0 {
		j.arguments = []byte("{}")
	}
}

// news is what came of the arguments since the last time.
func (j *jsonCall) news() string {
	s := string(j.arguments[j.sent:])
	j.sent = len(j.arguments)
	return s
}

var (
	pythonForm = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\.call\((.*)\)$`)
	pythonArg  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*(?:,\s*|$)`)
)

// pythonCall reads name.call(key="value", ...), as Llama calls its own tools.
func pythonCall(text string) (name, arguments string, ok bool) {
	m := pythonForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	var b strings.Builder
	b.WriteByte('{')
	for rest := m[2]; rest != ""; {
		a := pythonArg.FindStringSubmatch(rest)
		if a == nil {
			return "", "", false
		}
		if b.Len() > 1 {
			b.WriteString(", ")
		}
		b.WriteString(quote(a[1]) + ": " + valueOf(strings.TrimSpace(a[2]), false))
		rest = rest[len(a[0]):]
	}
	b.WriteByte('}')
	return m[1], b.String(), true
}
