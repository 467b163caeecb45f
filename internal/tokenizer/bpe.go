package tokenizer

import "sync"

// bpe holds the merges. A word's bytes start as one token each; then, as long
// as there is one, the neighbouring pair of the lowest rank becomes one token,
// the left-most of equals first.
type bpe struct {
	byteID [256]int32 // none where the vocabulary has no token for a byte
	merges map[uint64]merge
	pool   sync.Pool // of *merger
}

// merge is a rank (its place in the file) in the high half and the id of the
// resulting token in the low half, so that merges compare by rank.
type merge uint64

const noMerge = ^merge(0)

func newMerge(rank int, id int32) merge { return merge(rank)<<32 | merge(uint32(id)) }

func (m merge) rank() uint64 { return uint64(m) >> 32 }
func (m merge) id() int32    { return int32(uint32(m)) }

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func (b *bpe) merge(left, right int32) merge {
	if m, ok := b.merges[pairKey(left, right)]; ok {
		return m
	}
	return noMerge
}

func (b *bpe) merger() *merger {
	if m, ok := b.pool.Get().(*merger); ok {
		return m
	}
	return &merger{bpe: b}
}

// merger is the working memory of one Encode.
type merger struct {
	bpe *bpe
	// One symbol a byte of the word; of a merged pair the left one stays.
	ids   []int32
	pairs []merge // of a symbol with the next one; noMerge for a symbol that is gone
	next  []int32 // the end is len(ids)
	prev  []int32 // before the first is -1
	queue queue
}

// release gives the memory back, unless a huge word has made it large.
func (m *merger) release() {
	if cap(m.ids) <= 1<<16 {
		m.bpe.pool.Put(m)
	}
}

// shortWord is up to how many bytes the lowest pair is simply looked for: it
// beats a queue there, and nearly all words are shorter.
const shortWord = 32

func (m *merger) appendWord(ids []int32, word string) []int32 {
	if len(word) == 1 {
		if id := m.bpe.byteID[word[0]]; id != none {
			ids = append(ids, id)
		}
		return ids
	}
	m.start(word)
	if len(word) <= shortWord {
		m.mergeShort()
	} else {
		m.mergeLong()
	}
	for _, id := range m.ids {
		if id != none {
			ids = append(ids, id)
		}
	}
	return ids
}

// start makes the word's bytes symbols.
func (m *merger) start(word string) {
	m.ids, m.pairs = m.ids[:0], m.pairs[:0]
	left := m.bpe.byteID[word[0]]
	for i := 1; i < len(word); i++ {
		right := m.bpe.byteID[word[i]]
		m.ids = append(m.ids, left)
		m.pairs = append(m.pairs, m.bpe.merge(left, right))
		left = right
	}
	m.ids = append(m.ids, left)
	m.pairs = append(m.pairs, noMerge)
}

// mergeShort closes the gap after each merge, so neighbours are adjacent.
func (m *merger) mergeShort() {
	ids, pairs := m.ids, m.pairs
	for {
		lowest, at := noMerge, 0
		for i, p := range pairs {
			if p < lowest {
				lowest, at = p, i
			}
		}
		if lowest == noMerge {
			break
		}
		ids[at] = lowest.id()
		ids = append(ids[:at+1], ids[at+2:]...)
		pairs = append(pairs[:at], pairs[at+1:]...)
		if at+1 < len(ids) {
			pairs[at] = m.bpe.merge(ids[at], ids[at+1])
		}
		if at > 0 {
			pairs[at-1] = m.bpe.merge(ids[at-1], ids[at])
		}
	}
	m.ids, m.pairs = ids, pairs
}

// mergeLong takes O(n log n): each merge adds at most two pairs to a queue.
func (m *merger) mergeLong() {
	n := int32(len(m.ids))
	m.next, m.prev, m.queue = m.next[:0], m.prev[:0], m.queue[:0]
	for i := range n {
		m.next = append(m.next, i+1)
		m.prev = append(m.prev, i-1)
		if p := m.pairs[i]; p != noMerge {
			m.queue = append(m.queue, newCandidate(p, i))
		}
	}
	m.queue.init()
	for len(m.queue) > 0 {
		c := m.queue.pop()
		left := c.left()
		// A pair that has changed since has another rank: a rank belongs to
		// one pair of tokens only.
		p := m.pairs[left]
		if p == noMerge || p.rank() != c.rank() {
			continue
		}
		gone := m.next[left]
		m.ids[left], m.ids[gone], m.pairs[gone] = p.id(), none, noMerge
		after := m.next[gone]
		m.next[left] = after
		if after < n {
			m.prev[after] = left
			m.enqueue(left, after)
		} else {
			m.pairs[left] = noMerge
		}
		if before := m.prev[left]; before >= 0 {
			m.enqueue(before, left)
		}
	}
}

func (m *merger) enqueue(left, right int32) {
	p := m.bpe.merge(m.ids[left], m.ids[right])
	m.pairs[left] = p
	if p != noMerge {
		m.queue.push(newCandidate(p, left))
	}
}

// candidate is a pair that may be merged: its rank in the high half and the
// place of its left symbol in the low half, so that the lowest is the next.
type candidate uint64

func newCandidate(m merge, left int32) candidate {
	return candidate(m.rank()<<32 | uint64(uint32(left)))
}

func (c candidate) rank() uint64 { return uint64(c) >> 32 }
func (c candidate) left() int32  { return int32(uint32(c)) }

// queue is a binary heap, the lowest first.
type queue []candidate

func (q queue) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) push(c candidate) {
	*q = append(*q, c)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent] <= c {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = c
}

func (q *queue) pop() candidate {
	h := *q
	lowest := h[0]
	end := len(h) - 1
	h[0] = h[end]
	*q = h[:end]
	if end > 0 {
		q.down(0)
	}
	return lowest
}

func (q queue) down(i int) {
	c := q[i]
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1] < q[child] {
			child++
		}
		if c <= q[child] {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = c
}
