package target

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// llamaServer is llama.cpp's server.
type llamaServer struct{}

func (llamaServer) Name() string { return "llama-server" }

func (llamaServer) Recognise(p *Probe) bool {
	return ownedBy(p) == "llamacpp" || strings.Contains(p.text("/metrics"), "\nllamacpp:")
}

func (llamaServer) Identify(p *Probe) Identity { return identifyLlama(p, "llama-server") }

func (llamaServer) Fields(a Ask) map[string]any { return llamaFields(a) }

func (llamaServer) TokenizeForms() []TokenizeForm { return []TokenizeForm{llamaForm} }

func (llamaServer) Template() bool { return true }

func (llamaServer) Counters() CounterNames { return counterNames("llamacpp:") }

// Facts: the end token is counted. The basis of the decode rate changed from n
// to n-1 in August 2026, so it is found from the numbers.
func (llamaServer) Facts() Facts { return Facts{EndTokenCounted: ptr(true), ExactLength: true} }

// llamaFields turn the prompt cache off for the request and, where the length is
// to be exact, the end tokens.
func llamaFields(a Ask) map[string]any {
	f := map[string]any{"cache_prompt": false}
	if a.IgnoreEOS {
		f["ignore_eos"] = true
	}
	return f
}

func counterNames(prefix string) CounterNames {
	return CounterNames{
		Prompt:           prefix + "prompt_tokens_total",
		Cached:           prefix + "prompt_tokens_cached_total",
		PromptSeconds:    prefix + "prompt_seconds_total",
		Predicted:        prefix + "tokens_predicted_total",
		PredictedSeconds: prefix + "tokens_predicted_seconds_total",
	}
}

func ownedBy(p *Probe) string {
	var m models
	if p.object("/v1/models", &m) != nil || len(m.Data) == 0 {
		return ""
	}
	return m.Data[0].OwnedBy
}

// identifyLlama reads /props and /v1/models in llama-server's form.
func identifyLlama(p *Probe, engine string) Identity {
	id := Identity{Engine: engine, Why: map[string]string{}}
	var m models
	if err := p.object("/v1/models", &m); err == nil && len(m.Data) > 0 {
		id.Model = m.Data[0].ID
		if meta := m.Data[0].Meta; meta != nil {
			id.Format = nonEmpty(meta.Ftype)
			id.Context = positive(meta.NCtx)
		}
	}
	var pr props
	if err := p.object("/props", &pr); err != nil {
		id.Why["version"], id.Why["commit"], id.Why["slots"] = err.Error(), err.Error(), err.Error()
	} else {
		id.Slots = positive(pr.TotalSlots)
		if f := nonEmpty(pr.ModelFtype); f != nil {
			id.Format = f
		}
		if c := positive(pr.Defaults.NCtx); c != nil {
			id.Context = c
		}
		id.Version = nonEmpty(pr.BuildInfo)
		var err error
		if id.Commit, err = commitOf(pr.BuildInfo); err != nil {
			id.Why["commit"] = err.Error()
		}
	}
	for name, missing := range map[string]bool{"version": id.Version == nil, "slots": id.Slots == nil, "format": id.Format == nil, "context": id.Context == nil} {
		if missing && id.Why[name] == "" {
			id.Why[name] = "neither /props nor /v1/models says it"
		}
	}
	return id
}

// build is what /props calls build_info: a number and a commit. A checkout
// without history counts one commit, whose hash is its own and not upstream's.
var build = regexp.MustCompile(`(?:^|[^0-9a-z])b(\d+)-([0-9a-f]{7,40})$`)

func commitOf(info string) (*string, error) {
	m := build.FindStringSubmatch(info)
	switch {
	case info == "":
		return nil, errors.New("/props has no build_info")
	case m == nil:
		return nil, fmt.Errorf("build_info %q does not end in b<number>-<commit>", info)
	case m[1] == "0" || m[1] == "1":
		return nil, fmt.Errorf("build_info %q: built from a checkout without history, so the hash may not be upstream's", info)
	}
	return &m[2], nil
}

// The lines of one request, in any of the log's forms: the names and units have
// stayed, prefixes and spacing have not.
var (
	llamaPrompt = regexp.MustCompile(`prompt eval time =\s*` + number + ` ms /\s*(\d+) tokens \(\s*` + number + ` ms per token,\s*` + number + ` tokens per second\)`)
	llamaEval   = regexp.MustCompile(`(?m)(?:^ *|[^t ] +)(eval time =\s*` + number + ` ms /\s*(\d+) (?:tokens|runs) +\(\s*` + number + ` ms per token,\s*` + number + ` tokens per second\))`)
	llamaDraft  = regexp.MustCompile(`draft acceptance(?: rate)? =\s*` + number + ` \(\s*(\d+) accepted /\s*(\d+) generated\)`)
)

func (llamaServer) ReadLog(segment []byte) (LogRecord, error) {
	prompt := llamaPrompt.FindAllSubmatch(segment, -1)
	if err := onlyOne(len(prompt), "prompt eval time"); err != nil {
		return LogRecord{}, err
	}
	eval := llamaEval.FindAllSubmatch(segment, -1)
	if err := onlyOne(len(eval), "eval time"); err != nil {
		return LogRecord{}, err
	}
	p, e := groups(prompt[0]), groups(eval[0])
	rec := LogRecord{
		Line:       p.text(0) + " | " + e.text(1),
		PromptMS:   p.float(1),
		PromptN:    p.int(2),
		PromptRate: p.float(4),
		DecodeMS:   e.float(2),
		Generated:  e.int(3),
		DecodeRate: e.float(5),
	}
	if d := llamaDraft.FindSubmatch(segment); d != nil {
		g := groups(d)
		rec.DraftAccepted, rec.DraftN = g.int(2), g.int(3)
		rec.Line += " | " + g.text(0)
	}
	return rec, nil
}

var llamaThreads = regexp.MustCompile(`(?m)^.*n_threads = (\d+).*$`)

func (llamaServer) ReadThreads(log []byte) (Threads, error) {
	m := llamaThreads.FindSubmatch(log)
	if m == nil {
		return Threads{}, errors.New("no n_threads in the log")
	}
	// The thread that calls is one of them.
	g := groups(m)
	t := Threads{HostThread: ptr(true), Line: strings.TrimSpace(g.text(0))}
	if n := g.int(1); n != nil && *n > 0 {
		t.Workers = ptr(*n - 1)
	}
	return t, nil
}

// groups are what a regular expression found.
type groups [][]byte

func (g groups) text(i int) string { return string(g[i]) }

func (g groups) int(i int) *int {
	n, err := strconv.Atoi(string(g[i]))
	if err != nil {
		return nil
	}
	return &n
}

func (g groups) float(i int) *float64 {
	v, err := strconv.ParseFloat(string(g[i]), 64)
	if err != nil {
		return nil
	}
	return &v
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
