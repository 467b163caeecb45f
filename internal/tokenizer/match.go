package tokenizer

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// matcher finds special tokens in a text. Where two overlap the longer one
// counts, wherever it starts; of equally long ones that with the lower id, and
// of the same one twice the first.
type matcher struct {
	first [256]bool // bytes that a token starts with
	texts []string  // ascending, none empty
	ids   []int32   // of texts
}

// span is one special token found at a byte offset.
type span struct {
	at, size int
	id       int32
}

func (s span) end() int { return s.at + s.size }

func newMatcher(tokens []string, ids []int32) *matcher {
	m := &matcher{ids: slices.SortedFunc(slices.Values(ids), func(a, b int32) int {
		return cmp.Compare(tokens[a], tokens[b])
	})}
	for _, id := range m.ids {
		text := strings.Clone(tokens[id]) // don't keep the whole vocabulary's text
		m.texts = append(m.texts, text)
		m.first[text[0]] = true
	}
	return m
}

// find returns the special tokens of a text in its order.
func (m *matcher) find(text string) []span {
	if len(m.texts) == 0 {
		return nil
	}
	var found []span
	clear, end := true, 0
	for at := range len(text) {
		if !m.first[text[at]] {
			continue
		}
		before := len(found)
		found = m.appendAt(found, text, at)
		for _, s := range found[before:] {
			clear = clear && s.at >= end
			end = max(end, s.end())
		}
	}
	if clear {
		return found
	}
	return choose(found, len(text))
}

// appendAt appends every token that text has at one place. It narrows the range
// of texts that agree with it byte by byte; one that is used up stands first.
func (m *matcher) appendAt(found []span, text string, at int) []span {
	low, high := 0, len(m.texts)
	for n := 0; ; n++ {
		if len(m.texts[low]) == n {
			found = append(found, span{at, n, m.ids[low]})
			low++
		}
		if low == high || at+n == len(text) {
			return found
		}
		c := text[at+n]
		in := m.texts[low:high]
		high = low + sort.Search(len(in), func(i int) bool { return in[i][n] > c })
		low += sort.Search(len(in), func(i int) bool { return in[i][n] >= c })
		if low == high {
			return found
		}
	}
}

// choose drops those that overlap with one that counts more.
func choose(found []span, size int) []span {
	slices.SortFunc(found, func(a, b span) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at))
	})
	// None chosen before is shorter, so it can't lie within: looking at the
	// first and the last byte is enough.
	taken := make([]bool, size)
	chosen := found[:0]
	for _, s := range found {
		if taken[s.at] || taken[s.end()-1] {
			continue
		}
		chosen = append(chosen, s)
		for i := s.at; i < s.end(); i++ {
			taken[i] = true
		}
	}
	slices.SortFunc(chosen, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	return chosen
}
