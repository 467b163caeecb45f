package openai

import "assay/internal/kit/target"

// BlockName is the block's key in a row.
const BlockName = "openai"

// Block is what the first request found of the server, in words: where the role
// stands, what reasoning is called, which frames carry usage, which objects come
// beside it, how the stream ends, and which fields requests go without.
type Block struct {
	Found map[string]string `json:"found"`
}

// Block is the engine's own part of a row.
func (Adapter) Block(a *target.Account) *target.Block {
	b := &Block{Found: a.Found}
	out := &target.Block{Name: BlockName, Fields: b, Why: map[string]string{}}
	if b.Found == nil {
		out.Why["found"] = "the server was not asked"
	}
	return out
}
