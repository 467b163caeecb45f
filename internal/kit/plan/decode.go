package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"assay/internal/kit/prompt"
)

// source is where in its file each value of a plan stands.
type source struct {
	file string
	dir  string // that relative paths of the plan start from
	at   map[string]place
}

type place struct{ line, column int }

// place finds where a key's value stands, or the value that holds it.
func (s *source) place(key string) place {
	for {
		if p, ok := s.at[key]; ok || key == "" {
			return p
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
}

// reader reads the nodes of a plan and gathers what is wrong with them.
type reader struct {
	source
	problems Problems
}

func (r *reader) fail(n *yaml.Node, key, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: n.Line, Column: n.Column, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) failAt(key, format string, args ...any) {
	p := r.place(key)
	r.problems = append(r.problems, Problem{File: r.file, Line: p.line, Column: p.column, Key: key, Text: fmt.Sprintf(format, args...)})
}

// document parses YAML into its one document's root.
func (r *reader) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		r.problems = append(r.problems, Problem{File: r.file, Line: 1, Text: "the plan is empty (want at least arms)"})
		return nil
	case err != nil:
		r.problems = append(r.problems, r.syntax(err))
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			r.problems = append(r.problems, r.syntax(err))
		} else {
			r.fail(&more, "", "a second document begins here (want one plan in a file)")
		}
		return nil
	}
	return follow(doc.Content[0])
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+)(?:, column (\d+))?: `)

// syntax puts the parser's line number to where ours are.
func (r *reader) syntax(err error) Problem {
	text, p := strings.TrimPrefix(err.Error(), "yaml: "), Problem{File: r.file, Line: 1}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		text = err.Error()[len(m[0]):]
		p.Line, _ = strconv.Atoi(m[1])
		p.Column, _ = strconv.Atoi(m[2])
	}
	p.Text = "this is not YAML: " + text
	return p
}

// follow gives the node that an alias stands for. Plans have a fixed depth, so
// that aliases can't multiply.
func follow(n *yaml.Node) *yaml.Node {
	for range 10 {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "nothing"
	case n.Kind == yaml.ScalarNode:
		return fmt.Sprintf("%q", cut(n.Value))
	}
	return "an alias without an anchor"
}

// cut keeps what is quoted in a message short.
func cut(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "..."
	}
	return s
}

// handler reads the value of one key.
type handler func(n *yaml.Node, key string)

// object reads a mapping whose keys are known.
func (r *reader) object(n *yaml.Node, key string, keys map[string]handler, order []string) {
	r.at[key] = place{n.Line, n.Column}
	if n.Kind != yaml.MappingNode {
		r.fail(n, key, "%s, want a mapping with %s", kindName(n), join(order, "or"))
		return
	}
	r.pairs(n, key, func(name, value *yaml.Node, path string) {
		read, ok := keys[name.Value]
		if !ok {
			r.fail(name, path, "no such key%s", didYouMean(name.Value, order))
			return
		}
		r.at[path] = place{value.Line, value.Column}
		read(value, path)
	})
}

// pairs visits the keys of a mapping, each name once.
func (r *reader) pairs(n *yaml.Node, key string, visit func(name, value *yaml.Node, path string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := follow(n.Content[i]), follow(n.Content[i+1])
		if name.Kind != yaml.ScalarNode {
			r.fail(name, key, "%s as a key (want a word)", kindName(name))
			continue
		}
		path := name.Value
		if key != "" {
			path = key + "." + name.Value
		}
		if line, twice := seen[name.Value]; twice {
			r.fail(name, path, "it is there twice, first on line %d", line)
			continue
		}
		seen[name.Value] = name.Line
		visit(name, value, path)
	}
}

// list reads a list; a single value counts as a list of one.
func (r *reader) list(n *yaml.Node, key string, visit handler) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			path, item := fmt.Sprintf("%s[%d]", key, i), follow(item)
			r.at[path] = place{item.Line, item.Column}
			visit(item, path)
		}
	case yaml.ScalarNode:
		visit(n, key)
	default:
		r.fail(n, key, "%s, want a list", kindName(n))
	}
}

// word reads a scalar as it is written.
func (r *reader) word(n *yaml.Node, key, want string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.fail(n, key, "%s, want %s", kindName(n), want)
		return "", false
	case strings.ContainsRune(n.Value, 0):
		r.fail(n, key, "a zero byte")
		return "", false
	}
	return n.Value, true
}

// What follows reads one kind of value into a place each.

func (r *reader) text(to *string) handler {
	return func(n *yaml.Node, key string) {
		if s, ok := r.word(n, key, "text"); ok {
			if s == "" {
				r.fail(n, key, "empty, want text")
			}
			*to = s
		}
	}
}

func (r *reader) texts(to *[]string) handler {
	return func(n *yaml.Node, key string) {
		*to = []string{}
		r.list(n, key, func(n *yaml.Node, key string) {
			if s, ok := r.word(n, key, "text"); ok {
				*to = append(*to, s)
			}
		})
	}
}

func (r *reader) whole(to *int) handler {
	return func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, "a whole number")
		if !ok {
			return
		}
		v, err := strconv.Atoi(s)
		if err != nil {
			r.fail(n, key, "%q is not a whole number", cut(s))
			return
		}
		*to = v
	}
}

// given is whole for a number that may be left out.
func (r *reader) given(to **int) handler {
	return func(n *yaml.Node, key string) {
		*to = new(int)
		r.whole(*to)(n, key)
	}
}

func (r *reader) tokens(to *int) handler {
	return func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, "a token count such as 4096, 4K, 128K or 4Ki")
		if !ok {
			return
		}
		v, err := prompt.ParseCount(cut(s))
		if err != nil {
			r.fail(n, key, "%v", err)
			return
		}
		*to = v
	}
}

func (r *reader) boolean(to *bool) handler {
	return func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, "true or false")
		if !ok {
			return
		}
		switch s {
		case "true", "yes", "on":
			*to = true
		case "false", "no", "off":
			*to = false
		default:
			r.fail(n, key, "%q, want true or false", cut(s))
		}
	}
}

// parsed reads a value through one of the parsers in value.go.
func parsed[T any](r *reader, want string, parse func(string) (T, error), store func(T)) handler {
	return func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, want)
		if !ok {
			return
		}
		v, err := parse(cut(s))
		if err != nil {
			r.fail(n, key, "%v", err)
			return
		}
		store(v)
	}
}

func (r *reader) duration(to *time.Duration) handler {
	return parsed(r, "a time such as 30s", parseDuration, func(d time.Duration) { *to = d })
}

func (r *reader) number(store func(float64)) handler {
	return parsed(r, "a number", func(s string) (float64, error) {
		v, err := parseNumber(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		return v, nil
	}, store)
}

// oneOf reads one of a few words.
func oneOf[S ~string](r *reader, to *S, words ...S) handler {
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = string(w)
	}
	return func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, join(known, "or"))
		if !ok {
			return
		}
		for _, w := range words {
			if s == string(w) {
				*to = w
				return
			}
		}
		r.fail(n, key, "%q is none of %s", cut(s), join(known, "and"))
	}
}
