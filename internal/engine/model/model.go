package model

import (
	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/weights"
)

// Model is a model's weights, ready for passes: embedding, layers, norm, output.
type Model struct {
	Config
	embed      *kernel.Matrix // [vocabulary, width], only for its rows
	embedScale float32        // 0: 1
	streams    int            // the stream of a token is [streams, width]
	opening    *opening       // in place of plain embeddings, in a head that drafts; nil: none
	layers     []layer
	ending     ending
	output     linear  // [vocabulary, width]; the embeddings where the file ties them
	logitScale float32 // that logits are divided by; 0: 1
}

// New finds the tensors of c in w and checks their dimensions. store, if not nil,
// holds the experts, and w need not.
func New(c *Config, w *weights.Set, store *expert.Store) (*Model, error) {
	return build(c.file, w, store, true)
}

// layer is one step of the residual stream, [n, streams*width].
type layer interface {
	// keeps is what the layer keeps of the positions.
	keeps() kept
	// bind makes what the layer needs to run in s as layer number i of the cache. It
	// is called when s is made, once a layer, in order.
	bind(s *Pass, i int) runner
}

// part is the mixer or the feed-forward of a residual layer.
type part interface {
	keeps() kept
	// bind is like that of a layer. run finds the normalised stream of all tokens in
	// s.normed, and in s.in rounded as bind said with s.wants; it fills s.delta
	// [n, width], what is to be added to the stream. It may use both as scratch.
	bind(s *Pass, i int) (run runner, wants roundings)
}

// runner is something bound to a pass.
type runner interface {
	// run does its work for all tokens of the pass, on the pool. After an error the
	// pass is given up.
	run() error
}

// ending makes of the stream what the output multiplies.
type ending interface {
	// bind: run fills row t of s.normed for the tokens t of s.outs and calls
	// s.deliver(i) for each, i being its number in s.outs. What the last layer left in
	// s.branch is its to add, with s.settle.
	bind(s *Pass) runner
}
