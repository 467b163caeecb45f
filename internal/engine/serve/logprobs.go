package serve

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"assay/internal/engine/sample"
	"assay/internal/tokenizer"
)

// chatLogprobs is the shape of /v1/chat/completions.
type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	candidate
	Top []candidate `json:"top_logprobs"`
}

// candidate is one token and its probability. Bytes are exact where the token
// is only a part of a character.
type candidate struct {
	ID      int32   `json:"id"`
	Token   string  `json:"token"`
	Bytes   []int   `json:"bytes"`
	Logprob float64 `json:"logprob"`
}

// textLogprobs is the older shape, of /v1/completions.
type textLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"` // characters of the completion before the token
}

func newChatLogprobs(t *tokenizer.Tokenizer, tokens []placed) *chatLogprobs {
	out := &chatLogprobs{Content: make([]chatLogprob, 0, len(tokens))}
	for _, p := range tokens {
		l := chatLogprob{candidate: newCandidate(t, sample.Probability{ID: p.ID, Logprob: p.Logprob}), Top: []candidate{}}
		for _, c := range p.Top {
			l.Top = append(l.Top, newCandidate(t, c))
		}
		out.Content = append(out.Content, l)
	}
	return out
}

func newCandidate(t *tokenizer.Tokenizer, p sample.Probability) candidate {
	piece := t.Piece(p.ID)
	c := candidate{ID: p.ID, Token: string(piece), Bytes: make([]int, len(piece)), Logprob: finite(p.Logprob)}
	for i, b := range piece {
		c.Bytes[i] = int(b)
	}
	return c
}

func newTextLogprobs(t *tokenizer.Tokenizer, tokens []placed) *textLogprobs {
	out := &textLogprobs{Tokens: []string{}, TokenLogprobs: []float64{}, TopLogprobs: []map[string]float64{}, TextOffset: []int{}}
	for _, p := range tokens {
		top := make(map[string]float64, len(p.Top)+1)
		for _, c := range p.Top {
			top[pieceName(t, c.ID)] = finite(c.Logprob)
		}
		name := pieceName(t, p.ID)
		top[name] = finite(p.Logprob) // the drawn token is always among them
		out.Tokens = append(out.Tokens, name)
		out.TokenLogprobs = append(out.TokenLogprobs, finite(p.Logprob))
		out.TopLogprobs = append(out.TopLogprobs, top)
		out.TextOffset = append(out.TextOffset, p.runeAt)
	}
	return out
}

// pieceName is a token's text, or its bytes spelt out where they are no text of
// their own, since tokens are keys in this shape and must differ.
func pieceName(t *tokenizer.Tokenizer, id int32) string {
	piece := t.Piece(id)
	if utf8.Valid(piece) {
		return string(piece)
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for _, c := range piece {
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	return b.String()
}

// finite maps what JSON can't hold to OpenAI's mark of "next to impossible".
func finite(logprob float32) float64 {
	if v := float64(logprob); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v
	}
	return -9999
}
