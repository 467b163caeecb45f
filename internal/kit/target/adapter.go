package target

import (
	"fmt"
	"strings"
)

// Adapter is what is known of one kind of engine.
type Adapter interface {
	// Name is what --target and rows call it.
	Name() string
	// Recognise says whether a server that answered like this is of this kind.
	Recognise(p *Probe) bool
	// Identify reads from the answers what the server is.
	Identify(p *Probe) Identity
	// Fields are added to an OpenAI request, so that it is what was asked for.
	Fields(a Ask) map[string]any
	// Tokenize lists the ways to ask the server for a text's tokens, best first.
	TokenizeForms() []TokenizeForm
	// Template says whether /apply-template renders messages as llama-server's does.
	Template() bool
	// Counters names the totals in /metrics that tell a request's share.
	Counters() CounterNames
	// ReadLog finds the account of the one request that a log segment covers.
	ReadLog(segment []byte) (LogRecord, error)
	// ReadThreads finds what the log says of the engine's threads at its start.
	ReadThreads(log []byte) (Threads, error)
	// Facts are of the engine's kind, not of one server.
	Facts() Facts
}

// Facts are documented traits that decide how figures are read. A nil means that
// nothing is documented.
type Facts struct {
	// EndTokenCounted: completion_tokens includes an end token, which has no text.
	EndTokenCounted *bool
	// DecodeBasis is what the engine's own decode rate divides: "n-1", "n",
	// "n with prefill"; empty: not documented, or not the same in all versions.
	DecodeBasis string
	// ExactLength: the engine goes on past end tokens when asked to, so a run can
	// have exactly the tokens that were asked for.
	ExactLength bool
	// MayRefuse: the adapter's fields are a guess, and the server may answer them
	// with an error; one request finds out.
	MayRefuse bool
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
}

// adapters in the order in which a server is compared with them: the closest
// first, the one that takes anything last.
var adapters = []Adapter{assay{}, llamaServer{}, llamaCppPython{}, openAI{}}

// Names lists the adapters for help texts and errors.
func Names() []string {
	names := make([]string, len(adapters))
	for i, a := range adapters {
		names[i] = a.Name()
	}
	return names
}

// ByName finds an adapter.
func ByName(name string) (Adapter, error) {
	for _, a := range adapters {
		if a.Name() == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no adapter is called %q (want auto, %s)", name, strings.Join(Names(), ", "))
}

func choose(name string, p *Probe) (Adapter, error) {
	if name != "" && name != "auto" {
		return ByName(name)
	}
	for _, a := range adapters {
		if a.Recognise(p) {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no adapter fits the server; name one of %s", strings.Join(Names(), ", "))
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
	Finish        *string
}

// Threads are an engine's compute threads.
type Threads struct {
	Workers    *int
	HostThread *bool  // the thread that feeds the workers computes too
	Line       string // where it was read
}

func ptr[T any](v T) *T { return &v }
