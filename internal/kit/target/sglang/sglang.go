// Package sglang is the adapter for SGLang's server.
package sglang

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/target"
)

// Adapter is for python3 -m sglang.launch_server.
type Adapter struct{ target.Base }

// Name is "sglang".
func (Adapter) Name() string { return "sglang" }

// Facts: it tells no time of one request; its log's rates are averages over
// intervals.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:       "SGLang's server",
		ExactLength: true,
		Exactly:     "ignore_eos",
		CacheOff:    "--disable-radix-cache at the start; requests have no switch, and cached tokens are told only with --enable-cache-report and only when there are some",
		Counts:      []string{"usage, in every frame", "/metrics (with --enable-metrics)", "log: the prompt's tokens only"},
	}
}

// Recognise knows it by the owner of its model and by its metrics.
func (Adapter) Recognise(p *target.Probe) bool {
	return p.OwnedBy() == "sglang" || strings.Contains(p.Text("/metrics"), "\nsglang:")
}

// Identify reads /server_info, which older versions call /get_server_info.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "sglang", Model: p.FirstModel(), Why: map[string]string{}}
	var info struct {
		Version     string `json:"version"`
		Context     int    `json:"context_length"`
		MaxRunning  int    `json:"max_running_requests"`
		Quantise    string `json:"quantization"`
		ServedModel string `json:"served_model_name"`
	}
	err := p.Object("/server_info", &info)
	if err != nil {
		err = p.Object("/get_server_info", &info)
	}
	if err != nil {
		for _, name := range []string{"version", "context", "slots", "format"} {
			id.Why[name] = err.Error()
		}
	} else {
		id.Version, id.Context, id.Slots, id.Format = target.NonEmpty(info.Version), target.Positive(info.Context), target.Positive(info.MaxRunning), target.NonEmpty(info.Quantise)
		if id.Model == "" {
			id.Model = info.ServedModel
		}
		for name, missing := range map[string]bool{"version": id.Version == nil, "context": id.Context == nil, "slots": id.Slots == nil, "format": id.Format == nil} {
			if missing {
				id.Why[name] = "/server_info leaves it open"
			}
		}
	}
	id.Why["commit"] = "the server names its version, not a commit"
	return id
}

// Command pins the context and one sequence, and turns the prefix cache off.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"python3", "-m", "sglang.launch_server"}
	}
	if s.GPULayers != nil {
		return target.Command{}, errors.New("sglang has no setting for the layers on the GPU: use --mem-fraction-static or --cpu-offload-gb")
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, s.Model, "--model-path", "--model")
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "--context-length")
	argv = s.Flag(argv, "1", "--max-running-requests")
	argv = s.Flag(argv, "", "--disable-radix-cache")
	argv = s.Flag(argv, "", "--enable-metrics")
	argv = s.Flag(argv, "", "--enable-cache-report")
	out := target.Command{Argv: append(argv, s.Args...)}
	if s.Threads != nil {
		out.Env = []string{"OMP_NUM_THREADS=" + strconv.Itoa(*s.Threads)}
	}
	return out, nil
}

// Readiness: /health generates a token and takes a second or more, so it is asked
// for only until the server is ready.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Path: "/health", Limit: 60 * time.Second}
}

// Body asks for an exact length and for the count in every frame.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repetition_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	body["stream_options"] = map[string]bool{"include_usage": true, "continuous_usage_stats": true}
	if a.IgnoreEOS {
		body["ignore_eos"] = true
	}
	return body
}

// TokenizeForms: it took over vLLM's form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.VLLMForm}
}

// Meter is /metrics, with --enable-metrics.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// Metered reads its totals. Whether its prompt tokens include cached ones is not
// documented, so they are left unread.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	return target.MeteredBy(target.CounterNames{Cached: "sglang:cached_tokens_total", Predicted: "sglang:generation_tokens_total"}, before, after)
}

// The batches that the log tells of. A full stop after "batch" is the older form.
var (
	prefill = regexp.MustCompile(`(?m)^.*Prefill batch[.,] #new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+),.*$`)
	decode  = regexp.MustCompile(`Decode batch[.,] #running-req: (\d+),`)
	accept  = regexp.MustCompile(`Decode batch[.,].*accept len: ` + target.Decimal + `, accept rate: ` + target.Decimal)
)

// ReadLog adds up the prompt's batches: a long prompt is read in chunks, of which
// the first begins the sequence. Generated tokens are not told for one request.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	all := prefill.FindAllSubmatch(segment, -1)
	if len(all) == 0 {
		return target.LogRecord{}, target.OnlyOne(0, "Prefill batch")
	}
	var rec target.LogRecord
	read, cached := 0, 0
	for _, m := range all {
		g := target.Groups(m)
		seqs, n, c := g.Int(1), g.Int(2), g.Int(3)
		if seqs == nil || n == nil || c == nil {
			return rec, fmt.Errorf("%q: a number is out of range", strings.TrimSpace(g.Text(0)))
		}
		if *seqs > 1 {
			return rec, fmt.Errorf("a batch of %d prompts: the server worked on other requests too", *seqs)
		}
		read, cached = read+*n, cached+*c
	}
	for _, m := range decode.FindAllSubmatch(segment, -1) {
		if n := target.Groups(m).Int(1); n == nil || *n > 1 {
			return rec, errors.New("a decode batch of several requests: the server worked on others too")
		}
	}
	rec.Line = strings.TrimSpace(string(all[len(all)-1][0]))
	rec.PromptN, rec.Cached = &read, &cached
	return rec, nil
}

// Fields are SGLang's own part of a row.
type Fields struct {
	PromptRead *int `json:"prompt_read"` // prompt tokens computed, by the log
	Reused     *int `json:"reused"`      // prompt tokens from the cache, by the log
	// AcceptLen is the mean over the log's decode lines of the tokens that a round
	// gave, the bonus token included. The first line after a pause is among them.
	AcceptLen     *float64 `json:"accept_len"`
	AcceptSamples *int     `json:"accept_samples"` // lines that the mean is over
}

// Block is from the log.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{PromptRead: a.Record.PromptN, Reused: a.Record.Cached}
	b := &target.Block{Name: "sglang", Fields: f, Why: map[string]string{}}
	if a.LogErr != nil {
		for _, name := range []string{"prompt_read", "reused", "accept_len", "accept_samples"} {
			b.Why[name] = "the log: " + a.LogErr.Error()
		}
		return b
	}
	sum, n := 0.0, 0
	for _, m := range accept.FindAllSubmatch(a.Log, -1) {
		if v := target.Groups(m).Float(1); v != nil {
			sum, n = sum+*v, n+1
		}
	}
	if n > 0 {
		f.AcceptLen, f.AcceptSamples = new(sum/float64(n)), &n
	} else {
		b.Why["accept_len"], b.Why["accept_samples"] = "no decode line of the log has it: no drafts, or fewer rounds than --decode-log-interval", "as accept_len"
	}
	if u := a.Stream.Usage; u != nil && u.Prompt != nil && *u.Prompt != *f.PromptRead+*f.Reused {
		b.Failed = append(b.Failed, fmt.Sprintf("the log reads %d and reuses %d prompt tokens, usage says %d", *f.PromptRead, *f.Reused, *u.Prompt))
	}
	if u := a.Stream.Usage; u != nil && u.Reasoning != nil && u.Completion != nil && *u.Reasoning > *u.Completion {
		b.Failed = append(b.Failed, fmt.Sprintf("%d reasoning tokens of %d generated: with drafts SGLang counts them past the end token", *u.Reasoning, *u.Completion))
	}
	return b
}
