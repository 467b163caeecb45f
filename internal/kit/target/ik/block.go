package ik

import (
	"encoding/json"

	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// BlockName is the block's key in a row.
const BlockName = "ik_llamacpp"

// Block is llama-server's, and what only this engine says.
type Block struct {
	llamaserver.Block

	// LimitReached: the completion has all tokens that were asked for. The
	// finish_reason is "stop" in either case.
	LimitReached *bool           `json:"limit_reached"`
	NCtx         *int            `json:"n_ctx"`          // positions of the slot's context
	NPast        *int            `json:"n_past"`         // of these in use at the end
	DraftByDepth json.RawMessage `json:"draft_by_depth"` // drafts by their position, as the engine gives them
}

// maxDepths bounds what is kept of draft_by_depth, in bytes.
const maxDepths = 16 << 10

// Block is the engine's own part of a row.
func (Adapter) Block(a *target.Account) *target.Block {
	f := llamaserver.Fill(a, form)
	b := &Block{Block: f.Block}
	var t struct {
		NCtx  *int            `json:"n_ctx"`
		NPast *int            `json:"n_past"`
		Depth json.RawMessage `json:"draft_by_depth"`
	}
	if err := json.Unmarshal(a.Stream.Objects["timings"], &t); err == nil {
		b.NCtx, b.NPast = t.NCtx, t.NPast
		if len(t.Depth) > 0 && t.Depth[0] == '[' && len(t.Depth) <= maxDepths {
			b.DraftByDepth = t.Depth
		}
	}
	if u := a.Stream.Usage; u != nil && u.Completion != nil && a.Asked != nil {
		b.LimitReached = new(*u.Completion >= *a.Asked)
	} else {
		f.Null("the count of tokens, or the number that was asked for, is not known", "limit_reached")
	}
	for field, missing := range map[string]bool{"n_ctx": b.NCtx == nil, "n_past": b.NPast == nil, "draft_by_depth": b.DraftByDepth == nil} {
		if missing {
			f.Null("not in the timings", field)
		}
	}
	return &target.Block{Name: BlockName, Fields: b, Why: f.Why, Failed: f.Failed, Notes: f.Notes}
}
