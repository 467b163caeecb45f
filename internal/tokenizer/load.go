package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/gguf"
)

const (
	keyModel  = "tokenizer.ggml.model"
	keyPre    = "tokenizer.ggml.pre"
	keyTokens = "tokenizer.ggml.tokens"
	keyTypes  = "tokenizer.ggml.token_type"
	keyMerges = "tokenizer.ggml.merges"
	keyBOS    = "tokenizer.ggml.bos_token_id"
	keyEOS    = "tokenizer.ggml.eos_token_id"
	keyAddBOS = "tokenizer.ggml.add_bos_token"
	keyAddEOS = "tokenizer.ggml.add_eos_token"
)

// Only one kind is read so far; see the package comment.
const model = "gpt2"

// pres are the labels under which llama.cpp applies the rule of Qwen2.
var pres = []string{
	"qwen2", "deepseek-r1-qwen", "f2llmv2", "grok-2", "hunyuan", "kormo",
	"megrez", "solar-open", "stablelm2",
}

// loader reads one file. Its errors name the file, the key and the index.
type loader struct {
	name     string     // of the file
	part     string     // what the file's parts are called: "key", "field"
	tokensAt string     // the part that lists the tokens
	mergesAt string     // the part that lists the merges
	f        *gguf.File // nil: no ids for special purposes are given
	t        *Tokenizer
	tokens   []string
	ids      map[string]int32 // of tokens; an empty one has none
}

// New reads a file's vocabulary.
func New(f *gguf.File) (*Tokenizer, error) {
	l := &loader{
		name: f.Name(), part: "key", tokensAt: keyTokens, mergesAt: keyMerges,
		f: f, t: &Tokenizer{bos: none, eos: none},
	}
	for _, step := range []func() error{
		l.kind, l.readTokens, l.readTypes, l.readMerges, l.readSpecial, l.makePieces,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	l.makeMatchers()
	return l.t, nil
}

func (l *loader) errorf(key, format string, args ...any) error {
	return fmt.Errorf("%s: %s %q: %s", l.name, l.part, key, fmt.Sprintf(format, args...))
}

// kind says whether this package can read the vocabulary at all.
func (l *loader) kind() error {
	m, err := l.f.String(keyModel)
	if err != nil {
		return err
	}
	if m != model {
		return l.errorf(keyModel, "tokenizer %s is not supported; supported is %q (byte-level BPE)", quote(m), model)
	}
	pre, err := l.f.String(keyPre)
	if err != nil {
		return err
	}
	if !slices.Contains(pres, pre) {
		return l.errorf(keyPre, "pre-tokenizer %s is not supported; supported are %s", quote(pre), strings.Join(pres, ", "))
	}
	return nil
}

func (l *loader) readTokens() error {
	tokens, err := l.f.Strings(keyTokens)
	if err != nil {
		return err
	}
	return l.setTokens(tokens)
}

// setTokens takes the tokens in the order of their ids.
func (l *loader) setTokens(tokens []string) error {
	if len(tokens) == 0 || len(tokens) > math.MaxInt32 {
		return l.errorf(l.tokensAt, "%d tokens; want between 1 and %d", len(tokens), math.MaxInt32)
	}
	l.tokens = tokens
	l.ids = make(map[string]int32, len(tokens))
	for i, text := range tokens {
		if text == "" {
			continue // nothing can be encoded as it
		}
		if first, dup := l.ids[text]; dup {
			return l.errorf(l.tokensAt, "tokens %d and %d are both %s; each may occur once", first, i, quote(text))
		}
		l.ids[text] = int32(i)
	}
	return nil
}

func (l *loader) readTypes() error {
	l.t.attrs = make([]attr, len(l.tokens))
	types, err := l.f.Ints(keyTypes)
	if errors.Is(err, gguf.ErrMissing) {
		for i := range l.t.attrs {
			l.t.attrs[i] = normal
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(types) != len(l.tokens) {
		return l.errorf(keyTypes, "%d types for the %d tokens of %s; want as many", len(types), len(l.tokens), keyTokens)
	}
	for i, typ := range types {
		if typ >= 0 && typ < int64(len(attrOfType)) {
			l.t.attrs[i] = attrOfType[typ]
		}
	}
	return nil
}

// readMerges reads lines of two tokens with a blank between them, which in the
// byte alphabet is no part of a token.
func (l *loader) readMerges() error {
	lines, err := l.f.Strings(keyMerges)
	if err != nil {
		return err
	}
	return l.setMerges(len(lines), func(i int) (left, right string, err error) {
		return l.splitMerge(i, lines[i])
	})
}

// splitMerge cuts a line of two tokens.
func (l *loader) splitMerge(i int, line string) (left, right string, err error) {
	left, right, ok := strings.Cut(line, " ")
	if !ok || left == "" || right == "" {
		err = l.errorf(l.mergesAt, "merge %d is %s; want two tokens with one blank between them", i, quote(line))
	}
	return left, right, err
}

// setMerges takes n merges in the order of their ranks; at gives each one's two
// tokens.
func (l *loader) setMerges(n int, at func(i int) (left, right string, err error)) error {
	b := &bpe{merges: make(map[uint64]merge, n)}
	for c := range b.byteID {
		b.byteID[c] = none
		if id, ok := l.ids[string(byteRune[c])]; ok {
			b.byteID[c] = id
		}
	}
	var joined []byte
	for i := range n {
		left, right, err := at(i)
		if err != nil {
			return err
		}
		joined = append(append(joined[:0], left...), right...)
		var ids [3]int32
		for j, text := range []string{left, right, string(joined)} {
			id, ok := l.ids[text]
			if !ok {
				return l.errorf(l.mergesAt, "merge %d is %s, but %s is not in %s", i, quote(left+" "+right), quote(text), l.tokensAt)
			}
			ids[j] = id
		}
		key := pairKey(ids[0], ids[1])
		if _, dup := b.merges[key]; !dup { // the first rank holds
			b.merges[key] = newMerge(i, ids[2])
		}
	}
	l.t.bpe = b
	return nil
}

// readSpecial reads the ids that the file gives for special purposes, finds by
// their text those that it doesn't give, and so which tokens end generation.
func (l *loader) readSpecial() (err error) {
	t := l.t
	if t.bos, err = l.id(keyBOS); err != nil {
		return err
	}
	if t.eos, err = l.id(keyEOS); err != nil {
		return err
	}
	if t.addBOS, err = l.flag(keyAddBOS, keyBOS, t.bos); err != nil {
		return err
	}
	if t.addEOS, err = l.flag(keyAddEOS, keyEOS, t.eos); err != nil {
		return err
	}
	ends, err := l.roles()
	if err != nil {
		return err
	}
	t.eog = l.endOfGeneration(append(ends, t.eos))
	return nil
}

// id reads a token's id; none when the key is absent.
func (l *loader) id(key string) (int32, error) {
	if l.f == nil {
		return none, nil
	}
	v, err := l.f.Uint(key)
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return none, nil
	case err != nil:
		return none, err
	case v >= uint64(len(l.tokens)):
		return none, l.errorf(key, "token %d is outside the vocabulary; want 0 to %d", v, len(l.tokens)-1)
	}
	return int32(v), nil
}

// flag reads whether a token is added; false when the key is absent.
func (l *loader) flag(key, idKey string, id int32) (bool, error) {
	if l.f == nil {
		return false, nil
	}
	on, err := l.f.Bool(key)
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return false, nil
	case err != nil:
		return false, err
	case on && id == none:
		return false, l.errorf(key, "is true, but the file has no %s that says which token", idKey)
	}
	return on, nil
}

// makePieces works out what bytes each token stands for.
func (l *loader) makePieces() error {
	t := l.t
	total := 0
	for _, text := range l.tokens {
		total += len(text)
	}
	if total > math.MaxUint32 {
		return l.errorf(l.tokensAt, "the tokens take %d bytes; want at most %d", total, uint32(math.MaxUint32))
	}
	t.pieces = make([]byte, 0, total)
	t.offsets = make([]uint32, 1, len(l.tokens)+1)
	for i, text := range l.tokens {
		switch a := t.attrs[i]; {
		case a&(control|unknown|userDefined) != 0:
			t.pieces = append(t.pieces, text...)
		case a&normal != 0:
			t.pieces = appendBytes(t.pieces, text)
		case a&byteToken != 0:
			c, ok := byteName(text)
			if !ok {
				return l.errorf(l.tokensAt, "token %d is %s, but by %s it is a byte; want a name like <0x0A>", i, quote(text), keyTypes)
			}
			t.pieces = append(t.pieces, c)
		}
		t.offsets = append(t.offsets, uint32(len(t.pieces)))
	}
	return nil
}

// byteName reads the name of a byte token, as in <0x0A>.
func byteName(text string) (byte, bool) {
	hex, ok := strings.CutPrefix(text, "<0x")
	hex, end := strings.CutSuffix(hex, ">")
	c, err := strconv.ParseUint(hex, 16, 8)
	return byte(c), ok && end && err == nil
}

func (l *loader) makeMatchers() {
	var all, user []int32
	for i, a := range l.t.attrs {
		if a&(control|unknown|userDefined) == 0 || l.tokens[i] == "" {
			continue
		}
		all = append(all, int32(i))
		if a&(control|unknown) == 0 {
			user = append(user, int32(i))
		}
	}
	l.t.special = newMatcher(l.tokens, all)
	l.t.userDefined = newMatcher(l.tokens, user)
}

// quote shows text from the file in an error, not more than one can read.
func quote(s string) string { return quoteUpTo(60, s) }

func quoteUpTo(most int, s string) string {
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return strconv.Quote(s)
}
