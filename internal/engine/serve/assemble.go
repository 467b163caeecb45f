package serve

import (
	"unicode/utf8"

	"assay/internal/engine"
	"assay/internal/tokenizer"
)

// segment is what one frame carries: text that is certain to be shown, and the
// tokens that brought it.
type segment struct {
	text   string
	tokens []placed
}

// placed is a token and where its text begins in the whole completion.
type placed struct {
	engine.Token
	byteAt int
	runeAt int
}

// assembler turns tokens into segments. Bytes of a character that is not
// complete, and text that may be part of a stop string, wait for later tokens;
// a token goes out with the segment that shows the first of its text.
type assembler struct {
	tok      *tokenizer.Tokenizer
	stream   *tokenizer.Stream
	stop     stopper
	marks    map[int32]bool // control tokens that are shown all the same
	waiting  []placed
	bytes    int // of text that came from tokens
	runes    int
	released int // bytes of text that went out
}

func newAssembler(t *tokenizer.Tokenizer, stops []string, marks []string) *assembler {
	a := &assembler{tok: t, stream: t.Stream(false), stop: stopper{stops: stops}}
	for _, m := range marks {
		if id := t.Encode(m, tokenizer.Options{ParseSpecial: true}); len(id) == 1 && t.IsControl(id[0]) && !t.IsEOG(id[0]) {
			if a.marks == nil {
				a.marks = map[int32]bool{}
			}
			a.marks[id[0]] = true
		}
	}
	return a
}

// push adds one token. An end token has no text: it waits for rest.
func (a *assembler) push(t engine.Token) (s segment, stopped bool) {
	a.waiting = append(a.waiting, placed{t, a.bytes, a.runes})
	if t.End {
		return segment{}, false
	}
	if a.marks[t.ID] {
		return a.add(a.stream.Flush() + string(a.tok.Piece(t.ID)))
	}
	return a.add(a.stream.Push(t.ID))
}

// flush ends the text: what was held back is shown after all.
func (a *assembler) flush() segment {
	s, stopped := a.add(a.stream.Flush())
	if !stopped {
		held := a.release(a.stop.flush())
		s.text += held.text
		s.tokens = append(s.tokens, held.tokens...)
	}
	return s
}

// rest returns the tokens that showed no text: those of a stop string, and the
// end token.
func (a *assembler) rest() []placed {
	rest := a.waiting
	a.waiting = nil
	return rest
}

func (a *assembler) add(text string) (segment, bool) {
	a.bytes += len(text)
	a.runes += utf8.RuneCountInString(text)
	out, stopped := a.stop.push(text)
	return a.release(out), stopped
}

func (a *assembler) release(text string) segment {
	a.released += len(text)
	n := 0
	for n < len(a.waiting) && a.waiting[n].byteAt < a.released {
		n++
	}
	s := segment{text, a.waiting[:n:n]}
	a.waiting = a.waiting[n:]
	return s
}
