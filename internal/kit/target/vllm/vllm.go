// Package vllm is the adapter for vLLM's server.
package vllm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// Adapter is for vllm serve.
type Adapter struct{ target.Base }

// Name is "vllm".
func (Adapter) Name() string { return "vllm" }

// Facts: an end token's id is among those that are counted. Its own rate includes
// the time of the prompt, so the time from the first to the last token is used.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "vLLM's server",
		EndTokenCounted: new(true),
		DecodeBasis:     "n-1",
		ExactLength:     true,
		Exactly:         "ignore_eos and min_tokens",
		CacheOff:        "--no-enable-prefix-caching at the start; a cache_salt of its own in each request",
		Counts:          []string{"usage, in every frame", "token ids", "/metrics"},
	}
}

// Recognise knows it by the owner of its model and by its metrics.
func (Adapter) Recognise(p *target.Probe) bool {
	return p.OwnedBy() == "vllm" || strings.Contains(p.Text("/metrics"), "\nvllm:")
}

// devVersion is how a build between releases calls itself: 0.11.1.dev123+gabcdef0.
var devVersion = regexp.MustCompile(`\+(?:[a-z0-9]+\.)*g([0-9a-f]{7,40})\b`)

// Identify reads /v1/models and /version.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "vllm", Model: p.FirstModel(), Why: map[string]string{}}
	var m struct {
		Data []struct {
			MaxModelLen int `json:"max_model_len"`
		} `json:"data"`
	}
	if p.Object("/v1/models", &m) == nil && len(m.Data) > 0 {
		id.Context = target.Positive(m.Data[0].MaxModelLen)
	}
	if id.Context == nil {
		id.Why["context"] = "/v1/models has no max_model_len"
	}
	var v struct {
		Version string `json:"version"`
	}
	if err := p.Object("/version", &v); err != nil {
		id.Why["version"], id.Why["commit"] = err.Error(), err.Error()
	} else if id.Version = target.NonEmpty(v.Version); id.Version == nil {
		id.Why["version"], id.Why["commit"] = "/version is empty", "/version is empty"
	} else if c := devVersion.FindStringSubmatch(v.Version); c != nil {
		id.Commit = &c[1]
	} else {
		id.Why["commit"] = fmt.Sprintf("version %q is a release: only versions between releases name a commit", v.Version)
	}
	id.Why["format"] = "the API does not say in which format the weights are"
	id.Why["slots"] = "the API does not say how many sequences run at once"
	return id
}

// Command pins the context and one sequence, and turns the prefix cache off.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"vllm", "serve"}
	}
	argv := append([]string(nil), program...)
	if s.Model != "" {
		argv = append(argv, s.Model)
	}
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "--max-model-len")
	argv = s.Flag(argv, "1", "--max-num-seqs")
	argv = s.Flag(argv, "", "--no-enable-prefix-caching", "--enable-prefix-caching")
	argv = s.Flag(argv, "", "--enable-prompt-tokens-details")
	out := target.Command{Argv: append(argv, s.Args...)}
	if s.Threads != nil {
		out.Env = []string{"OMP_NUM_THREADS=" + strconv.Itoa(*s.Threads)}
	}
	if s.GPULayers != nil {
		return target.Command{}, errors.New("vllm has no setting for the layers on the GPU: use --gpu-memory-utilization or --cpu-offload-gb")
	}
	return out, nil
}

// Body asks for an exact length, for the count and the ids in every frame, and
// for a place of its own in the prefix cache.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repetition_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	body["stream_options"] = map[string]bool{"include_usage": true, "continuous_usage_stats": true}
	body["return_token_ids"] = true
	if !a.WarmCache {
		salt := sha256.Sum256([]byte(a.Prompt))
		body["cache_salt"] = hex.EncodeToString(salt[:16])
	}
	if a.IgnoreEOS {
		body["ignore_eos"], body["min_tokens"] = true, a.MaxTokens
	}
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.VLLMForm}
}

// Meter is /metrics, which is always there.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// names of its totals. vllm:prompt_tokens_total counts cached tokens too, so it is
// read as the whole prompt; older versions have the cached ones only as hits of
// the prefix cache.
var (
	names = target.CounterNames{
		Prompt: "vllm:prompt_tokens_total", Cached: "vllm:prompt_tokens_cached_total",
		PromptSeconds: "vllm:request_prefill_time_seconds_sum",
		Predicted:     "vllm:generation_tokens_total", PredictedSeconds: "vllm:request_decode_time_seconds_sum",
	}
	hits = target.CounterNames{Cached: "vllm:prefix_cache_hits_total", Predicted: names.Predicted}
)

// Metered reads its totals.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	c, err := target.MeteredBy(names, before, after)
	if err != nil {
		return c, err
	}
	if c.Cached == nil {
		if h, err := target.MeteredBy(hits, before, after); err == nil {
			c.Cached = h.Cached
		}
	}
	switch {
	case c.Cached == nil || c.Prompt == nil:
		c.Prompt = nil // how much of it was computed is not known
	default:
		c.Prompt = new(max(*c.Prompt-*c.Cached, 0))
	}
	return c, nil
}

// Metrics is the object beside the usage, which a server started with
// --enable-per-request-metrics sends. Times are in ms.
type Metrics struct {
	TimeToFirstTokenMS *float64 `json:"time_to_first_token_ms"` // from the moment that the request was scheduled
	GenerationTimeMS   *float64 `json:"generation_time_ms"`     // from the first token to the last
	QueueTimeMS        *float64 `json:"queue_time_ms"`
	MeanITLMS          *float64 `json:"mean_itl_ms"`
	TokensPerSecond    *float64 `json:"tokens_per_second"` // the time of the prompt included
}

func metrics(c *stream.Completion) *Metrics {
	raw, ok := c.Objects["metrics"]
	if !ok {
		return nil
	}
	m := new(Metrics)
	if json.Unmarshal(raw, m) != nil {
		return nil
	}
	return m
}

// OwnTime is the time of the tokens where the server sends it.
func (Adapter) OwnTime(c *stream.Completion) *stream.Timings {
	m := metrics(c)
	if m == nil || m.GenerationTimeMS == nil || c.Usage == nil || c.Usage.Completion == nil {
		return nil
	}
	return &stream.Timings{PredictedN: c.Usage.Completion, PredictedMS: m.GenerationTimeMS}
}

// Fields are vLLM's own part of a row.
type Fields struct {
	QueueMS            *float64 `json:"queue_ms"`               // waiting before it was scheduled
	EngineTTFTMS       *float64 `json:"engine_ttft_ms"`         // from scheduling to the first token
	GenerationMS       *float64 `json:"generation_ms"`          // first to last token
	EngineTokSOverall  *float64 `json:"engine_tok_s_overall"`   // as sent: output tokens over prompt and decode together
	DraftRounds        *int     `json:"draft_rounds"`           // spec_decode_num_drafts
	DraftsOffered      *int     `json:"drafts_offered"`         // drafted tokens
	DraftsAccepted     *int     `json:"drafts_accepted"`        // of these, accepted
	TokensPerRound     *float64 `json:"tokens_per_round"`       // 1 + accepted / rounds
	PrefixCacheQueries *int     `json:"prefix_cache_queries"`   // prompt tokens looked up
	PrefixCacheHits    *int     `json:"prefix_cache_hits"`      // of these, found
	PrefixHitRate      *float64 `json:"prefix_cache_hit_share"` // hits / queries, 0 to 1
}

// Block is from the metrics object and the difference of /metrics.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{}
	b := &target.Block{Name: "vllm", Fields: f, Why: map[string]string{}}
	null := func(why string, names ...string) {
		for _, n := range names {
			b.Why[n] = why
		}
	}
	if m := metrics(a.Stream); m != nil {
		f.QueueMS, f.EngineTTFTMS, f.GenerationMS, f.EngineTokSOverall = m.QueueTimeMS, m.TimeToFirstTokenMS, m.GenerationTimeMS, m.TokensPerSecond
		null("not in the metrics object", "queue_ms", "engine_ttft_ms", "generation_ms", "engine_tok_s_overall")
	} else {
		null("no metrics object in the stream: start vllm with --enable-per-request-metrics", "queue_ms", "engine_ttft_ms", "generation_ms", "engine_tok_s_overall")
	}
	drafts := []string{"draft_rounds", "drafts_offered", "drafts_accepted", "tokens_per_round"}
	prefix := []string{"prefix_cache_queries", "prefix_cache_hits", "prefix_cache_hit_share"}
	if a.DeltaErr != nil {
		null(a.DeltaErr.Error(), append(drafts, prefix...)...)
	} else {
		total := func(name string) *int {
			d, err := target.MeteredBy(target.CounterNames{Predicted: "vllm:" + name}, a.Before, a.After)
			if err != nil {
				return nil
			}
			return target.Whole(d.Predicted)
		}
		f.DraftRounds, f.DraftsOffered, f.DraftsAccepted = total("spec_decode_num_drafts_total"), total("spec_decode_num_draft_tokens_total"), total("spec_decode_num_accepted_tokens_total")
		null("no drafts: /metrics does not count them", drafts...)
		if f.DraftRounds != nil && f.DraftsAccepted != nil {
			if *f.DraftRounds > 0 {
				f.TokensPerRound = new(1 + float64(*f.DraftsAccepted)/float64(*f.DraftRounds))
			} else {
				null("no round with drafts was made", "tokens_per_round")
			}
		}
		f.PrefixCacheQueries, f.PrefixCacheHits = total("prefix_cache_queries_total"), total("prefix_cache_hits_total")
		null("not in /metrics", prefix...)
		if q, h := f.PrefixCacheQueries, f.PrefixCacheHits; q != nil && h != nil {
			if *q > 0 {
				f.PrefixHitRate = new(float64(*h) / float64(*q))
			} else {
				null("nothing was looked up: the prefix cache is off", "prefix_cache_hit_share")
			}
		}
	}
	b.Failed = identities(a, f)
	return b
}

// identities are relations that vLLM's own numbers must keep.
func identities(a *target.Account, f *Fields) []string {
	var out []string
	if u := a.Stream.Usage; u != nil && u.Completion != nil && a.DeltaErr == nil {
		if n := target.Whole(a.Delta.Predicted); n != nil && *n != *u.Completion {
			out = append(out, fmt.Sprintf("/metrics counts %d generated tokens in this run, usage says %d: other requests ran, or one of them is wrong", *n, *u.Completion))
		}
	}
	if f.DraftsOffered != nil && f.DraftsAccepted != nil && *f.DraftsAccepted > *f.DraftsOffered {
		out = append(out, fmt.Sprintf("%d drafted tokens were accepted of %d offered", *f.DraftsAccepted, *f.DraftsOffered))
	}
	if f.GenerationMS != nil && a.TotalMS != nil && *f.GenerationMS > *a.TotalMS+1 {
		out = append(out, fmt.Sprintf("generation_time_ms is %.1f, but the whole request took the client %.1f ms", *f.GenerationMS, *a.TotalMS))
	}
	return out
}
