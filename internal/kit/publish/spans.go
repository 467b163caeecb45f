package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// span is a place in a text of JSON: a value or a name, quotes included.
type span struct {
	start, end int
	path       string // "command_line[3]"; of a name, that of its value
	name       bool
	text       string // of a string, decoded
	isText     bool
}

// spans lists every value and name of a JSON document, those that hold others
// before what they hold. Values are changed in place by their spans, so that what
// is not redacted keeps its bytes.
func spans(doc []byte) ([]span, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	w := &spanner{doc: doc, dec: dec}
	if err := w.value(""); err != nil {
		return nil, err
	}
	return w.out, nil
}

type spanner struct {
	doc []byte
	dec *json.Decoder
	out []span
}

// begin is where the next token begins.
func (w *spanner) begin() int {
	at := int(w.dec.InputOffset())
	for at < len(w.doc) && bytes.IndexByte([]byte(" \t\r\n,:"), w.doc[at]) >= 0 {
		at++
	}
	return at
}

func (w *spanner) value(path string) error {
	start := w.begin()
	t, err := w.dec.Token()
	if err != nil {
		return err
	}
	index := len(w.out)
	w.out = append(w.out, span{start: start, path: path})
	switch t := t.(type) {
	case json.Delim:
		switch t {
		case '{':
			for w.dec.More() {
				at := w.begin()
				name, err := w.dec.Token()
				if err != nil {
					return err
				}
				text, _ := name.(string)
				below := text
				if path != "" {
					below = path + "." + text
				}
				w.out = append(w.out, span{at, int(w.dec.InputOffset()), below, true, text, true})
				if err := w.value(below); err != nil {
					return err
				}
			}
		case '[':
			for i := 0; w.dec.More(); i++ {
				if err := w.value(fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		}
		if _, err := w.dec.Token(); err != nil {
			return err
		}
	case string:
		w.out[index].text, w.out[index].isText = t, true
	}
	w.out[index].end = int(w.dec.InputOffset())
	return nil
}

// edit is new bytes for a span.
type edit struct {
	start, end int
	with       []byte
}

// apply makes the edits, of which none overlap.
func apply(doc []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, doc[at:e.start]...), e.with...)
		at = e.end
	}
	return append(out, doc[at:]...)
}

// quoted is a text as a JSON string.
func quoted(s string) []byte { return []byte(`"` + jsonText(s, false) + `"`) }

// replaceJSON puts the mark in place of every secret in the strings and names of
// a JSON document; what is no JSON is taken as text.
func replaceJSON(doc []byte, secrets []*secret, mark string) (out []byte, changed bool) {
	list, err := spans(doc)
	if err != nil {
		return replace(doc, secrets, mark)
	}
	var edits []edit
	for _, s := range list {
		if !s.isText {
			continue
		}
		if text, changed := replaceAt(s.path, s.text, secrets, mark); changed {
			edits = append(edits, edit{s.start, s.end, quoted(text)})
		}
	}
	if len(edits) == 0 {
		return doc, false
	}
	return apply(doc, edits), true
}
