package prompt

import (
	"errors"
	"fmt"
	"strings"
)

// Message is one message of a chat, as requests and templates hold it.
type Message struct {
	Content string `json:"content"`
	Role    string `json:"role"` // user or assistant
}

// Whole is a text that is not cut: all of it is the slice. Its count is what it
// adds behind a nonce, which may be a token less than it has alone.
func (m *Maker) Whole(name, text string) (Slice, error) {
	if strings.TrimSpace(text) == "" {
		return Slice{}, errors.New("no text in it")
	}
	s := Slice{Text: text, SHA256: hash(text), Source: name}
	if m.encode == nil {
		s.WhyInexact = m.why
		return s, nil
	}
	nonce, n, err := m.nonce()
	if err != nil {
		return Slice{}, err
	}
	ids, err := m.encode(nonce + separator + text)
	if err != nil {
		return Slice{}, err
	}
	if len(ids) <= n {
		return Slice{}, fmt.Errorf("the tokenizer gives %d tokens for nonce and text, and %d for the nonce alone", len(ids), n)
	}
	s.Tokens, s.Want = len(ids)-n, len(ids)-n
	return s, nil
}
