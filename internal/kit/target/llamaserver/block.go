package llamaserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/figure"
	"assay/internal/kit/target"
)

// BlockName is the block's key in a row.
const BlockName = "llamacpp"

// Block is what the engine says of one request: the timings object of the stream
// where there is one, else its log, and beside them the log's other lines and the
// request's share of /metrics. Counts are of tokens, times in ms, rates in tokens
// a second. A nil field has its reason in the row's why.
type Block struct {
	From *string `json:"from"` // where the counts, times and rates below were read: timings or log

	Generated  *int     `json:"engine_generated"`
	DecodeMS   *float64 `json:"engine_decode_ms"`
	DecodeTokS *float64 `json:"engine_decode_tok_s"` // as the engine states it
	// DecodeBasis is what that rate divides by the time: n-1, n, or unknown where it is
	// neither.
	DecodeBasis *string  `json:"engine_decode_basis"`
	PromptN     *int     `json:"engine_prompt_n"` // prompt tokens computed; reused ones are not among them
	PromptMS    *float64 `json:"engine_prompt_ms"`
	PromptTokS  *float64 `json:"engine_prompt_tok_s"`
	Reused      *int     `json:"reused"` // prompt tokens taken from the slot's cache

	DraftsOffered  *int     `json:"drafts_offered"`   // tokens drafted
	DraftsAccepted *int     `json:"drafts_accepted"`  // of these; one that was accepted behind the end is among them
	DraftRounds    *int     `json:"draft_rounds"`     // passes that verified drafts, from /metrics
	DraftMeanLen   *float64 `json:"draft_mean_len"`   // as the log says it: 1 + accepted/draft_rounds
	AcceptedAt     []int    `json:"accepted_at"`      // accepted drafts by their position in a draft, from /metrics; positions after the last accepted one are left out
	TokensPerRound *float64 `json:"tokens_per_round"` // by tokens_per_round_rule: of all passes, those without drafts too
	PerRoundRule   *string  `json:"tokens_per_round_rule"`
	RoundsPerS     *float64 `json:"rounds_per_s"` // passes after the first token's over engine_decode_ms

	GraphsReused *int    `json:"graphs_reused"` // compute graphs that were used again: a total since the start
	Positions    *int    `json:"positions"`     // of the context in use at the end of the request
	Truncated    *bool   `json:"truncated"`     // the context was full before the answer ended
	CachePrompt  *bool   `json:"cache_prompt"`  // the request's own switch
	CacheLine    *string `json:"cache_line"`    // a line of the log in which the prompt cache is at work

	Metrics Metrics `json:"metrics"`

	// Server is what was learnt of it at its start.
	Server map[string]string `json:"server"`
}

// Metrics is the request's share of the totals in /metrics.
type Metrics struct {
	PromptN        *int     `json:"prompt_n"`
	PromptMS       *float64 `json:"prompt_ms"`
	Reused         *int     `json:"reused"`
	Generated      *int     `json:"engine_generated"`
	DecodeMS       *float64 `json:"decode_ms"`
	NDecode        *int     `json:"n_decode"` // passes of the model: one for each piece of the prompt, the last of which gives the first token, and one a round
	DraftsOffered  *int     `json:"drafts_offered"`
	DraftsAccepted *int     `json:"drafts_accepted"`
	LongestContext *int     `json:"n_tokens_max"` // most positions that any request so far had: a maximum, no share
}

// Block is the engine's own part of a row.
func (Adapter) Block(a *target.Account) *target.Block {
	f := Fill(a, form)
	return &target.Block{Name: BlockName, Fields: &f.Block, Why: f.Why, Failed: f.Failed, Notes: f.Notes}
}

// notes mark what the caches of prompts may have done to the time of the first
// token: the one in memory is saved and read back before the engine's own time of
// the prompt begins, and no count of cached tokens tells of it.
func (f *Filled) notes() map[string]string {
	note := ""
	switch {
	case f.CacheLine != nil:
		note = "the engine's cache of prompts was at work before the prompt was read: " + *f.CacheLine
	case strings.HasPrefix(f.Server["cache_ram"], "off"):
		return nil
	case strings.HasPrefix(f.Server["cache_ram"], "on"):
		note = "the engine's cache of prompts in memory is on (--cache-ram 0 turns it off): saving and restoring are within this time"
	default:
		note = "whether the engine's cache of prompts in memory is on is not known: saving and restoring would be within this time"
	}
	return map[string]string{"ttft_ms": note, "ttfv_ms": note, "prompt_tok_s_client": note}
}

// Form is how a server prints its totals in /metrics.
type Form struct {
	Prefix    string
	Digits    int     // significant digits; 0: all
	SecondsMS float64 // what is cut off its totals of seconds, at most
}

var form = Form{Prefix: prefix, Digits: digits}

// Filled is a block on its way into a row.
type Filled struct {
	Block
	Why    map[string]string // by field
	Failed []string          // identities
	Notes  map[string]string // by path in the row

	said said // the numbers that it was made of
}

// Fill makes the block of a server whose counters have the form.
func Fill(a *target.Account, form Form) *Filled {
	f := &Filled{Why: map[string]string{}, said: gather(a, form)}
	if f.Server = a.Found; f.Server == nil {
		f.Server = map[string]string{}
	}
	f.account(a)
	f.drafts()
	f.log(a)
	f.metrics()
	f.request(a)
	f.Failed = f.said.contradictions(a)
	f.Notes = f.notes()
	return f
}

// Null gives the reason for fields that are null.
func (f *Filled) Null(why string, names ...string) {
	for _, name := range names {
		f.Why[name] = why
	}
}

// account sets counts, times and rates.
func (f *Filled) account(a *target.Account) {
	fields := []string{"engine_generated", "engine_decode_ms", "engine_decode_tok_s", "engine_decode_basis", "engine_prompt_n", "engine_prompt_ms", "engine_prompt_tok_s"}
	t, l := f.said.timings, f.said.log
	switch {
	case t != nil:
		f.From = new("timings")
		f.Generated, f.DecodeMS, f.DecodeTokS = t.PredictedN, t.PredictedMS, t.PredictedPerSecond
		f.PromptN, f.PromptMS, f.PromptTokS = t.PromptN, t.PromptMS, t.PromptPerSecond
		f.Reused = t.CacheN
	case l != nil:
		f.From = new("log")
		f.Generated, f.DecodeMS, f.DecodeTokS = l.Generated, l.DecodeMS, l.DecodeRate
		f.PromptN, f.PromptMS, f.PromptTokS = l.PromptN, l.PromptMS, l.PromptRate
	default:
		why := "neither timings in the stream nor a line of the log: " + a.LogErr.Error()
		f.Null(why, append(fields, "from")...)
	}
	if f.Reused == nil && a.Stream.Usage != nil {
		f.Reused = a.Stream.Usage.Cached
	}
	if f.Reused == nil {
		f.Null("neither timings nor usage say it", "reused")
	}
	if f.DecodeBasis = basisOf(f.Generated, f.DecodeMS, f.DecodeTokS); f.From == nil {
		return
	}
	for i, missing := range []bool{f.Generated == nil, f.DecodeMS == nil, f.DecodeTokS == nil, false, f.PromptN == nil, f.PromptMS == nil, f.PromptTokS == nil} {
		if missing {
			f.Null("not in the "+*f.From, fields[i])
		}
	}
	if f.DecodeBasis == nil {
		f.Null("it takes two tokens, their time and a rate to tell", "engine_decode_basis")
	}
}

// basisOf finds what a rate divides by its time.
func basisOf(n *int, ms, rate *float64) *string {
	if n == nil || ms == nil || rate == nil || *n < 2 || *ms <= 0 {
		return nil
	}
	basis := figure.BasisUnknown
	for _, b := range []struct {
		of    figure.Basis
		count int
	}{{figure.BasisIntervals, *n - 1}, {figure.BasisTokens, *n}} {
		if got := float64(b.count) / *ms * 1e3; near(got, *rate, 0.005 + got*0.005 / *ms) {
			basis = b.of
			break
		}
	}
	return new(string(basis))
}

// drafts sets what is known of speculative decoding.
func (f *Filled) drafts() {
	s := &f.said
	f.DraftsOffered, f.DraftsAccepted = s.drafts()
	f.DraftRounds = s.share("spec_decode_num_drafts_total")
	f.DraftMeanLen = s.more.meanLen
	f.AcceptedAt = s.acceptedAt()
	perRound := []string{"tokens_per_round", "tokens_per_round_rule", "rounds_per_s"}
	switch {
	case f.DraftsOffered == nil || f.DraftsAccepted == nil:
		f.DraftsOffered, f.DraftsAccepted = nil, nil
		f.Null("no drafts are told of: none were made, or this version does not count them", "drafts_offered", "drafts_accepted")
		f.Null("no drafts are told of", perRound...)
	case *f.DraftsOffered == 0:
		f.Null("no drafts were made", perRound...)
	case f.Generated == nil || *f.DraftsAccepted >= *f.Generated:
		f.Null("as many drafts were accepted as tokens were generated, or their number is not known", perRound...)
	default:
		rounds := *f.Generated - *f.DraftsAccepted
		f.TokensPerRound = new(float64(*f.Generated) / float64(rounds))
		f.PerRoundRule = new("derived: generated / (generated - drafts accepted)")
		if f.DecodeMS != nil && *f.DecodeMS > 0 {
			f.RoundsPerS = new(float64(rounds-1) / *f.DecodeMS * 1e3)
		} else {
			f.Null("the engine tells no time", "rounds_per_s")
		}
	}
	if f.DraftRounds == nil {
		f.Null(s.whyNot("spec_decode_num_drafts_total"), "draft_rounds")
	}
	if f.DraftMeanLen == nil {
		f.Null("no line of the log has it", "draft_mean_len")
	}
	if f.AcceptedAt == nil {
		f.Null(s.whyNot("spec_decode_num_accepted_tokens_per_pos_total"), "accepted_at")
	}
}

// log sets what only the log says.
func (f *Filled) log(a *target.Account) {
	m := &f.said.more
	f.GraphsReused, f.Positions, f.Truncated, f.CacheLine = m.graphs, m.positions, m.truncated, m.cache
	why := "no line of the log has it"
	if a.Log == nil && a.LogErr != nil {
		why = a.LogErr.Error()
	}
	for name, missing := range map[string]bool{"graphs_reused": m.graphs == nil, "positions": m.positions == nil, "truncated": m.truncated == nil} {
		if missing {
			f.Null(why, name)
		}
	}
	if m.cache == nil {
		if a.Log != nil {
			why = "no line of the log tells of the prompt cache at work"
		}
		f.Null(why, "cache_line")
	}
}

// metrics sets the request's share of the totals.
func (f *Filled) metrics() {
	s, m := &f.said, &f.Metrics
	ms := func(name string) *float64 {
		if d := s.difference(name); d != nil && d.off <= max(d.v, 0)/200 {
			return new(d.v * 1e3)
		}
		return nil
	}
	m.PromptN, m.PromptMS = s.share("prompt_tokens_total"), ms("prompt_seconds_total")
	m.Reused, m.Generated = s.share("prompt_tokens_cached_total"), s.share("tokens_predicted_total")
	m.DecodeMS, m.NDecode = ms("tokens_predicted_seconds_total"), s.share("n_decode_total")
	m.DraftsOffered, m.DraftsAccepted = s.share("spec_decode_num_draft_tokens_total"), s.share("spec_decode_num_accepted_tokens_total")
	if v, ok := s.after["n_tokens_max"]; ok {
		m.LongestContext = target.Whole(&v)
	}
	for _, x := range []struct {
		field, series string
		missing       bool
	}{
		{"prompt_n", "prompt_tokens_total", m.PromptN == nil},
		{"prompt_ms", "prompt_seconds_total", m.PromptMS == nil},
		{"reused", "prompt_tokens_cached_total", m.Reused == nil},
		{"engine_generated", "tokens_predicted_total", m.Generated == nil},
		{"decode_ms", "tokens_predicted_seconds_total", m.DecodeMS == nil},
		{"n_decode", "n_decode_total", m.NDecode == nil},
		{"drafts_offered", "spec_decode_num_draft_tokens_total", m.DraftsOffered == nil},
		{"drafts_accepted", "spec_decode_num_accepted_tokens_total", m.DraftsAccepted == nil},
		{"n_tokens_max", "n_tokens_max", m.LongestContext == nil},
	} {
		if x.missing {
			f.Null(s.whyNot(x.series), "metrics."+x.field)
		}
	}
}

// request sets what the request itself asked for.
func (f *Filled) request(a *target.Account) {
	var q struct {
		CachePrompt *bool `json:"cache_prompt"`
	}
	if json.Unmarshal(a.Request, &q) == nil && q.CachePrompt != nil {
		f.CachePrompt = q.CachePrompt
		return
	}
	f.Null("the request does not say it", "cache_prompt")
}

// acceptedAt is how many drafts were accepted at each position of a draft.
func (s *said) acceptedAt() []int {
	const name = "spec_decode_num_accepted_tokens_per_pos_total"
	var out []int
	for key := range s.after {
		series, label, ok := strings.Cut(key, "{")
		if !ok || series != name {
			continue
		}
		at, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(label, `position="`), `"}`))
		n := s.share(key)
		if err != nil || at < 0 || at >= maxPositions || n == nil {
			return nil
		}
		if at >= len(out) {
			out = append(out, make([]int, at+1-len(out))...)
		}
		out[at] = *n
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = slices.Delete(out, len(out)-1, len(out))
	}
	return out
}

// maxPositions bounds the length of a draft.
const maxPositions = 1024

// whyNot says why a series gave no share.
func (s *said) whyNot(name string) string {
	switch {
	case s.metricsErr != nil:
		return s.metricsErr.Error()
	case !s.has(name):
		return "not in /metrics"
	}
	return fmt.Sprintf("the total is printed with %d digits: what one run added is not exact", s.form.Digits)
}
