package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"assay/internal/chat/reply"
	"assay/internal/engine"
	"assay/internal/engine/sample"
	"assay/internal/tokenizer"
)

// Bounds of what one request may ask for. A stop string costs time at each
// token, a candidate costs bytes.
const (
	maxStops   = 64
	maxStopLen = 4096
	maxTop     = 20
	maxBiases  = 10_000
)

// job is one decoded completion request, of either endpoint.
type job struct {
	engine.Request
	stops           []string
	form            form
	format          reply.Format // of a chat's answer
	reading         reply.Options
	stream          bool
	progress        bool // frames that tell how far the prompt was read
	includeUsage    bool
	timingsPerToken bool
	tokenIDs        bool // vLLM's return_token_ids
	nativeTokens    bool // llama-server's return_tokens
}

// marks are the control tokens that the job's answer shows as text, for it to be
// read.
func (j *job) marks() []string { return j.format.Marks(j.reading) }

// readJob reads what both endpoints have in common; the prompt and logprobs are
// theirs. The vocabulary is what token ids are checked against.
func readJob(f *fields, vocabulary int) (job, *apiError) {
	j := job{
		Request: engine.Request{
			MaxTokens: readMaxTokens(f),
			Sampling:  readSampling(f, vocabulary),
			IgnoreEOS: f.bool("ignore_eos", false),
			Logprobs:  -1,
			NoReuse:   !f.bool("cache_prompt", true),
		},
		stops:           readStops(f),
		stream:          f.bool("stream", false),
		includeUsage:    readIncludeUsage(f),
		timingsPerToken: f.bool("timings_per_token", false),
		tokenIDs:        f.bool("return_token_ids", false),
	}
	j.progress = f.bool("return_progress", false) && j.stream
	j.form = readForm(f)
	refuseUnsupported(f)
	return j, f.err
}

// readMaxTokens reads the three names of one limit: OpenAI's two and
// llama-server's. Two that disagree are an error, as either may be meant.
func readMaxTokens(f *fields) int {
	limit, from := -1, ""
	for _, name := range []string{"max_completion_tokens", "max_tokens", "n_predict"} {
		if f.get(name) == nil {
			continue
		}
		n := f.int(name, -1, -1, math.MaxInt)
		switch {
		case n == 0:
			f.fail(name, "0 is not a number of tokens to generate (want at least 1, or -1 for as many as fit)")
		case from != "" && n != limit:
			f.fail(name, "%d disagrees with %s: %d, which is the same setting", n, from, limit)
		}
		limit, from = n, name
	}
	return limit
}

func readSampling(f *fields, vocabulary int) sample.Params {
	d := sample.Defaults()
	p := sample.Params{
		Seed:             readSeed(f),
		Temperature:      f.float("temperature", d.Temperature),
		TopK:             f.int("top_k", d.TopK, math.MinInt32, math.MaxInt32),
		TopP:             f.float("top_p", d.TopP),
		MinP:             f.float("min_p", d.MinP),
		RepeatPenalty:    f.float("repeat_penalty", d.RepeatPenalty),
		RepeatLastN:      f.int("repeat_last_n", d.RepeatLastN, math.MinInt32, math.MaxInt32),
		PresencePenalty:  f.float("presence_penalty", d.PresencePenalty),
		FrequencyPenalty: f.float("frequency_penalty", d.FrequencyPenalty),
		LogitBias:        readBias(f, vocabulary),
	}
	p.TopK = max(p.TopK, 0) // llama-server takes any top_k <= 0 as "all"
	if err := p.Validate(); err != nil {
		name, what, _ := strings.Cut(err.Error(), ": ")
		f.fail(name, "%s", what)
	}
	return p
}

// readSeed reads the seed; without one, or with llama-server's -1, it is drawn,
// so that repeated requests differ.
func readSeed(f *fields) uint64 {
	raw := f.get("seed")
	if raw == nil {
		return rand.Uint64()
	}
	if v, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
		return v
	}
	switch v, ok := asInt(raw); {
	case !ok:
		f.fail("seed", "%s is not a whole number of 64 bits", show(raw))
		return 0
	case v == -1:
		return rand.Uint64()
	default:
		return uint64(v)
	}
}

// readBias reads logit_bias in OpenAI's form, {"id": bias}, and llama-server's,
// [[id, bias or false]], where false bans a token.
func readBias(f *fields, vocabulary int) map[int32]float32 {
	raw := f.get("logit_bias")
	if raw == nil {
		return nil
	}
	biases := map[int32]float32{}
	put := func(where, id string, value json.RawMessage) {
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil || n < 0 || n >= int64(vocabulary) {
			f.fail("logit_bias", "%s: %q is not a token id (want 0 to %d)", where, id, vocabulary-1)
			return
		}
		bias, ok := asFloat(value)
		if string(value) == "false" {
			bias, ok = math.Inf(-1), true
		}
		if !ok {
			f.fail("logit_bias", "%s: %s is not a number", where, show(value))
			return
		}
		biases[int32(n)] = float32(bias)
	}
	switch kind(raw) {
	case "an object":
		var byID map[string]json.RawMessage
		_ = json.Unmarshal(raw, &byID) // it is part of a document that has been parsed
		if len(byID) > maxBiases {
			f.fail("logit_bias", "%d entries are more than the limit of %d", len(byID), maxBiases)
			return nil
		}
		for id, value := range byID {
			put(strconv.Quote(id), id, value)
		}
	case "an array":
		var pairs []json.RawMessage
		_ = json.Unmarshal(raw, &pairs)
		if len(pairs) > maxBiases {
			f.fail("logit_bias", "%d entries are more than the limit of %d", len(pairs), maxBiases)
			return nil
		}
		for i, p := range pairs {
			var pair []json.RawMessage
			if json.Unmarshal(p, &pair) != nil || len(pair) != 2 {
				f.fail("logit_bias", "[%d] is not a pair of token id and bias", i)
				return nil
			}
			put(fmt.Sprintf("[%d]", i), string(pair[0]), pair[1])
		}
	default:
		f.fail("logit_bias", "%s is neither an object nor an array of pairs", kind(raw))
	}
	return biases
}

func readStops(f *fields) []string {
	raw := f.get("stop")
	if raw == nil {
		return nil
	}
	items := []json.RawMessage{raw}
	if kind(raw) == "an array" {
		items = nil
		_ = json.Unmarshal(raw, &items)
	}
	if len(items) > maxStops {
		f.fail("stop", "%d strings are more than the limit of %d", len(items), maxStops)
		return nil
	}
	stops := make([]string, 0, len(items))
	for i, item := range items {
		s, ok := asString(item)
		switch {
		case !ok:
			f.fail("stop", "%s is not a string (want a string or an array of strings)", kind(item))
		case s == "":
			f.fail("stop", "string %d is empty, which would match at once", i)
		case len(s) > maxStopLen:
			f.fail("stop", "string %d has %d bytes, more than the limit of %d", i, len(s), maxStopLen)
		}
		stops = append(stops, s)
	}
	return stops
}

func readIncludeUsage(f *fields) bool {
	raw := f.get("stream_options")
	if raw == nil {
		return false
	}
	var sub fields
	if kind(raw) != "an object" || json.Unmarshal(raw, &sub.raw) != nil {
		f.fail("stream_options", "%s is not an object", kind(raw))
		return false
	}
	include := sub.bool("include_usage", false)
	if sub.err != nil {
		f.fail("stream_options", "%s", sub.err.Message)
	}
	return include
}

// unsupported are members that would change the answer and that the engine does
// not have, each with the values that ask for nothing. Any other value is
// refused: what is quietly ignored would be answered wrongly.
var unsupported = []struct {
	name      string
	isNeutral func(raw json.RawMessage) bool
}{
	{"n", is(1)},
	{"best_of", is(1)},
	{"echo", isFalse},
	{"suffix", isEmpty},
	{"grammar", isEmpty},
	{"functions", isEmpty},
	{"n_probs", is(0)},
	{"mirostat", is(0)},
	{"typical_p", is(1)},
	{"top_n_sigma", isAtMostZero},
	{"xtc_probability", is(0)},
	{"dynatemp_range", is(0)},
	{"dry_multiplier", is(0)},
}

func refuseUnsupported(f *fields) {
	for _, u := range unsupported {
		if raw := f.get(u.name); raw != nil && !u.isNeutral(raw) {
			f.fail(u.name, "%s is not supported here", brief(raw))
		}
	}
}

// brief quotes a short value, and names the kind of a long one.
func brief(raw json.RawMessage) string {
	if len(raw) > 60 {
		return kind(raw)
	}
	return string(raw)
}

func is(want float64) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool { v, ok := asFloat(raw); return ok && v == want }
}

func isAtMostZero(raw json.RawMessage) bool { v, ok := asFloat(raw); return ok && v <= 0 }

func isFalse(raw json.RawMessage) bool { return string(raw) == "false" }

func isEmpty(raw json.RawMessage) bool {
	return string(raw) == `""` || string(raw) == "[]" || string(raw) == "{}"
}

// readTokens reads an array of token ids.
func readTokens(f *fields, name string, raw json.RawMessage, vocabulary int) []int32 {
	var items []json.RawMessage
	if kind(raw) != "an array" || json.Unmarshal(raw, &items) != nil {
		f.fail(name, "%s is not an array of token ids", kind(raw))
		return nil
	}
	ids := make([]int32, len(items))
	for i, item := range items {
		id, ok := asInt(item)
		if !ok || id < 0 || id >= int64(vocabulary) {
			f.fail(name, "element %d, %s, is not a token id (want 0 to %d)", i, show(item), vocabulary-1)
			return nil
		}
		ids[i] = int32(id)
	}
	return ids
}

// EncodePrompt turns a prompt's text into tokens. A template that writes the
// start token itself must not have it twice.
func EncodePrompt(t *tokenizer.Tokenizer, text string) []int32 {
	ids := t.Encode(text, tokenizer.Options{AddSpecial: true, ParseSpecial: true})
	if bos, ok := t.BOS(); ok && len(ids) > 1 && ids[0] == bos && ids[1] == bos {
		ids = ids[1:]
	}
	return ids
}
