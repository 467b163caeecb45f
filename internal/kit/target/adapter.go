package target

import (
	"errors"
	"fmt"
	"strings"

	"assay/internal/kit/stream"
)

// Adapter is what is known of one kind of engine. Each has a package of its own
// below this one, and all of them stand in package adapters. An adapter embeds
// Base and says only what is different: names, fields, formats. It holds no
// state and runs nothing.
type Adapter interface {
	// Name is what --target and rows call it.
	Name() string
	// Facts are of the engine's kind, not of one server.
	Facts() Facts

	// Recognise says whether a server that answered like this is of this kind.
	Recognise(p *Probe) bool
	// Identify reads from the answers what the server is.
	Identify(p *Probe) Identity
	// Objection is why the server can't be measured as it is; nil: it can. model is
	// the name that requests are to have; empty: the server's first.
	Objection(p *Probe, model string) error

	// Further are questions that only servers of this kind are asked, for Identify.
	// None of them makes the server do work. model is as with Objection.
	Further(model string) []Question
	// Prepare is what the server is asked, once, so that no run pays for it, such as
	// to load its model with the settings that runs will have; a zero Question:
	// nothing. Further's questions come after it.
	Prepare(s Settings, model string) (Question, error)

	// Command is the command line that starts the engine as the settings say;
	// ErrNoCommand when it can only be attached to, or started by a command of
	// the user's own.
	Command(s Settings) (Command, error)
	// Readiness says how the engine tells that it can be asked.
	Readiness() Readiness

	// Endpoint is the path that completions are asked of.
	Endpoint() string
	// Body is the request for a streamed completion, as JSON takes it. model is
	// the name that the server goes by.
	Body(a Ask, model string) map[string]any

	// TokenizeForms are the ways to ask the server for a text's tokens, best first.
	TokenizeForms() []TokenizeForm
	// Template says whether /apply-template renders messages as llama-server's does.
	Template() bool
	// InputTokens is the path that answers a request for a completion with the number
	// of its prompt's tokens, as {"input_tokens": N}; empty: there is none.
	InputTokens() string

	// Meter is where the engine's own counts are read before and after a run; its
	// zero value says that there is no such place.
	Meter() Meter
	// Metered finds the run's share in what the meter showed before and after it.
	Metered(before, after []byte) (Counters, error)
	// ReadLog finds the account of the one request that a log segment covers.
	ReadLog(segment []byte) (LogRecord, error)
	// ReadThreads finds what the log says of the engine's threads at its start.
	ReadThreads(log []byte) (Threads, error)

	// OwnTime is the engine's time of a request where its stream tells it in words
	// other than llama-server's; nil: it does not.
	OwnTime(c *stream.Completion) *stream.Timings
	// Spoils looks for what makes a run another one than was asked for.
	Spoils(a *Account) Spoils
	// Block is the engine's own part of a row; nil: there is none.
	Block(a *Account) *Block
}

// Base is an OpenAI server of which nothing more is known. Adapters embed it.
type Base struct{}

// Facts says that nothing is documented.
func (Base) Facts() Facts { return Facts{} }

// Recognise takes no server for its own.
func (Base) Recognise(*Probe) bool { return false }

// Objection has none.
func (Base) Objection(*Probe, string) error { return nil }

// Command says that the engine can't be started by its name.
func (Base) Command(Settings) (Command, error) { return Command{}, ErrNoCommand }

// Readiness is a good answer of GET /health at an address that is known.
func (Base) Readiness() Readiness { return Readiness{Path: "/health"} }

// Endpoint is OpenAI's for chats.
func (Base) Endpoint() string { return ChatPath }

// Body is OpenAI's, and no more.
func (Base) Body(a Ask, model string) map[string]any { return ChatBody(a, model) }

// TokenizeForms says that there are none.
func (Base) TokenizeForms() []TokenizeForm { return nil }

// Template says that there is no such endpoint.
func (Base) Template() bool { return false }

// InputTokens says that there is no such endpoint.
func (Base) InputTokens() string { return "" }

// Meter says that there is none.
func (Base) Meter() Meter { return Meter{} }

// Metered says that nothing was read.
func (Base) Metered(_, _ []byte) (Counters, error) { return Counters{}, ErrNoMeter }

// ReadLog says that the log is not known.
func (Base) ReadLog([]byte) (LogRecord, error) { return LogRecord{}, ErrUnknownLog }

// ReadThreads says that the log is not known.
func (Base) ReadThreads([]byte) (Threads, error) { return Threads{}, ErrUnknownLog }

// OwnTime says that the stream tells no more than llama-server's would.
func (Base) OwnTime(*stream.Completion) *stream.Timings { return nil }

// Further has no questions.
func (Base) Further(string) []Question { return nil }

// Prepare wants nothing done.
func (Base) Prepare(Settings, string) (Question, error) { return Question{}, nil }

// Spoils finds nothing.
func (Base) Spoils(*Account) Spoils { return Spoils{} }

// Block says that there is none.
func (Base) Block(*Account) *Block { return nil }

// ErrNoMeter is what an adapter says that knows no counters.
var ErrNoMeter = errors.New("the adapter knows no counters of this engine")

// Facts are documented traits that decide how figures are read. A nil means that
// nothing is documented. The texts are for people: assay targets prints them.
type Facts struct {
	About string // the engine, in a few words
	// EndTokenCounted: completion_tokens includes an end token, which has no text.
	EndTokenCounted *bool
	// StopAtLimit: finish_reason is "stop" at the limit of tokens too, so it does not
	// tell of an end token there.
	StopAtLimit bool
	// DecodeBasis is what the engine's own decode rate divides: "n-1", "n",
	// "n with prefill"; empty: not documented, or not the same in all versions.
	DecodeBasis string
	// ExactLength: the engine goes on past end tokens when asked to, so a run can
	// have exactly the tokens that were asked for.
	ExactLength bool
	// Exactly says how that is asked for; where it can't be, why not.
	Exactly string
	// CacheOff says how the prompt cache is kept out of the way.
	CacheOff string
	// Counts lists where the engine tells its count of tokens, the stream first.
	Counts []string
	// MayRefuse: the adapter's fields are a guess, and the server may answer them
	// with an error; one request finds out.
	MayRefuse bool
	// The names of the flags that give the engine its model as a file, that let it
	// fetch one itself, and that give it the positions of its context; empty: there are
	// none.
	ModelFlags, FetchFlags, ContextFlags []string
	// ListsFlags: the program's flags change from version to version, and --help
	// lists them.
	ListsFlags bool
}

// Identity is what a server says of itself. A nil field has its reason in Why.
type Identity struct {
	Engine  string  // adapter's name, or a closer one where the server gives it
	Version *string // as the server writes it
	Commit  *string
	Model   string  // name to use in requests
	Format  *string // of the weights: "Q8_0"
	Context *int    // positions of one slot
	Slots   *int    // requests it works on at once
	Why     map[string]string
	// Found is what else was learnt of this server, in words, for the engine's own
	// part of its rows.
	Found map[string]string
}

// DraftWindow is the name in Found of how many tokens the server drafts a round at
// most, as a number: what arrives at once is judged by it.
const DraftWindow = "draft_window"

// Names lists adapters for help texts and errors.
func Names(adapters []Adapter) []string {
	names := make([]string, len(adapters))
	for i, a := range adapters {
		names[i] = a.Name()
	}
	return names
}

// ByName finds an adapter.
func ByName(adapters []Adapter, name string) (Adapter, error) {
	for _, a := range adapters {
		if a.Name() == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no adapter is called %q (want auto, %s)", name, strings.Join(Names(adapters), ", "))
}

// choose settles on an adapter for a server that answered.
func choose(o Options, p *Probe) (Adapter, error) {
	if !o.auto() {
		return ByName(o.Adapters, o.Adapter)
	}
	for _, a := range o.Adapters {
		if a.Recognise(p) {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no adapter fits the server; name one of %s", strings.Join(Names(o.Adapters), ", "))
}

// LogRecord is a request's account in the server's log. A nil field was not in
// it.
type LogRecord struct {
	Line          string // the line or lines it was read from
	PromptN       *int   // prompt tokens computed
	Cached        *int   // prompt tokens reused
	PromptMS      *float64
	Generated     *int // as the log says it: Generated + Offset is the number of tokens
	Offset        int
	OffsetWhy     string // where the offset comes from
	DecodeMS      *float64
	DecodeRate    *float64 // tokens a second, as the log says it
	PromptRate    *float64
	DraftN        *int
	DraftAccepted *int
	Rounds        *int // passes after the prompt's
	Finish        *string
}

// Threads are an engine's compute threads.
type Threads struct {
	Workers    *int
	HostThread *bool  // the thread that feeds the workers computes too
	Line       string // where it was read
}
