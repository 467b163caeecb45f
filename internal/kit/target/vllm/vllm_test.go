package vllm

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

func answers(pairs ...string) *target.Probe {
	p := &target.Probe{Answers: map[string]target.Answer{}}
	for i := 0; i < len(pairs); i += 2 {
		p.Answers[pairs[i]] = target.Answer{Status: 200, Body: []byte(pairs[i+1])}
	}
	return p
}

const listed = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":8192}]}`

func TestIdentify(t *testing.T) {
	for version, commit := range map[string]string{
		"0.11.1":                          "",
		"0.11.1.dev12+gabcdef012":         "abcdef012",
		"0.11.1.dev12+gabcdef012.d202611": "abcdef012",
		"0.11.1.dev12+cu129.gabcdef012":   "abcdef012",
	} {
		p := answers("/v1/models", listed, "/version", `{"version":"`+version+`"}`)
		if !(Adapter{}).Recognise(p) {
			t.Error("not recognised")
		}
		id := Adapter{}.Identify(p)
		if id.Model != "m" || *id.Context != 8192 || *id.Version != version {
			t.Errorf("%s: %+v", version, id)
		}
		if (id.Commit == nil) != (commit == "") || id.Commit != nil && *id.Commit != commit || (id.Commit == nil) != (id.Why["commit"] != "") {
			t.Errorf("%s: commit %v, why %q", version, id.Commit, id.Why["commit"])
		}
	}
}

func TestCommand(t *testing.T) {
	c, err := Adapter{}.Command(target.Settings{Model: "org/m", Port: 8000, Context: 4096, Threads: new(8), Args: []string{"--max-num-seqs", "4", "--dtype=auto"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "vllm serve org/m --host 127.0.0.1 --port 8000 --max-model-len 4096 --no-enable-prefix-caching --enable-prompt-tokens-details --max-num-seqs 4 --dtype=auto"
	if got := strings.Join(c.Argv, " "); got != want || strings.Join(c.Env, " ") != "OMP_NUM_THREADS=8" {
		t.Errorf("got  %s %v\nwant %s", got, c.Env, want)
	}
	if _, err := (Adapter{}).Command(target.Settings{GPULayers: new(9)}); err == nil || !strings.Contains(err.Error(), "--gpu-memory-utilization") {
		t.Errorf("layers: %v", err)
	}
}

// Two prompts never share a place in the prefix cache, and one has always the same.
func TestSalt(t *testing.T) {
	salt := func(prompt string) any {
		return Adapter{}.Body(target.Ask{Prompt: prompt, MaxTokens: 8, IgnoreEOS: true}, "m")["cache_salt"]
	}
	if salt("a") == salt("b") || salt("a") != salt("a") {
		t.Error("salts do not follow the prompts")
	}
}

const before = `# TYPE vllm:generation_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000
vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 10
vllm:generation_tokens_total{engine="0",model_name="m"} 500
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 1.5
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 5.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 200
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 0
`

const after = `vllm:prompt_tokens_total{engine="0",model_name="m"} 1088
vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 26
vllm:generation_tokens_total{engine="0",model_name="m"} 540
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 1.6
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 5.39
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 115
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 345
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 224
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 88
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 16
`

func TestMetered(t *testing.T) {
	d, err := Adapter{}.Metered([]byte(before), []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	// 88 prompt tokens, 16 of them cached.
	if *d.Prompt != 72 || *d.Cached != 16 || *d.Predicted != 40 {
		t.Errorf("prompt %v, cached %v, predicted %v", *d.Prompt, *d.Cached, *d.Predicted)
	}
	// Older versions have the cached tokens only as hits of the prefix cache.
	old := func(s string) []byte {
		return []byte(strings.ReplaceAll(s, "vllm:prompt_tokens_cached_total", "vllm:x"))
	}
	if d, err := (Adapter{}).Metered(old(before), old(after)); err != nil || *d.Cached != 16 || *d.Prompt != 72 {
		t.Errorf("by hits: %+v, %v", d, err)
	}
	if _, err := (Adapter{}).Metered([]byte(after), []byte(before)); !errors.Is(err, target.ErrRestarted) {
		t.Errorf("counters that fall: %v", err)
	}
}

func TestBlock(t *testing.T) {
	a := &target.Account{
		Before: []byte(before), After: []byte(after), TotalMS: new(500.0),
		Stream: &stream.Completion{
			Usage:   &stream.Usage{Completion: new(40)},
			Objects: map[string]json.RawMessage{"metrics": []byte(`{"time_to_first_token_ms":95,"generation_time_ms":390.0,"queue_time_ms":0.5,"tokens_per_second":81.2,"mean_itl_ms":"none"}`)},
		},
	}
	a.Delta, a.DeltaErr = Adapter{}.Metered(a.Before, a.After)
	b := Adapter{}.Block(a)
	f := b.Fields.(*Fields)
	// mean_itl_ms is of another type: the whole object reads as absent, visibly.
	if f.GenerationMS != nil || !strings.Contains(b.Why["generation_ms"], "--enable-per-request-metrics") {
		t.Errorf("generation %v, why %q", f.GenerationMS, b.Why["generation_ms"])
	}
	if *f.DraftRounds != 15 || *f.DraftsOffered != 45 || *f.DraftsAccepted != 24 || *f.TokensPerRound != 1+24.0/15 {
		t.Errorf("drafts %+v", f)
	}
	if *f.PrefixCacheQueries != 88 || *f.PrefixHitRate != 16.0/88 || len(b.Failed) != 0 {
		t.Errorf("prefix cache %+v, failed %q", f, b.Failed)
	}
	a.Stream.Objects["metrics"] = []byte(`{"generation_time_ms":900.0}`)
	a.Stream.Usage.Completion = new(41)
	if b = (Adapter{}).Block(a); len(b.Failed) != 2 || !slices.ContainsFunc(b.Failed, func(s string) bool { return strings.Contains(s, "usage says 41") }) {
		t.Errorf("failed %q", b.Failed)
	}
}

func FuzzMetered(f *testing.F) {
	f.Add([]byte(before), []byte(after))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		d, err := Adapter{}.Metered(before, after)
		a := &target.Account{Before: before, After: after, Delta: d, DeltaErr: err, Stream: stream.Decode(nil)}
		if _, err := json.Marshal((Adapter{}).Block(a).Fields); err != nil {
			t.Error(err)
		}
	})
}
