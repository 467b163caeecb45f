package grammar

import (
	"bytes"
	"slices"

	"assay/internal/tokenizer"
)

// Vocabulary is a tokenizer's tokens as a tree of their bytes. It is read-only.
type Vocabulary struct {
	tok      *tokenizer.Tokenizer
	nodes    []treeNode // each before those below it
	same     [][]int32  // tokens with the same bytes as another
	longest  int        // bytes of a token
	bytewise bool       // each character of ASCII is a token
	eog      []int32
	marks    map[string]int32 // control tokens by name
}

// treeNode is one byte of one token or more.
type treeNode struct {
	token int32 // none: -1; below that: several, same[-2-token]
	after int32 // the next node that is not below this one
	depth uint16
	b     byte
}

// maxToken bounds the tokens that are drawn under a grammar. Longer ones are
// runs of blanks and dashes, which shorter ones can spell; and the shorter the
// longest is, the fewer places a count makes differ.
const maxToken = 64

// NewVocabulary reads a tokenizer's tokens: 151,000 take some 50 ms.
func NewVocabulary(t *tokenizer.Tokenizer) *Vocabulary {
	v := &Vocabulary{tok: t, eog: t.EOG(), marks: map[string]int32{}}
	type entry struct {
		bytes []byte
		id    int32
	}
	list := make([]entry, 0, t.Size())
	for id := range int32(t.Size()) {
		piece := t.Piece(id)
		switch {
		case len(piece) == 0 || len(piece) > maxToken || t.IsEOG(id):
		case t.IsControl(id) && len(piece) < maxToken:
			v.marks[string(piece)] = id
			list = append(list, entry{append([]byte{markByte}, piece...), id})
		case !t.IsControl(id) && bytes.IndexByte(piece, markByte) < 0:
			list = append(list, entry{piece, id})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return bytes.Compare(a.bytes, b.bytes) })

	var open []int32 // the nodes from the root down to the last one
	closeTo := func(depth int) {
		for len(open) > depth {
			v.nodes[open[len(open)-1]].after = int32(len(v.nodes))
			open = open[:len(open)-1]
		}
	}
	var before []byte
	for _, e := range list {
		shared := 0
		for shared < len(before) && shared < len(e.bytes) && before[shared] == e.bytes[shared] {
			shared++
		}
		closeTo(shared)
		for _, b := range e.bytes[shared:] {
			open = append(open, int32(len(v.nodes)))
			v.nodes = append(v.nodes, treeNode{token: -1, depth: uint16(len(open)), b: b})
		}
		v.put(&v.nodes[open[len(open)-1]], e.id)
		v.longest = max(v.longest, len(e.bytes))
		before = e.bytes
	}
	closeTo(0)
	v.bytewise = true
	for b := range byte(0x80) {
		found := false
		v.starts([]byte{b}, func(int32, int) { found = true })
		v.bytewise = v.bytewise && (found || b < ' ' && b != '\n')
	}
	return v
}

func (v *Vocabulary) put(n *treeNode, id int32) {
	switch {
	case n.token == -1:
		n.token = id
	case n.token >= 0:
		v.same = append(v.same, []int32{n.token, id})
		n.token = -1 - int32(len(v.same))
	default:
		i := -2 - n.token
		v.same[i] = append(v.same[i], id)
	}
}

// tokens are those that end at a node.
func (v *Vocabulary) tokens(n *treeNode, one *[1]int32) []int32 {
	switch {
	case n.token == -1:
		return nil
	case n.token >= 0:
		one[0] = n.token
		return one[:]
	}
	return v.same[-2-n.token]
}

// isMark says whether a control token has this name.
func (v *Vocabulary) isMark(name string) bool {
	_, ok := v.marks[name]
	return ok
}

// starts calls found for each token that text begins with, short ones first.
func (v *Vocabulary) starts(text []byte, found func(id int32, length int)) {
	end := int32(len(v.nodes))
	depth := 0
	var one [1]int32
	for at := int32(0); at < end && depth < len(text); {
		n := &v.nodes[at]
		if n.b != text[depth] {
			at = n.after
			continue
		}
		depth++
		if ids := v.tokens(n, &one); ids != nil {
			found(ids[0], depth)
		}
		end = n.after
		at++
	}
}

// bytesOf are the bytes of a token in the grammar's alphabet.
func (v *Vocabulary) bytesOf(id int32) (prefix, piece []byte) {
	piece = v.tok.Piece(id)
	if v.tok.IsControl(id) {
		return markPrefix, piece
	}
	return nil, piece
}

var markPrefix = []byte{markByte}
