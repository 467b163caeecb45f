package publish

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"assay/internal/kit/row"
)

// pattern is one of the names of fields that were asked for.
type pattern struct {
	text string
	re   *regexp.Regexp // of a general path, without its indices
	flag string         // of command_line.NAME: the flag's name without dashes
}

func newPattern(text string) (*pattern, error) {
	if strings.TrimSpace(text) == "" || strings.ContainsAny(text, " \t\"") {
		return nil, fmt.Errorf("redact: %q is no name of a field (like completion_head, command_line.port or host.*)", text)
	}
	p := &pattern{text: text}
	if flag, ok := strings.CutPrefix(text, "command_line."); ok {
		p.flag = strings.TrimLeft(flag, "-")
		return p, nil
	}
	quoted := strings.ReplaceAll(regexp.QuoteMeta(indices.ReplaceAllString(strings.ReplaceAll(text, "[]", ""), "")), `\*`, ".*")
	p.re = regexp.MustCompile("^" + quoted + "$")
	return p, nil
}

// asked is a place of a row that is to be redacted as a whole.
type asked struct {
	span
	pattern int
	value   string // what is redacted, where it is a text; empty: it is none
	with    []byte // what stands there then
}

// implied are hashes that would let a field be guessed when it is redacted.
var implied = map[string]string{"completion_head": "completion_sha256", "nonce": "prompt_sha256"}

// hasText says whether a row has a text at a path of implied: the hash of none tells
// nothing, and what evidence gives is not to be redacted.
func hasText(r *row.Row, path string) bool {
	text := r.CompletionHead
	if path == "nonce" {
		text = r.Nonce
	}
	return text != nil && *text != ""
}

// asked lists the places of a row that were asked for. Values that are null,
// empty or redacted stay.
func (d *Draft) asked(line []byte, r *row.Row) ([]asked, error) {
	if len(d.match) == 0 {
		return nil, nil
	}
	list, err := spans(line)
	if err != nil {
		return nil, err
	}
	mark := quoted(d.mark)
	var out []asked
	end := 0 // of the last place taken: what it holds is taken with it
	take := func(s span, pattern int, value string, with []byte) error {
		if !row.Redactable(s.path) {
			return fmt.Errorf("redact: %s can't be taken out: it says what the row is worth, or rows can't do without it", s.path)
		}
		out = append(out, asked{s, pattern, value, with})
		end = s.end
		return nil
	}
	for _, s := range list {
		if s.name || s.path == "" || s.start < end || string(line[s.start:s.end]) == "null" || s.isText && (s.text == "" || row.IsRedaction(s.text)) {
			continue
		}
		general := indices.ReplaceAllString(s.path, "")
		for i, p := range d.match {
			if p.flag != "" {
				value, with, ok := p.ofFlag(s, general, r, d.mark)
				if ok {
					if err := take(s, i, value, with); err != nil {
						return nil, err
					}
					break
				}
				continue
			}
			hit := p.re.MatchString(general)
			for of, hash := range implied {
				hit = hit || general == hash && p.re.MatchString(of) && hasText(r, of)
			}
			if !hit {
				continue
			}
			value := s.text
			if !s.isText || implied["completion_head"] == general || implied["nonce"] == general {
				value = ""
			}
			// A star takes what can be taken; a full name must be one that can.
			if strings.Contains(p.text, "*") && !row.Redactable(s.path) {
				continue
			}
			if err := take(s, i, value, mark); err != nil {
				return nil, err
			}
			break
		}
	}
	return out, nil
}

// ofFlag is the value of a flag of the target's command line, where the span is
// the element that holds it.
func (p *pattern) ofFlag(s span, general string, r *row.Row, mark string) (value string, with []byte, ok bool) {
	var i int
	if general != "command_line" || !s.isText || s.name {
		return "", nil, false
	}
	if _, err := fmt.Sscanf(s.path, "command_line[%d]", &i); err != nil || i < 1 || i >= len(r.CommandLine) {
		return "", nil, false
	}
	return p.argument(r.CommandLine[i-1], s.text, mark)
}

// argument is the value of the flag where an argument holds it, alone behind the
// flag or with it, and the argument without it.
func (p *pattern) argument(before, text, mark string) (value string, with []byte, ok bool) {
	if p.flag == "" {
		return "", nil, false
	}
	is := func(name string) bool {
		return strings.HasPrefix(name, "-") && strings.TrimLeft(name, "-") == p.flag
	}
	if name, v, cut := strings.Cut(text, "="); cut && is(name) {
		return v, quoted(name + "=" + mark), v != ""
	}
	return text, quoted(mark), is(before)
}

// rawValue is the value at a span as it stood, for a commitment.
func rawValue(line []byte, s span) json.RawMessage {
	return append(json.RawMessage{}, line[s.start:s.end]...)
}

// isFlagOf says whether a path is that of the flag's value in a row's line, which
// is given as a JSON string.
func (p *pattern) isFlagOf(path string, line json.RawMessage) bool {
	var text string
	var r row.Row
	if json.Unmarshal(line, &text) != nil || json.Unmarshal([]byte(text), &r) != nil {
		return false
	}
	var i int
	if _, err := fmt.Sscanf(path, "command_line[%d]", &i); err != nil || i < 0 || i >= len(r.CommandLine) {
		return false
	}
	_, _, ok := p.ofFlag(span{path: path, isText: true, text: r.CommandLine[i]}, "command_line", &r, "")
	return ok
}
