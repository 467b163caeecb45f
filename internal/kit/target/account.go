package target

import "assay/internal/kit/stream"

// Account is what was read of one run on the engine's side, for the engine's own
// part of the row. What could not be read has its reason beside it.
type Account struct {
	Log      []byte // the run's part of the log
	Record   LogRecord
	LogErr   error
	Before   []byte // the meter before the run
	After    []byte // and after it
	Delta    Counters
	DeltaErr error
	Stream   *stream.Completion
	TTFTMS   *float64 // by the client's clock; nil: not known
	TotalMS  *float64 // from t0 to the last token frame, by the same
}

// Block is an engine's own part of a row. Figures in it are the engine's word.
type Block struct {
	// Name is the block's key in the row: "llamacpp".
	Name string
	// Fields is what the block holds, as JSON takes it. Its field names and
	// meanings are stated where its type is.
	Fields any
	// Why says why fields are null, by their path within the block.
	Why map[string]string
	// Failed lists the engine's identities that do not hold: numbers of its own
	// that contradict each other, in words with both values.
	Failed []string
}
