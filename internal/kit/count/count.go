// Package count decides how far the number of generated tokens can be trusted:
// it holds every source of that number beside its origin and gives a verdict.
package count

// Origin is where a number comes from at the root. Two numbers of one origin
// are the same counter seen twice and prove each other only so far.
type Origin string

// The origins.
const (
	ServerCounter Origin = "server-counter" // usage, timings, log line, /metrics delta
	Text          Origin = "text"           // the kept text, tokenised by us
	TokenIDs      Origin = "token-ids"      // ids in the stream, counted by us
)

// Verdict is what the sources together say.
type Verdict string

// The verdicts.
const (
	AgreeIndependent Verdict = "agree-independent"
	AgreeSameOrigin  Verdict = "agree-same-origin"
	Mismatch         Verdict = "count-mismatch"
	Unchecked        Verdict = "unchecked"
)

// Source is one reading of the number of generated tokens.
type Source struct {
	Name      string `json:"name"` // "usage.completion_tokens"
	Origin    Origin `json:"origin"`
	Value     *int   `json:"value"`                // as read; nil when unread
	Why       string `json:"why,omitempty"`        // why it is unread
	Offset    int    `json:"offset,omitempty"`     // Value + Offset is the number of tokens, by the adapter's documents
	OffsetWhy string `json:"offset_why,omitempty"` // where the offset is documented
	Gap       *int   `json:"gap,omitempty"`        // Value + Offset less the reference; set by Judge
}

// Result is the verdict and what led to it.
type Result struct {
	Verdict    Verdict  `json:"verdict"`
	Completion *int     `json:"completion_tokens"`   // the reference; nil when nothing could be read
	From       string   `json:"from,omitempty"`      // name of the source that is the reference
	Estimated  bool     `json:"estimated,omitempty"` // the reference is our own count of the text
	Sources    []Source `json:"sources"`
	Why        string   `json:"why"` // what agreed, or what did not
}
