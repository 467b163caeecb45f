package tokenizer

import "unicode/utf8"

// Stream decodes tokens as they come. It is for one goroutine.
type Stream struct {
	t       *Tokenizer
	special bool
	held    []byte // the start of a UTF-8 sequence, at most three bytes
}

// Stream returns a decoder that shows control tokens only if special is set.
// What its Push calls and the final Flush return is, joined, what Decode
// returns for all the ids.
func (t *Tokenizer) Stream(special bool) *Stream { return &Stream{t: t, special: special} }

// Push returns the text that is certain after one more token. It is valid
// UTF-8; the start of a sequence that later tokens may complete is held back.
func (s *Stream) Push(id int32) string {
	piece := s.t.shown(id, s.special)
	if len(s.held) == 0 && utf8.Valid(piece) {
		return string(piece)
	}
	out, rest := appendValid(nil, append(s.held, piece...), false)
	s.held = append([]byte(nil), rest...)
	return string(out)
}

// Flush ends the text: it returns U+FFFD if a sequence was left incomplete. The
// Stream is then as new.
func (s *Stream) Flush() string {
	out, _ := appendValid(nil, s.held, true)
	s.held = nil
	return string(out)
}
