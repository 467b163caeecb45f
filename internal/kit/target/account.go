package target

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/kit/stream"
)

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
	Request  []byte            // its body; nil: none was sent
	Found    map[string]string // what was learnt of the server at its start
	Asked    *int              // tokens that the request asked for; nil: it did not say
	TTFTMS   *float64          // by the client's clock; nil: not known
	TotalMS  *float64          // from t0 to the last token frame, by the same
}

// Block is an engine's own part of a row. Figures in it are the engine's word.
type Block struct {
	// Name is the block's key in the row: "llamacpp".
	Name string
	// Fields is what the block holds, as JSON takes it. Its field names and
	// meanings are stated where its type is.
	Fields any
	// Why says why fields are null, by their path within the block. A reason for
	// what is there counts for nothing, so an adapter can give them all at once.
	Why map[string]string
	// Notes mark figures of the row that are shown, by their path in the row.
	Notes map[string]string
	// Failed lists the engine's identities that do not hold: numbers of its own
	// that contradict each other, in words with both values.
	Failed []string
}

// Nulls are the reasons for what is null in the block, or all of which is.
func (b *Block) Nulls() (map[string]string, error) {
	raw, err := json.Marshal(b.Fields)
	if err != nil {
		return nil, fmt.Errorf("the block %q: %w", b.Name, err)
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("the block %q: %w", b.Name, err)
	}
	out := map[string]string{}
	for path, why := range b.Why {
		v := root
		for name := range strings.SplitSeq(path, ".") {
			m, ok := v.(map[string]any)
			if !ok {
				break
			}
			v = m[name]
		}
		if hasNull(v) {
			out[path] = why
		}
	}
	return out, nil
}

// hasNull says whether a value is null or holds one.
func hasNull(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == nil
	}
	for _, e := range m {
		if hasNull(e) {
			return true
		}
	}
	return false
}
