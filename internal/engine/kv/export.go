package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
)

// Reach is Cache.Reach of a sequence that is restored from the snapshot.
func (s *Snapshot) Reach(n int) int {
	c := Cache{store: s.store, n: s.n, state: s.state, kept: s.kept}
	return c.Reach(n)
}

// Recurrent says whether the snapshot remembers what can't be cut short anywhere.
func (s *Snapshot) Recurrent() bool { return s.store.zero != nil }

// Memory lists what the snapshot holds, each thing once, and its bytes. What several
// snapshots share has one name in all of them.
func (s *Snapshot) Memory() iter.Seq2[any, int] {
	return func(yield func(any, int) bool) {
		for _, p := range s.pages {
			if !yield(p, len(p.data)) {
				return
			}
		}
		if s.store.zero == nil {
			return
		}
		bytes := s.store.shape.StateBytes()
		for _, k := range s.kept {
			if !yield(k.state, bytes) {
				return
			}
		}
		if last := len(s.kept) - 1; last < 0 || s.kept[last].state != s.state {
			yield(s.state, bytes)
		}
	}
}

// Pages are what its pages hold, in order of their positions. They are shared, and
// must not be written to.
func (s *Snapshot) Pages() [][]byte {
	out := make([][]byte, len(s.pages))
	for i, p := range s.pages {
		out[i] = p.data
	}
	return out
}

// State is what recurrent layers remember, for Import; nil: there are none.
// Checkpoints are left out.
func (s *Snapshot) State() []byte {
	if s.store.zero == nil {
		return nil
	}
	var out []byte
	for i := range s.state.parts {
		m := &s.state.parts[i]
		lacks := s.n - m.at
		if m.Heads == 0 {
			lacks = 0
		}
		for _, n := range []int{m.at, m.end, lacks} {
			out = binary.LittleEndian.AppendUint32(out, uint32(n))
		}
		c := &m.kept[m.newest]
		for _, floats := range [][]float32{
			m.history, m.states,
			c.K[:lacks*m.KeyHeads*m.Size], c.Wrong[:lacks*m.Heads*m.Size], c.Decay[:lacks*m.Heads],
		} {
			for _, v := range floats {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
		}
	}
	return out
}

// Import makes a snapshot of n positions. page fills one page after another with
// what Pages gave; state is what State gave, for exactly n positions. When page fails,
// or the state is of another shape, there is no snapshot.
func (s *Store) Import(n int, page func(i int, data []byte) error, state []byte) (*Snapshot, error) {
	out := &Snapshot{store: s, n: n}
	for i := range (n + PageSize - 1) / PageSize {
		p := s.take()
		out.pages = append(out.pages, p)
		if err := page(i, p.data); err != nil {
			out.Release()
			return nil, err
		}
	}
	if s.zero == nil {
		return out, nil
	}
	out.state = s.takeState()
	if err := out.state.read(n, state); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// read makes t what State of a snapshot of n positions wrote.
func (t *state) read(n int, data []byte) error {
	for i := range t.parts {
		m := &t.parts[i]
		if len(data) < 12 {
			return fmt.Errorf("the state ends before part %d", i)
		}
		at, end, lacks := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:])), int(binary.LittleEndian.Uint32(data[8:]))
		data = data[12:]
		if at > n || end < 0 || lacks > WindowTokens || m.Heads > 0 && lacks != n-at || m.Heads == 0 && lacks != 0 {
			return fmt.Errorf("part %d of the state is of positions %d and %d, and lacks %d of %d", i, at, end, lacks, n)
		}
		if m.at, m.end = at, end; m.least() > n {
			return fmt.Errorf("part %d of the state knows of nothing before %d positions, and is to be of %d", i, m.least(), n)
		}
		var c Corrections
		if m.Heads > 0 {
			c = *m.room(max(1, lacks))
			m.newest ^= 1
		}
		for _, floats := range [][]float32{
			m.history, m.states,
			c.K[:lacks*m.KeyHeads*m.Size], c.Wrong[:lacks*m.Heads*m.Size], c.Decay[:lacks*m.Heads],
		} {
			if len(data) < 4*len(floats) {
				return fmt.Errorf("the state ends within part %d", i)
			}
			for j := range floats {
				floats[j] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*j:]))
			}
			data = data[4*len(floats):]
		}
	}
	if len(data) != 0 {
		return fmt.Errorf("the state has %d bytes too many", len(data))
	}
	return nil
}

// Layout names what pages and states hold, for those that are kept longer than a
// Store: two Stores of one Layout can read what the other wrote.
func (s *Store) Layout() string {
	h := sha256.New()
	fmt.Fprintf(h, "%+v, %d positions a page", s.shape, PageSize)
	return fmt.Sprintf("%d layers, pages of %d bytes, state of %d, %s", len(s.shape.Layers), s.shape.PageBytes(), s.shape.StateBytes(), hex.EncodeToString(h.Sum(nil)[:8]))
}
