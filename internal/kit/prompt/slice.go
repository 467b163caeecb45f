package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"
)

// An Encoder turns plain text into token ids: the whole of it, without special
// tokens and without a BOS. It may ask a server, and so fail.
type Encoder func(text string) ([]int32, error)

// Slice is corpus text cut to a token count, known by its hash.
type Slice struct {
	Text   string
	SHA256 string // of Text, in hex
	Source string // name of the text and the byte offset where the slice begins
	Index  int
	Want   int // the tokens that were asked for
	// Tokens is Want, counted. It is 0 when no tokenizer was known; WhyInexact
	// then says so, and the text was cut by its length in bytes.
	Tokens     int
	WhyInexact string
}

// bytesPerToken is what English prose comes to in the vocabularies of today's
// models (Llama 3 and Qwen: 4.2 to 4.6). It only decides where a cut without a
// tokenizer goes, never a figure.
const bytesPerToken = 4.4

// ErrNoExactCut is returned when no cut of a text has the wanted count.
var ErrNoExactCut = errors.New("no cut of the text has exactly that many tokens")

// cut returns a prefix of the text from offset at that encodes to exactly want
// tokens, ending before a space where it can.
func (t *Text) cut(at, want int, encode Encoder) (string, error) {
	text, err := t.atLeast(at, want, encode)
	if err != nil {
		return "", err
	}
	count := func(n int) (int, error) {
		ids, err := encode(text[:n])
		return len(ids), err
	}
	// lo has fewer tokens than wanted, hi at least as many. The count goes with
	// the length closely enough for interpolation to close in within a few steps.
	lo, loCount, hi := 0, 0, len(text)
	hiCount, err := count(hi)
	if err != nil {
		return "", err
	}
	for hiCount != want && hi-lo > 16 {
		guess := lo + int(float64(hi-lo)*float64(want-loCount)/float64(hiCount-loCount))
		guess = runeEnd(text, min(max(guess, lo+(hi-lo)/8), hi-(hi-lo)/8))
		if guess <= lo || guess >= hi {
			break
		}
		c, err := count(guess)
		if err != nil {
			return "", err
		}
		if c < want {
			lo, loCount = guess, c
		} else {
			hi, hiCount = guess, c
		}
	}
	if hiCount == want {
		lo = hi
	}
	return nearby(text, lo, hi, want, count)
}

// nearby looks from lo on for a length with the wanted count. It takes the end
// of the word in which the first one lies, if that fits: a word that is cut may
// have more tokens than the whole one. Half a word is a cut of last resort.
func nearby(text string, lo, hi, want int, count func(int) (int, error)) (string, error) {
	found := -1
	end := min(hi+64, len(text))
	for n := runeEnd(text, lo); n <= end; n = runeEnd(text, n+1) {
		wordEnd := n == len(text) || isSpace(text[n])
		if n == 0 || isSpace(text[n-1]) || found >= 0 && !wordEnd {
			continue
		}
		c, err := count(n)
		switch {
		case err != nil:
			return "", err
		case c == want && wordEnd:
			return text[:n], nil
		case c == want:
			found = n
		}
		if wordEnd && found >= 0 || c > want+8 {
			break
		}
	}
	if found < 0 {
		return "", ErrNoExactCut
	}
	return text[:found], nil
}

// atLeast returns text from offset at of at least want tokens and a little
// more, so that there is room to look for a cut.
func (t *Text) atLeast(at, want int, encode Encoder) (string, error) {
	n := int(float64(want)*bytesPerToken) + 64
	for {
		text := t.from(at, n)
		ids, err := encode(text)
		switch {
		case err != nil:
			return "", err
		case len(ids) >= want+8:
			return text, nil
		case len(ids) == 0 || n > 64*want+4096:
			return "", fmt.Errorf("the tokenizer gives %d tokens for %d bytes of prose: it can't be the right one", len(ids), len(text))
		}
		n += n/2 + 64
	}
}

func newSlice(t *Text, at, index, want int, text string) Slice {
	return Slice{
		Text:   text,
		SHA256: hash(text),
		Source: fmt.Sprintf("%s@%d", t.Name, at),
		Index:  index,
		Want:   want,
	}
}

// roughCut cuts by bytes, at the end of a word, when no tokenizer is known.
func (t *Text) roughCut(at, want int) string {
	text := t.from(at, int(float64(want)*bytesPerToken))
	for i := len(text) - 1; i > len(text)/2; i-- {
		if isSpace(text[i]) {
			return text[:trimRight(text, i)]
		}
	}
	for !utf8.ValidString(text) && len(text) > 0 {
		text = text[:len(text)-1]
	}
	return text
}

func trimRight(s string, n int) int {
	for n > 0 && isSpace(s[n-1]) {
		n--
	}
	return n
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
