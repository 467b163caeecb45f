package stream

import "encoding/json"

// Completion is what the frames say, as far as their shape is known. A pointer
// is nil where the server did not say.
type Completion struct {
	DataFrames    int // frames that are neither comments nor [DONE]
	Comments      int
	RoleFrames    int // frames that name a role and carry no text
	ContentFrames int // token frames with visible text

	Tokens []TokenFrame // frames that carry generated text, in order

	Joined    string // text of all token frames in the order of arrival
	Text      string // the visible part
	Reasoning string
	Tools     string // names and arguments of tool calls

	FinishReason string // "stop", "length", ...; empty: none came
	FinishFrame  int    // index of the frame that carried it, -1: none
	FinishAt     int64  // its stamp, ns since t0; -1: none
	Done         bool   // [DONE] was seen, or the format's own last frame

	Usage        *Usage   // the last one
	Timings      *Timings // the last one
	RunningCount bool     // token frames carry a running count
	TokenIDs     []int64  // ids of generated tokens where the server sends them
	HasTokenIDs  bool

	// Objects are the last "usage", "timings", "metrics" and "stats" objects as they
	// came, for what an engine says beside the fields that are read here; "done" is all
	// of Ollama's own last frame.
	Objects map[string]json.RawMessage

	Errors []string // error objects in the stream, in the server's words

	ID, Model, Fingerprint string

	OtherChoices int      // frames for a choice other than the first: not counted
	Unknown      int      // data frames of a shape that is not known
	UnknownFirst string   // the beginning of the first of them
	BadFrames    []string // data frames that are not JSON, with position and reason; at most 8
}

// TokenFrame is a frame that carries generated text of any kind.
type TokenFrame struct {
	Frame     int   // index among the frames
	At        int64 // ns since t0
	Kernel    int64 // -1: not known
	Read      int
	Content   bool // carries visible text
	Reasoning bool
	Tool      bool
	End       int  // length of Joined after this frame, bytes
	Running   *int // tokens generated so far by the server's count, after this frame
	IDs       int  // token ids seen so far, this frame's included
}

// Usage is the server's count of tokens.
type Usage struct {
	Field      string // where Completion was read: "usage.completion_tokens"
	Prompt     *int
	Completion *int
	Cached     *int // tokens of the prompt that came from a cache
	Reasoning  *int // part of Completion
}

// Timings is what the server says of its own time, in llama-server's words.
type Timings struct {
	CacheN             *int
	PromptN            *int // cached tokens left out, but see WholePrompt
	PromptMS           *float64
	PromptPerSecond    *float64 // as the server says it
	PredictedN         *int
	PredictedMS        *float64
	PredictedPerSecond *float64
	DraftN             *int
	DraftAccepted      *int
	WholePrompt        bool // PromptN counts cached tokens too (Ollama)
}
