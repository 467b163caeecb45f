// Package engine runs a GGUF model on the CPU: it is what serve, generate and
// chat call. The parts below it are quant (formats and the canonical order of
// accumulation), kernel, pool, weights, kv, model (the forward pass) and sample.
package engine

import (
	"errors"
	"fmt"
	"time"

	"assay/internal/engine/expert"
	"assay/internal/engine/sample"
	"assay/internal/gguf"
)

// Options are what an Engine is loaded with.
type Options struct {
	Threads int // compute threads, the caller's included; 0 means one a core
	Context int // positions of one slot, prompt and output together; 0 means the model's own, at most 8192
	Slots   int // requests that may be in work at once, each with its own context; 0 means 1
	Queue   int // requests that may wait for a slot; more are refused with a BusyError; 0 means 256, negative none
	Batch   int // tokens of prompts that are computed together; 0 means 512, the most

	CacheType string  // of keys and values: f16 (the default), q8_0 or f32
	Drafts    int     // tokens that are guessed ahead in one pass, at most (spec.MaxDrafts); 0: none
	DraftMinP float32 // a guess less likely than that is not tried
	Drafter   string  // who guesses, when Drafts is not 0: spec.KindMTP (the default with a Head) or spec.KindSuffix (else)

	// Head is the block that drafts, where it is in a file of its own. It may be closed
	// when Load returns. nil: it is in the model's file, if anywhere.
	Head *gguf.File

	ReuseBytes     int64  // memory for what earlier requests computed, beside the slots' own; 0: none is kept; ReuseAuto: by what is free
	ReuseDir       string // where that goes when memory is full, and from run to run; empty: nowhere
	ReuseDiskBytes int64  // of its files together, at most; 0 means 16 GiB

	Log func(format string, args ...any) // gets lines about what went wrong and was got over; nil: nobody

	// ExpertRAM bounds the memory of experts, in bytes; those that have no room are read
	// from the file when they are wanted, which must stay as it is. 0: all are in
	// memory for good; ExpertAuto: by what is free.
	ExpertRAM     int64
	ExpertProfile string // file of which experts are used most: read first at the start, written by Close; empty: none

	expertReader expert.Reader // reads them; nil: from the model's files

	Mmap bool // use the file's own pages instead of a copy: it must stay open until Close, and is slower
}

// ReuseAuto as Options.ReuseBytes stands for an eighth of the memory that is free once
// the model is loaded, by the limits of the process's control groups too, and at most
// 1 GiB.
const ReuseAuto = -1

// Request is one prompt and how to go on from it.
type Request struct {
	Prompt    []int32       // token ids, at least one
	MaxTokens int           // tokens to generate at most; negative: until the context is full
	Sampling  sample.Params // temperature, seed, penalties ...
	IgnoreEOS bool          // never draw an end-of-generation token
	Logprobs  int           // negative: none; n >= 0: the drawn token's and the n best
	NoReuse   bool          // compute the whole prompt, and keep nothing for others

	Constraint sample.Constraint   // a form that what is drawn keeps to; nil: none
	Progress   func(Timings) error // told before the prompt is read, and after each batch of it; nil: nobody
}

// Token is one generated token, given to emit as soon as it is drawn.
type Token struct {
	ID      int32
	End     bool                 // an end-of-generation token: the last one, without text
	Logprob float32              // natural log, of the model's own distribution; only when asked for
	Top     []sample.Probability // best first; only when asked for
	Timings Timings              // of the request so far, this token included
}

// Timings are of one request. The first token's time belongs to PromptTime,
// which begins when a slot takes the request, so DecodeTime covers
// Predicted-1 intervals.
type Timings struct {
	Slot       int           // that the request is in
	QueueTime  time.Duration // 0: there was a free slot
	Prompt     int           // tokens of the prompt that were computed
	Cached     int           // tokens of the prompt that were reused
	PromptTime time.Duration
	Predicted  int // tokens drawn, the end token included
	DecodeTime time.Duration
	Rounds     int // passes that Predicted-1 tokens took
	Offered    int // drafts that those passes verified
	Accepted   int // drafts that were right; those behind the end of the text do not count

	// See HitRate. 0 where all experts are in memory.
	ExpertLookups, ExpertHits int64
}

// Finish says why generation ended.
type Finish string

// The reasons of OpenAI's finish_reason.
const (
	FinishStop   Finish = "stop"   // an end token, emit returned ErrStop, or the constraint's form is complete
	FinishLength Finish = "length" // MaxTokens were drawn, or the context is full
)

// Result is what a finished request cost.
type Result struct {
	Finish  Finish
	Timings Timings
}

// ErrStop is what emit returns to end generation without an error, at a stop
// string for example.
var ErrStop = errors.New("engine: stop")

// ErrClosed is returned for requests to an Engine that has been closed.
var ErrClosed = errors.New("engine: closed")

// BusyError says that all slots are taken and enough requests wait for one.
type BusyError struct{ Slots, Waiting int }

func (e *BusyError) Error() string {
	return fmt.Sprintf("all %d slots are busy and %d requests wait for one, which is the limit; try again later", e.Slots, e.Waiting)
}

// ContextError says that a prompt leaves no room for a single token.
type ContextError struct{ Prompt, Context int }

func (e *ContextError) Error() string {
	return fmt.Sprintf("the prompt has %d tokens, but the context holds %d and must hold at least one more; shorten it or start with a larger -c", e.Prompt, e.Context)
}
