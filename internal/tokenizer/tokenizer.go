// Package tokenizer turns text into token ids and back, as a GGUF file's
// metadata or a Hugging Face tokenizer.json says.
//
// It knows two kinds: byte-level BPE (tokenizer.ggml.model "gpt2") with the
// pre-tokenisers that rule.go lists, and SentencePiece's BPE with byte fallback
// ("llama"). For these it gives the ids that llama.cpp (release v0.5.0) gives, for
// any input, with the exceptions listed here:
//
//   - Words of o200k are cut by the model's own rule: llama.cpp takes only ASCII's
//     letters for small and capital ones.
//   - The four bytes of a code point past U+10FFFF (F4 90 80 80 and up), for
//     which llama.cpp throws, become four U+FFFD, as other invalid bytes do.
//   - A file without bos_token_id or eos_token_id has no such token. llama.cpp
//     takes id 11, whatever that is.
//   - A merge that doesn't parse or whose parts are not tokens, a token that is
//     there twice and a special id outside the vocabulary are errors.
//   - The text of a normal token that is outside the byte alphabet stands for
//     itself when decoded. llama.cpp shows a placeholder.
//
// A byte that has no token, in a vocabulary without all 256, is dropped.
package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Tokenizer is one file's vocabulary. It is read-only after New, so it may be
// used from any number of goroutines; it needs the file no longer.
type Tokenizer struct {
	// The bytes of token i are pieces[offsets[i]:offsets[i+1]].
	pieces  []byte
	offsets []uint32
	attrs   []attr

	bpe         *bpe
	rule        rule
	whole       map[string]int32 // tokens by the bytes they stand for; nil where merges decide
	spm         *spm             // not nil: a SentencePiece vocabulary, and bpe and rule have no say
	rstrip      map[int32]bool   // special tokens that take the white space behind them
	special     *matcher         // every token that is matched in the text as a whole
	userDefined *matcher         // those of them that are also matched without ParseSpecial

	bos, eos       int32 // none when absent
	addBOS, addEOS bool
	eog            []int32 // ascending
}

// none is the id of a token that there isn't.
const none int32 = -1

// Options say what Encode does besides encoding plain text.
type Options struct {
	// AddSpecial puts BOS in front and EOS behind, each where the file asks for
	// it (add_bos_token, add_eos_token; both false when absent).
	AddSpecial bool
	// ParseSpecial reads the text of control tokens as these tokens. Without it
	// such text is encoded like any other, as it must be when it comes from a
	// user; user-defined tokens are found either way.
	ParseSpecial bool
}

// Encode returns the ids of text. Invalid UTF-8 is read as llama.cpp reads it:
// each byte that starts no complete sequence is U+FFFD, overlong forms and
// surrogates are taken as the code points they spell.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	ids := make([]int32, 0, len(text)/4+2)
	if o.AddSpecial && t.addBOS {
		ids = append(ids, t.bos)
	}
	m := t.userDefined
	if o.ParseSpecial {
		m = t.special
	}
	at := 0
	for _, s := range m.find(text) {
		// White space that the token before took may reach beyond this one's start
		// only when this one is itself of white space.
		ids = t.appendPlain(ids, text[min(at, s.at):s.at])
		ids = append(ids, s.id)
		at = s.end()
		for t.rstrip[s.id] && at < len(text) && isSpace(text[at]) {
			at++
		}
	}
	ids = t.appendPlain(ids, text[at:])
	if o.AddSpecial && t.addEOS {
		ids = append(ids, t.eos)
	}
	return ids
}

// isSpace says whether a byte is white space of ASCII.
func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

// appendPlain encodes a stretch of text between special tokens. Words don't
// reach across these, nor does the look-ahead for the end of a word.
func (t *Tokenizer) appendPlain(ids []int32, text string) []int32 {
	if text == "" {
		return ids
	}
	if t.spm != nil {
		return t.spm.append(ids, text)
	}
	text = normalize(text)
	m := t.bpe.merger()
	defer m.release()
	t.rule.split(text, func(word string) {
		if t.whole != nil {
			if id, ok := t.whole[word]; ok {
				ids = append(ids, id)
				return
			}
		}
		ids = m.appendWord(ids, word)
	})
	return ids
}

// Size is the number of tokens; ids run from 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.attrs) }

// Piece returns the bytes that a token stands for, which may be a part of a
// UTF-8 sequence; of control tokens, their name. It is empty for unused tokens
// and nil when id is out of range. The bytes must not be written to.
func (t *Tokenizer) Piece(id int32) []byte {
	if !t.valid(id) {
		return nil
	}
	from, to := t.offsets[id], t.offsets[id+1]
	return t.pieces[from:to:to]
}

// Decode returns the text of ids. Control and unknown tokens are left out
// unless special is set; ids out of range always. Invalid UTF-8 in the result
// is replaced by U+FFFD, one for each run of bytes that begins a sequence but
// doesn't complete it and one for each other stray byte, as browsers do.
func (t *Tokenizer) Decode(ids []int32, special bool) string {
	var b []byte
	for _, id := range ids {
		b = append(b, t.shown(id, special)...)
	}
	if utf8.Valid(b) {
		return string(b)
	}
	out, _ := appendValid(nil, b, true)
	return string(out)
}

// shown is the piece of a token as far as Decode shows it.
func (t *Tokenizer) shown(id int32, special bool) []byte {
	if !special && t.valid(id) && t.attrs[id]&(control|unknown) != 0 {
		return nil
	}
	return t.Piece(id)
}

func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.attrs) }

// IsControl says whether a token is a control token, by its type or because it
// ends generation or marks a place to fill in (<|im_start|>, <|im_end|> ...).
func (t *Tokenizer) IsControl(id int32) bool { return t.valid(id) && t.attrs[id]&control != 0 }

// IsEOG says whether a token ends generation.
func (t *Tokenizer) IsEOG(id int32) bool {
	_, ok := slices.BinarySearch(t.eog, id)
	return ok
}

// EOG returns the tokens that end generation, in ascending order.
func (t *Tokenizer) EOG() []int32 { return slices.Clone(t.eog) }

// BOS returns the token that begins a text, if the file names one. Whether
// Encode adds it is another matter.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos != none }

// EOS returns the token that ends a text, if the file names one.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos != none }
