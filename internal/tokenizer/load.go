package tokenizer

import (
	"errors"
	"fmt"
	"math"
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
	keyScores = "tokenizer.ggml.scores"
	keyUNK    = "tokenizer.ggml.unknown_token_id"
	keyPrefix = "tokenizer.ggml.add_space_prefix"
	keyName   = "general.name"
)

// The kinds that are read; see the package comment.
const (
	modelBPE = "gpt2"
	modelSPM = "llama"
)

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
	spm      bool             // a SentencePiece vocabulary
}

// New reads a file's vocabulary.
func New(f *gguf.File) (*Tokenizer, error) {
	l := &loader{
		name: f.Name(), part: "key", tokensAt: keyTokens, mergesAt: keyMerges,
		f: f, t: &Tokenizer{bos: none, eos: none},
	}
	if err := l.kind(); err != nil {
		return nil, err
	}
	merges := l.readMerges
	if l.spm {
		merges = l.readScores
	}
	for _, step := range []func() error{
		l.readTokens, l.readTypes, merges, l.readSpecial, l.makePieces,
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
	switch m {
	case modelBPE:
	case modelSPM: // it cuts no words, so the pre-tokeniser has no say
		l.spm = true
		return nil
	default:
		return l.errorf(keyModel, "tokenizer %s is not supported; supported are %q (byte-level BPE) and %q (SentencePiece)", quote(m), modelBPE, modelSPM)
	}
	pre, err := l.f.String(keyPre)
	if err != nil {
		return err
	}
	r, ok := rules[pre]
	if !ok {
		return l.errorf(keyPre, "pre-tokenizer %s is not supported; supported are %s", quote(pre), labels())
	}
	l.t.rule = r
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

// readScores reads a SentencePiece vocabulary's scores and finds its bytes.
func (l *loader) readScores() error {
	scores, err := l.f.Floats(keyScores)
	if err != nil {
		return err
	}
	if len(scores) != len(l.tokens) {
		return l.errorf(keyScores, "%d scores for the %d tokens of %s; want as many", len(scores), len(l.tokens), keyTokens)
	}
	v := &spm{ids: l.ids, scores: make([]float32, len(scores)), unk: none, prefix: true}
	for i, s := range scores {
		if math.IsNaN(s) {
			return l.errorf(keyScores, "score %d is no number", i)
		}
		v.scores[i] = float32(s)
	}
	for c := range v.byteID {
		v.byteID[c] = none
		if id, ok := l.ids[fmt.Sprintf("<0x%02X>", c)]; ok {
			v.byteID[c] = id
		}
	}
	if v.unk, err = l.id(keyUNK); err != nil {
		return err
	}
	if on, err := l.f.Bool(keyPrefix); err == nil {
		v.prefix = on
	} else if !errors.Is(err, gguf.ErrMissing) {
		return err
	}
	l.t.spm = v
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
	if l.spm {
		l.spmDefaults()
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

// spmDefaults are what SentencePiece gives every vocabulary: 1 begins a text, 2
// ends it.
func (l *loader) spmDefaults() {
	t := l.t
	for _, d := range []struct {
		to *int32
		id int32
	}{{&t.bos, 1}, {&t.eos, 2}} {
		if *d.to == none && int(d.id) < len(l.tokens) {
			*d.to = d.id
		}
	}
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

// flag reads whether a token is added. When the key is absent it is not, but for
// what begins a text of SentencePiece.
func (l *loader) flag(key, idKey string, id int32) (bool, error) {
	if l.f == nil {
		return false, nil
	}
	on, err := l.f.Bool(key)
	switch {
	case errors.Is(err, gguf.ErrMissing):
		return l.spm && key == keyAddBOS && id != none, nil
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
		case a&normal != 0 && l.spm:
			t.pieces = append(t.pieces, strings.ReplaceAll(text, blank, " ")...)
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
	if t.rule.wholeWords {
		t.whole = make(map[string]int32, len(l.tokens))
		for i, a := range t.attrs {
			if a&normal != 0 {
				t.whole[string(t.Piece(int32(i)))] = int32(i)
			}
		}
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
	l.t.rstrip = l.stripping(all)
	l.t.special = newMatcher(l.tokens, all)
	l.t.userDefined = newMatcher(l.tokens, user)
}

// stripping says which special tokens take the white space behind them. Files do
// not tell; Phi-3's are known by the model's name.
func (l *loader) stripping(special []int32) map[int32]bool {
	if l.f == nil {
		return nil
	}
	name, err := l.f.String(keyName)
	if name = strings.ToLower(name); err != nil || !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return nil
	}
	out := map[int32]bool{}
	for _, id := range special {
		switch l.tokens[id] {
		case "<unk>", "<s>", "<|endoftext|>":
		default:
			out[id] = true
		}
	}
	return out
}

// quote shows text from the file in an error, not more than one can read.
func quote(s string) string { return quoteUpTo(60, s) }

func quoteUpTo(most int, s string) string {
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return strconv.Quote(s)
}
