package reply

import "strings"

// Harmony's tags.
const (
	tagStart   = "<|start|>"
	tagChannel = "<|channel|>"
	tagMessage = "<|message|>"
	tagEnd     = "<|end|>"
)

// harmony reads a part's header, up to its message. The prompt ends with
// <|start|>assistant, so the first part's header may lack that.
func (p *Parser) harmony(end bool) bool {
	header, body, found := strings.Cut(p.in, tagMessage)
	if !found {
		if end {
			// An answer without any tag is text.
			if text := strings.TrimSpace(p.in); p.header == "" && text != "" && !strings.Contains(text, "<|") {
				p.say(p.in)
			}
			p.in = ""
		}
		return false
	}
	p.in, p.header = body, header
	p.trimmed = false
	p.state = (*Parser).harmonyBody
	if name, ok := recipient(header); ok && len(p.o.Tools) > 0 {
		p.out = append(p.out, Delta{Call: &CallDelta{Index: p.index, ID: NewCallID(), Name: name}})
	}
	return true
}

// recipient is the tool that a header is for.
func recipient(header string) (name string, ok bool) {
	_, to, ok := strings.Cut(header, "to=")
	if !ok {
		return "", false
	}
	if i := strings.IndexAny(to, "< \t\n"); i >= 0 {
		to = to[:i]
	}
	return strings.TrimPrefix(to, "functions."), to != ""
}

func (p *Parser) harmonyBody(end bool) bool {
	at, tag := len(p.in), ""
	for _, t := range []string{tagEnd, tagStart, tagChannel} {
		if i := strings.Index(p.in, t); i >= 0 && i < at {
			at, tag = i, t
		}
	}
	keep := 0
	if tag == "" && !end {
		for _, t := range []string{tagEnd, tagStart, tagChannel} {
			keep = max(keep, len(partial(p.in, t)))
		}
		at = len(p.in) - keep
	}
	p.harmonyText(p.in[:at])
	p.in = p.in[at:]
	if tag == "" {
		return false
	}
	if _, call := recipient(p.header); call && len(p.o.Tools) > 0 {
		p.index++
	}
	if tag == tagEnd {
		p.in = p.in[len(tagEnd):]
	}
	p.state = (*Parser).harmony
	return true
}

func (p *Parser) harmonyText(s string) {
	_, call := recipient(p.header)
	switch {
	case s == "":
	case call && len(p.o.Tools) > 0:
		p.arguments(s)
	case strings.Contains(p.header, tagChannel+"analysis"):
		if p.o.Reasoning {
			p.think(s)
		}
	default:
		p.say(s)
	}
}
