package prompt

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// The books of models/seedling/MODEL.md that are marked as shipped. All are in
// the public domain.
//
//go:embed corpus/*.txt
var books embed.FS

// Text is a body of text that slices are cut from, read as a ring: a slice that
// reaches the end goes on at the beginning.
type Text struct {
	Name string // "books" for the embedded corpus
	body string
}

// NewText makes a Text of one's own, a prompt file for example.
func NewText(name, body string) (*Text, error) {
	body = strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))
	if body == "" {
		return nil, fmt.Errorf("%s: no text to cut a prompt from", name)
	}
	return &Text{Name: name, body: body}, nil
}

// Books is the embedded corpus: twenty novels and tales, about 6 MB of English
// prose, in the order of their file names.
var Books = sync.OnceValue(func() *Text {
	var b strings.Builder
	entries, err := fs.ReadDir(books, "corpus")
	if err != nil {
		panic("prompt: the embedded corpus is gone: " + err.Error())
	}
	for _, e := range entries {
		data, err := fs.ReadFile(books, "corpus/"+e.Name())
		if err != nil {
			panic("prompt: the embedded corpus is gone: " + err.Error())
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n")))
	}
	return &Text{Name: "books", body: b.String()}
})

// Bytes is the length of the text.
func (t *Text) Bytes() int { return len(t.body) }

// start gives the byte offset at which the slice of an index begins: the start
// of a paragraph. Offsets of successive indices are spread by the golden ratio,
// so that a few of them lie far apart and never close together.
func (t *Text) start(index int) int {
	const golden = 0.6180339887498949
	f := float64(index) * golden
	at := int((f - float64(int(f))) * float64(len(t.body)))
	return t.paragraph(at)
}

// paragraph is the offset of the first paragraph that starts at or after at,
// or 0, the first of all, where there is none.
func (t *Text) paragraph(at int) int {
	if at <= 0 || at >= len(t.body) {
		return 0
	}
	i := strings.Index(t.body[at:], "\n\n")
	if i < 0 {
		return 0
	}
	at += i
	for at < len(t.body) && isSpace(t.body[at]) {
		at++
	}
	if at == len(t.body) {
		return 0
	}
	return at
}

// from returns n bytes of the ring from offset at, more when the n-th byte lies
// within a character, fewer never: the text is repeated as often as needed.
func (t *Text) from(at, n int) string {
	if at+n <= len(t.body) {
		end := at + n
		for end < len(t.body) && t.body[end]&0xC0 == 0x80 {
			end++
		}
		return t.body[at:end]
	}
	var b strings.Builder
	b.WriteString(t.body[at:])
	for b.Len() < n {
		b.WriteString("\n\n")
		b.WriteString(t.body[:min(len(t.body), runeEnd(t.body, n-b.Len()))])
	}
	return b.String()
}

// runeEnd moves n up to the end of the character it lies in.
func runeEnd(s string, n int) int {
	n = max(n, 0)
	for n < len(s) && s[n]&0xC0 == 0x80 {
		n++
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
