// Package koboldcpp is the adapter for KoboldCpp.
package koboldcpp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// Adapter is for koboldcpp.
type Adapter struct{ target.Base }

// Name is "koboldcpp".
func (Adapter) Name() string { return "koboldcpp" }

// Facts: its server looks for new tokens every 20 ms, so frames hold several
// tokens and times are in steps of that.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:       "KoboldCpp, whose server looks for new tokens every 20 ms",
		DecodeBasis: "n",
		ExactLength: true,
		Exactly:     "ban_eos_token",
		CacheOff:    "--nofastforward at the start; requests have no switch",
		Counts:      []string{"usage (newer versions)", "/api/extra/perf, of the last request", "log"},
	}
}

// Recognise asks its own endpoint for its name.
func (Adapter) Recognise(p *target.Probe) bool {
	return version(p).Result == "KoboldCpp"
}

type versionAnswer struct {
	Result  string `json:"result"`
	Version string `json:"version"`
}

func version(p *target.Probe) (v versionAnswer) {
	_ = p.Object("/api/extra/version", &v)
	return v
}

// Identify reads /api/extra/version and the longest context.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "koboldcpp", Model: p.FirstModel(), Version: target.NonEmpty(version(p).Version), Slots: new(1), Why: map[string]string{
		"commit": "the server names its version, not a commit", "format": "no endpoint says it",
	}}
	if id.Version == nil {
		id.Why["version"] = "/api/extra/version does not say it"
	}
	var c struct {
		Value int `json:"value"`
	}
	if err := p.Object("/api/extra/true_max_context_length", &c); err != nil {
		id.Why["context"] = err.Error()
	} else if id.Context = target.Positive(c.Value); id.Context == nil {
		id.Why["context"] = "/api/extra/true_max_context_length does not say it"
	}
	return id
}

// Command turns off what would reuse or shift an earlier prompt.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"koboldcpp"}
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, s.Model, "--model")
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "--contextsize")
	if s.Threads != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "--threads")
	}
	if s.GPULayers != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.GPULayers), "--gpulayers")
	}
	for _, flag := range []string{"--skiplauncher", "--quiet", "--nofastforward", "--noshift"} {
		argv = s.Flag(argv, "", flag)
	}
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: it listens when the model is loaded.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Path: "/api/extra/version"}
}

// Body bars the end tokens.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "rep_pen", a.RepeatPenalty)
	if a.IgnoreEOS {
		body["ban_eos_token"] = true
	}
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{{Path: "/api/extra/tokencount", Field: "prompt", Fixed: map[string]any{"special": false}, Answer: "ids"}}
}

// Meter tells of the last request, whoever sent it.
func (Adapter) Meter() target.Meter { return target.Meter{Path: "/api/extra/perf"} }

// Perf is its answer, of the last request. Times are in seconds, but for those that
// are named otherwise.
type Perf struct {
	MSPerPromptToken *float64 `json:"last_process"`
	MSPerToken       *float64 `json:"last_eval"`
	PromptS          *float64 `json:"last_process_time"`
	DecodeS          *float64 `json:"last_eval_time"`
	Tokens           *float64 `json:"last_token_count"`
	Input            *float64 `json:"last_input_count"`
	DraftSuccess     *float64 `json:"last_draft_success"`
	DraftFailed      *float64 `json:"last_draft_failed"`
	StopReason       *float64 `json:"stop_reason"`
	Total            *float64 `json:"total_gens"`
}

func perf(text []byte) (*Perf, error) {
	p := new(Perf)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("/api/extra/perf: %w", err)
	}
	if p.Total == nil {
		return nil, fmt.Errorf("/api/extra/perf: it has no total_gens")
	}
	return p, nil
}

// Metered takes the last request for ours when exactly one was added.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	b, err := perf(before)
	if err != nil {
		return target.Counters{}, fmt.Errorf("before the run: %w", err)
	}
	a, err := perf(after)
	if err != nil {
		return target.Counters{}, fmt.Errorf("after the run: %w", err)
	}
	switch added := *a.Total - *b.Total; {
	case added < 0:
		return target.Counters{}, fmt.Errorf("%w: total_gens fell from %v to %v", target.ErrRestarted, *b.Total, *a.Total)
	case added != 1:
		return target.Counters{}, fmt.Errorf("/api/extra/perf: %v generations were added in this run: it tells of the last one only, which may be another's", added)
	}
	// last_input_count is the whole prompt, so what was computed of it is not known.
	return target.Counters{Predicted: a.Tokens, PredictedSeconds: a.DecodeS}, nil
}

// logged is the one line of a request.
var logged = regexp.MustCompile(`(?m)^.*CtxLimit: ?(\d+)/(\d+), Amt: ?(\d+)/(\d+), Init: ?` + target.Decimal + `s, Process: ?` + target.Decimal + `s \([^)]*\), Generate: ?` + target.Decimal + `s \([^)]*\).*$`)

// ReadLog reads the line of one request.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	all := logged.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(all), "CtxLimit:"); err != nil {
		return target.LogRecord{}, err
	}
	g := target.Groups(all[0])
	rec := target.LogRecord{Line: strings.TrimSpace(g.Text(0)), Generated: g.Int(3)}
	// Times are printed in hundredths of a second.
	if s := g.Float(6); s != nil {
		rec.PromptMS = new(*s * 1e3)
	}
	if s := g.Float(7); s != nil {
		rec.DecodeMS = new(*s * 1e3)
	}
	return rec, nil
}

// Fields are KoboldCpp's own part of a row.
type Fields struct {
	PromptMS       *float64 `json:"prompt_ms"` // last_process_time
	DecodeMS       *float64 `json:"decode_ms"` // last_eval_time
	Input          *int     `json:"input"`     // last_input_count: tokens of the prompt
	Generated      *int     `json:"generated"` // last_token_count
	DraftsAccepted *int     `json:"drafts_accepted"`
	DraftsRejected *int     `json:"drafts_rejected"`
	StopReason     *int     `json:"stop_reason"` // its own number for why the run ended
}

// Block is from /api/extra/perf.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{}
	b := &target.Block{Name: "koboldcpp", Fields: f, Why: map[string]string{}}
	names := []string{"prompt_ms", "decode_ms", "input", "generated", "drafts_accepted", "drafts_rejected", "stop_reason"}
	why := "not in /api/extra/perf"
	if a.DeltaErr != nil {
		why = a.DeltaErr.Error()
	}
	for _, name := range names {
		b.Why[name] = why
	}
	if a.DeltaErr != nil {
		return b
	}
	p, err := perf(a.After)
	if err != nil {
		return b
	}
	f.PromptMS, f.DecodeMS = target.Milliseconds(p.PromptS), target.Milliseconds(p.DecodeS)
	f.Input, f.Generated = target.Whole(p.Input), target.Whole(p.Tokens)
	f.DraftsAccepted, f.DraftsRejected, f.StopReason = target.Whole(p.DraftSuccess), target.Whole(p.DraftFailed), target.Whole(p.StopReason)
	if u := a.Stream.Usage; u != nil && u.Completion != nil && f.Generated != nil && *u.Completion != *f.Generated {
		b.Failed = append(b.Failed, fmt.Sprintf("/api/extra/perf counts %d tokens, usage says %d", *f.Generated, *u.Completion))
	}
	return b
}
