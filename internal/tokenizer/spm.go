package tokenizer

import (
	"container/heap"
	"strings"
	"unicode/utf8"
)

// spm is the vocabulary of a SentencePiece model of the BPE kind: every token has
// a score. A text's code points start as one piece each; then, as long as two
// neighbours are a token together, those of the highest score become one, the
// left-most of equals first. What is no token in the end is spelt by its bytes.
type spm struct {
	ids    map[string]int32 // of tokens by their text, in which U+2581 is a blank
	scores []float32        // by id
	byteID [256]int32       // <0x00> to <0xFF>; none where the vocabulary lacks one
	unk    int32            // for a byte without a token; none: it is dropped
	prefix bool             // a blank is put before a text, and after a special token
}

// blank stands for a space within tokens.
const blank = "▁"

// append encodes a stretch of text that begins the text or follows a special
// token.
func (v *spm) append(ids []int32, text string) []int32 {
	text = strings.ReplaceAll(normalize(text), " ", blank)
	if v.prefix {
		text = blank + text
	}
	m := &spmMerger{spm: v, text: text}
	for at := 0; at < len(text); {
		_, size := utf8.DecodeRuneInString(text[at:])
		if text[at] >= utf8.RuneSelf && size == 1 {
			size = min(3, len(text)-at) // a surrogate, which normalize leaves
		}
		n := int32(len(m.parts))
		m.parts = append(m.parts, part{from: int32(at), to: int32(at + size), prev: n - 1, next: n + 1})
		at += size
	}
	if len(m.parts) == 0 {
		return ids
	}
	m.parts[len(m.parts)-1].next = -1
	for i := 1; i < len(m.parts); i++ {
		m.offer(int32(i-1), int32(i))
	}
	heap.Init(&m.queue)
	m.run()
	for i := int32(0); i >= 0; i = m.parts[i].next {
		p := m.parts[i]
		piece := text[p.from:p.to]
		if id, ok := v.ids[piece]; ok {
			ids = append(ids, id)
			continue
		}
		for _, b := range []byte(piece) {
			id := v.byteID[b]
			if id == none {
				id = v.unk
			}
			if id != none {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// spmMerger is the working memory of one stretch of text.
type spmMerger struct {
	*spm
	text  string
	parts []part
	queue pairs
}

// part is a piece of the text; of merged ones the left one stays, and the other
// is empty.
type part struct{ from, to, prev, next int32 }

// pair is two neighbours that are a token together, as they were when it was
// found: size tells whether they have changed since.
type pair struct {
	score       float32
	left, right int32
	size        int32
}

// offer queues two neighbours if they are a token together.
func (m *spmMerger) offer(left, right int32) {
	from, to := m.parts[left].from, m.parts[right].to
	id, ok := m.ids[m.text[from:to]]
	if !ok {
		return
	}
	m.queue = append(m.queue, pair{m.scores[id], left, right, to - from})
}

func (m *spmMerger) run() {
	for len(m.queue) > 0 {
		p := heap.Pop(&m.queue).(pair)
		left, right := &m.parts[p.left], &m.parts[p.right]
		if left.from == left.to || right.from == right.to || right.to-left.from != p.size {
			continue // one of them has been merged since
		}
		left.to, left.next = right.to, right.next
		right.from = right.to
		if left.next >= 0 {
			m.parts[left.next].prev = p.left
			m.push(p.left, left.next)
		}
		if left.prev >= 0 {
			m.push(left.prev, p.left)
		}
	}
}

func (m *spmMerger) push(left, right int32) {
	before := len(m.queue)
	m.offer(left, right)
	if len(m.queue) > before {
		p := m.queue[before]
		m.queue = m.queue[:before]
		heap.Push(&m.queue, p)
	}
}

// pairs is a heap, the highest score first, the left-most of equals.
type pairs []pair

func (q pairs) Len() int      { return len(q) }
func (q pairs) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q pairs) Less(i, j int) bool {
	return q[i].score > q[j].score || q[i].score == q[j].score && q[i].left < q[j].left
}
func (q *pairs) Push(x any) { *q = append(*q, x.(pair)) }
func (q *pairs) Pop() any {
	p := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return p
}
