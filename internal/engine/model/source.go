package model

import (
	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
)

// expertSource gives the experts of a layer, in groups as they come to hand. The
// order of experts and groups changes nothing: their outputs are summed by rank.
type expertSource interface {
	// begin asks for experts, each once; uses[i] tokens want ids[i]. One batch at a
	// time.
	begin(ids, uses []int32) (expertBatch, error)
	// kinds is any of them, for the formats of its matrices.
	kinds() expert.Expert
}

// expertBatch is what begin gives. It must be ended.
type expertBatch interface {
	// next gives the group before back and returns the next; none: all were given.
	next() ([]expert.Expert, error)
	end()
}

// resident is experts that are all in memory. Its batch is one group. It belongs
// to one pass.
type resident struct {
	gate, up, down []*kernel.Matrix
	group          []expert.Expert
	given          bool
}

func (r *resident) kinds() expert.Expert {
	return expert.Expert{Gate: r.gate[0], Up: r.up[0], Down: r.down[0]}
}

func (r *resident) begin(ids, _ []int32) (expertBatch, error) {
	r.group, r.given = r.group[:0], false
	for _, id := range ids {
		r.group = append(r.group, expert.Expert{ID: id, Gate: r.gate[id], Up: r.up[id], Down: r.down[id]})
	}
	return r, nil
}

func (r *resident) next() ([]expert.Expert, error) {
	if r.given {
		return nil, nil
	}
	r.given = true
	return r.group, nil
}

func (r *resident) end() {}

// stored is experts of a store, of one layer. It belongs to one pass.
type stored struct {
	store *expert.Store
	layer int // the store's number
	kind  expert.Expert
	batch *expert.Batch
}

func (r *stored) kinds() expert.Expert { return r.kind }

func (r *stored) begin(ids, uses []int32) (expertBatch, error) {
	b, err := r.store.Begin(r.layer, ids, uses)
	if err != nil {
		return nil, err
	}
	r.batch = b
	return r, nil
}

func (r *stored) next() ([]expert.Expert, error) { return r.batch.Next() }

func (r *stored) end() {
	r.batch.End()
	r.batch = nil
}
