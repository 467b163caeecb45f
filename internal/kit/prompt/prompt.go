// Package prompt makes the prompts of a run: a nonce, so that no cache can have
// seen the beginning, and a slice of the embedded books, cut to an exact number
// of tokens.
//
// What "exact" means: the slice alone has the wanted count under the model's
// own tokenizer, and nonce and slice together have the sum of their counts, so
// the join costs or saves no token. The chat template adds its own tokens; the
// row carries the whole prompt's count beside the slice's. All nonces of one
// Maker have the same number of tokens, so that runs of a cell read the same
// number of tokens. Without a tokenizer the text is cut by its length, and the
// slice says that its count is not known, and why.
package prompt

import (
	"errors"
	"fmt"
)

// Maker cuts slices and makes prompts for one tokenizer.
type Maker struct {
	text   *Text
	encode Encoder
	// why there is no encoder, for the rows
	why string
	// tokens of a nonce with its separator; 0 until the first one is drawn
	nonceTokens int
}

// NewMaker returns a Maker over a text. With a nil encode it cuts by length, and
// why says what was missing.
func NewMaker(text *Text, encode Encoder, why string) *Maker {
	return &Maker{text: text, encode: encode, why: why}
}

// Prompt is the content of one user message.
type Prompt struct {
	Text  string // nonce, a blank line, slice
	Nonce string
	Slice Slice
	// Tokens of Text by the Maker's tokenizer, without the chat template; 0 when
	// there is none.
	Tokens      int
	NonceTokens int // of these, the nonce's with the blank line
}

// SHA256 is the hash of the message's content, in hex.
func (p Prompt) SHA256() string { return hash(p.Text) }

// startTries is how many paragraphs a slice may be moved on when one start has
// no exact cut or joins badly with the nonce.
const startTries = 16

// Slice cuts the index-th slice of want tokens. The same index and count give
// the same slice on every machine.
func (m *Maker) Slice(want, index int) (Slice, error) {
	if want < 1 || want > MaxCount {
		return Slice{}, fmt.Errorf("a slice of %d tokens can't be cut (want 1 to %d)", want, MaxCount)
	}
	if index < 0 {
		return Slice{}, fmt.Errorf("slice index %d is negative", index)
	}
	at := m.text.start(index)
	if m.encode == nil {
		s := newSlice(m.text, at, index, want, m.text.roughCut(at, want))
		s.WhyInexact = m.why
		return s, nil
	}
	for range startTries {
		text, err := m.text.cut(at, want, m.encode)
		if err == nil {
			var joins bool
			if joins, err = m.joins(text, want); err != nil {
				return Slice{}, err
			}
			if joins {
				s := newSlice(m.text, at, index, want, text)
				s.Tokens = want
				return s, nil
			}
		} else if !errors.Is(err, ErrNoExactCut) {
			return Slice{}, err
		}
		at = m.text.paragraph(at + 1)
	}
	return Slice{}, fmt.Errorf("%s: %w of %d, at %d starts from slice %d on", m.text.Name, ErrNoExactCut, want, startTries, index)
}

// joins says whether a slice keeps its count behind a nonce.
func (m *Maker) joins(text string, tokens int) (bool, error) {
	nonce, n, err := m.nonce()
	if err != nil {
		return false, err
	}
	ids, err := m.encode(nonce + separator + text)
	return len(ids) == n+tokens, err
}

// nonceTries is how many nonces are drawn for one with the right count. Where
// digits are tokenised in groups, most numbers of equal length agree.
const nonceTries = 200

// nonce draws a nonce, and its count with the separator. The first one sets the
// count that all others must have.
func (m *Maker) nonce() (nonce string, tokens int, err error) {
	for range nonceTries {
		nonce, err := newNonce()
		if err != nil {
			return "", 0, err
		}
		if m.encode == nil {
			return nonce, 0, nil
		}
		ids, err := m.encode(nonce + separator)
		if err != nil {
			return "", 0, err
		}
		if m.nonceTokens == 0 && len(ids) > 0 {
			m.nonceTokens = len(ids)
		}
		if len(ids) == m.nonceTokens && len(ids) > 0 {
			return nonce, len(ids), nil
		}
	}
	return "", 0, fmt.Errorf("the tokenizer gave no second nonce of %d tokens in %d tries", m.nonceTokens, nonceTries)
}

// Prompt puts a fresh nonce before a slice. Every call gives another prompt.
func (m *Maker) Prompt(s Slice) (Prompt, error) {
	for range nonceTries {
		nonce, n, err := m.nonce()
		if err != nil {
			return Prompt{}, err
		}
		p := Prompt{Text: nonce + separator + s.Text, Nonce: nonce, Slice: s}
		if m.encode == nil {
			return p, nil
		}
		ids, err := m.encode(p.Text)
		if err != nil {
			return Prompt{}, err
		}
		if len(ids) == n+s.Tokens {
			p.Tokens, p.NonceTokens = len(ids), n
			return p, nil
		}
	}
	return Prompt{}, fmt.Errorf("no nonce keeps its count before slice %d of %d tokens: the tokenizer joins them", s.Index, s.Want)
}
