package row

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/host"
	"assay/internal/kit/stream"
)

// DecodeRule says in words how decode_tok_s of rule timing-1 is computed.
const DecodeRule = "timing-1: client clock: (N_last - N_first) / (t_last - t_first), from the end of the first burst of token frames to the last token frame; null when a check fails, the value then kept in decode_tok_s_withheld"

// countRule says in words how the verdict is reached.
const countRule = "counts of one origin (usage, timings, log, /metrics) must be equal, after the offset that the engine's adapter documents; counts of another origin (token ids, the kept text tokenised once and whole) must lie within the tolerance"

// figurePaths maps the names that package figure uses to paths, where the two
// differ.
var figurePaths = map[string]string{
	"gap_ms_median": "gaps.median_ms",
	"gap_ms_p90":    "gaps.p90_ms",
	"gap_ms_p99":    "gaps.p99_ms",
	"gap_ms_max":    "gaps.max_ms",
}

// pathOf is the path in a row of what package figure calls name.
func pathOf(name string) string {
	if path, ok := figurePaths[name]; ok {
		return path
	}
	return name
}

// Fill sets every field that follows from the evidence of a run, the status
// among them. It is a pure function of its arguments, so that a row can be
// checked by filling another and comparing.
func (r *Row) Fill(in *figure.Inputs, f *figure.Figures) {
	c := in.Completion
	if c == nil {
		c = stream.Decode(nil)
	}
	r.TimingRule, r.DecodeRule = f.Rule, DecodeRule
	r.outcome(f)
	r.frames(c)
	r.tokens(in)
	r.figures(f)
	r.window(&f.Window)
	r.count(&in.Count)
	r.timings(c.Timings, &in.Engine, f.DecodeBasis)
	r.flags(in, f)
}

func (r *Row) outcome(f *figure.Figures) {
	r.Status, r.FailKind, r.Error = OK, nil, nil
	if !f.Failed {
		return
	}
	r.Status = Failed
	for _, reason := range f.Withheld {
		fails := slices.ContainsFunc(figure.Table, func(c figure.Check) bool { return c.Code == reason.Code && c.Fails })
		if fails {
			r.FailKind, r.Error = new(string(reason.Code)), new(reason.Why)
			return
		}
	}
}

func (r *Row) frames(c *stream.Completion) {
	r.Frames = new(c.DataFrames)
	r.TokenFrames = new(len(c.Tokens))
	r.ContentFrames = new(c.ContentFrames)
	r.ThinkingSeen = new(c.Reasoning != "")
	r.CompletionSHA256 = new(hash([]byte(c.Joined)))
	r.CompletionHead = new(headOf(c.Joined))
	r.FinishReason = textOrNull(c.FinishReason)
	if r.FinishReason == nil {
		r.Null("no finish_reason came", "finish_reason")
	}
}

// headOf is the beginning of a text, for people who look at a row.
func headOf(s string) string {
	const runes = 80
	n := 0
	for at := range s {
		if n == runes {
			return strings.ToValidUTF8(s[:at], "\uFFFD")
		}
		n++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (r *Row) tokens(in *figure.Inputs) {
	r.PromptTokens, r.CachedTokens = in.PromptTokens, in.CachedTokens
	if r.PromptTokens == nil {
		r.Null("the server gives no count of prompt tokens", "prompt_tokens")
	}
	if r.CachedTokens == nil {
		r.Null("the server does not say what it took from a cache", "cached_tokens")
	}
	r.CompletionTokens = in.Count.Completion
	switch {
	case in.Count.Completion == nil:
		r.Null("no source of the token count could be read", "completion_tokens")
	case in.Count.Estimated:
		r.CompletionTokens = nil
		r.Null("the server gives no count; ours is in count_check", "completion_tokens")
	}
}

func (r *Row) figures(f *figure.Figures) {
	r.Sources, r.Notes, r.Withheld = map[string]string{}, map[string]string{}, nil
	values := map[string]**float64{
		"ttft_ms": &r.TTFTMS, "ttfv_ms": &r.TTFVMS,
		"decode_tok_s": &r.DecodeTokS, "decode_tok_s_simple": &r.DecodeTokSSimple,
		"prompt_tok_s_client": &r.PromptTokSClient,
		"decode_tok_s_server": &r.DecodeTokSServer, "prompt_tok_s_server": &r.PromptTokSServer,
		"gaps.median_ms": &r.Gaps.MedianMS, "gaps.p90_ms": &r.Gaps.P90MS, "gaps.p99_ms": &r.Gaps.P99MS, "gaps.max_ms": &r.Gaps.MaxMS,
		"tokens_per_round": &r.TokensPerRound, "rounds_per_s": &r.RoundsPerS,
	}
	r.Telemetry.energies(values)
	for _, named := range f.All() {
		path, fig := pathOf(named.Name), named.Figure
		*values[path] = fig.Value
		if fig.Source != "" {
			r.Sources[path] = fig.Source
		}
		if fig.Note != "" {
			r.Notes[path] = fig.Note
		}
		if fig.Value == nil {
			r.Null(fig.Why, path)
		}
		if len(fig.Codes) > 0 {
			r.withhold(path, named, f.Withheld)
		}
	}
	r.DecodeTokSWithheld, r.DecodeTokSServerWithheld = f.Decode.Withheld, f.DecodeServer.Withheld
	r.Gaps.N = new(f.GapMedian.Samples)
}

func (r *Row) withhold(path string, named figure.Named, reasons []figure.Reason) {
	fig := named.Figure
	w := Withheld{Figure: path, Value: fig.Withheld, Unit: fig.Unit}
	var why []string
	for _, code := range fig.Codes {
		w.Codes = append(w.Codes, string(code))
		for _, reason := range reasons {
			if reason.Code == code {
				why = append(why, reason.WhyOf[named.Name])
			}
		}
	}
	w.Why = strings.Join(why, "; ")
	r.Withheld = append(r.Withheld, w)
}

func (r *Row) window(w *figure.Window) {
	ms := func(ns *int64) *float64 {
		if ns == nil {
			return nil
		}
		return new(float64(*ns) / 1e6)
	}
	r.Decode = Decode{
		NFirst: w.NFirst, NLast: w.NLast, NLow: w.NLow, NHigh: w.NHigh, NSource: textOrNull(w.NSource),
		TFirstMS: ms(w.TFirstNS), TLastMS: ms(w.TLastNS), BurstGapMS: w.MedianMS,
		Bursts: new(w.Bursts), Intervals: new(w.Intervals),
	}
	if w.TFirstNS == nil {
		*r.Decode.Intervals = 0 // there is no burst, so none lies between
		r.Null("no frame carries text", "decode")
		return
	}
	if w.NFirst == nil {
		r.Null(w.NSource, "decode.n_first", "decode.n_last", "decode.n_low", "decode.n_high")
	}
	if w.MedianMS == nil {
		r.Null("all text arrived in one burst", "decode.burst_gap_ms")
	}
}

func (r *Row) count(c *count.Result) {
	out := CountCheck{
		Verdict:          new(string(c.Verdict)),
		CompletionTokens: c.Completion,
		Against:          map[string]int{},
		Gaps:             map[string]int{},
		Tolerance:        new("max(3 % of the reference, 2 tokens)"),
		Rule:             new(countRule),
		Why:              textOrNull(c.Why),
		From:             textOrNull(c.From),
	}
	for _, s := range c.Sources {
		if s.Value == nil {
			out.Unread = append(out.Unread, Unread{s.Name, s.Why})
			continue
		}
		out.Sources = append(out.Sources, CountSource{s.Name, string(s.Origin), *s.Value, s.Offset})
		if s.Name == c.From {
			continue
		}
		out.Against[s.Name] = *s.Value
		if s.Gap != nil {
			out.Gaps[s.Name] = *s.Gap
		}
	}
	if out.From == nil {
		r.Null("no source of the token count could be read", "count_check.completion_tokens", "count_check.from")
	}
	if out.Why == nil {
		r.Null("the count was not judged", "count_check.why")
	}
	r.CountCheck = out
}

// timings sets the server's own times and rates. Times a token are computed
// from its count and time.
func (r *Row) timings(t *stream.Timings, e *figure.Engine, basis figure.Basis) {
	r.ServerTimings, r.EngineRates = ServerTimings{}, EngineRates{}
	if t != nil {
		r.ServerTimings = ServerTimings{
			CacheN: t.CacheN, PromptN: t.PromptN, PromptMS: t.PromptMS, PromptPerSecond: t.PromptPerSecond,
			PredictedN: t.PredictedN, PredictedMS: t.PredictedMS, PredictedPerSecond: t.PredictedPerSecond,
			PromptPerTokenMS: perToken(t.PromptMS, t.PromptN), PredictedPerTokenMS: perToken(t.PredictedMS, t.PredictedN),
			DraftN: t.DraftN, DraftNAccepted: t.DraftAccepted,
		}
	}
	if hasNil(reflect.ValueOf(r.ServerTimings)) {
		r.Null("the stream's timings lack what is null here", "server_timings")
	}
	r.EngineRates.Prompt = r.engineRate("prompt", EngineRate{
		ReportedTokS: r.ServerTimings.PromptPerSecond, TokS: r.PromptTokSServer, Tokens: e.PromptN, MS: e.PromptMS, Source: textOrNull(e.Source),
	}, figure.BasisTokens)
	r.EngineRates.Decode = r.engineRate("decode", EngineRate{
		ReportedTokS: e.ReportedRate, TokS: r.DecodeTokSServer, Tokens: e.Generated, MS: e.DecodeMS, Source: textOrNull(e.Source),
	}, basis)
}

// engineRate completes a rate and gives the reasons for what it lacks.
func (r *Row) engineRate(name string, e EngineRate, basis figure.Basis) EngineRate {
	path := "engine_rates." + name
	if e.Tokens == nil || e.MS == nil {
		r.Null("the engine gives no count and time of its own", path)
		return e
	}
	if basis == "" {
		basis = figure.BasisUnknown
	}
	e.Basis = new(string(basis))
	if e.TokS == nil {
		r.Null(r.Why[name+"_tok_s_server"], path+".tok_s")
	}
	if e.ReportedTokS == nil {
		r.Null("the engine states no rate", path+".reported_tok_s")
	}
	if e.Source == nil {
		r.Null("not named", path+".source")
	}
	return e
}

func perToken(ms *float64, n *int) *float64 {
	if ms == nil || n == nil || *n == 0 {
		return nil
	}
	return new(*ms / float64(*n))
}

func (r *Row) flags(in *figure.Inputs, f *figure.Figures) {
	r.Flags, r.ShortCompletion, r.CacheFlag = nil, nil, nil
	switch {
	case in.Asked == 0:
		r.Null("no number of tokens was asked for", "short_completion")
	case in.Count.Completion == nil:
		r.Null("the number of tokens is not known", "short_completion")
	default:
		r.ShortCompletion = new(f.Short)
	}
	if f.Short {
		r.Flags = append(r.Flags, FlagShort)
	}
	if f.LeaveOut {
		r.Flags = append(r.Flags, FlagLeftOut)
	}
	for _, w := range f.Withheld {
		if w.Code == figure.CachedPrompt {
			r.CacheFlag = new(w.Why)
			return
		}
	}
	r.CacheFlag = textOrNull(f.PromptClient.Note)
}

// SetHost sets the machine, with the reasons for what could not be read.
func (r *Row) SetHost(h host.Host) {
	r.Host = Host{
		OS: h.OS, Distribution: h.Distribution, Kernel: h.Kernel, Arch: h.Arch,
		CPUModel: h.CPUModel, Sockets: h.Sockets, Cores: h.Cores, CPUs: h.CPUs,
		Governor: h.Governor, MemoryBytes: h.MemoryBytes, Virtualisation: h.Virtualisation,
		Caches: h.Caches, NUMANodes: h.NUMANodes, SMT: h.SMT, Microcode: h.Microcode, Mitigations: h.Mitigations,
		HugePages: h.HugePages, Clock: h.Clock, SwapBytes: h.SwapBytes,
	}
	for field, why := range h.Why {
		r.Null(why, "host."+field)
	}
	if h.GPUs == nil {
		return
	}
	r.Host.GPUs = []GPU{}
	for i, g := range h.GPUs {
		r.Host.GPUs = append(r.Host.GPUs, GPU{g.Vendor, g.Name, g.PCIID, g.Slot, g.Driver, g.DriverVersion, g.MemoryBytes})
		for field, why := range g.Why {
			r.Null(why, fmt.Sprintf("host.gpus[%d].%s", i, field))
		}
	}
}

// SetModelFiles sets what the machine said of the model's files before the
// start; nil: nothing is known, because of why.
func (r *Row) SetModelFiles(m *host.Model, why string) {
	if m == nil {
		r.Null(why, "host.model_disk", "page_cache_percent")
		return
	}
	d := &m.Disk
	r.Host.ModelDisk = ModelDisk{FileSystem: d.FileSystem, Kind: d.Kind, Device: d.Device, Below: d.Below, Model: d.Model, Rotational: d.Rotational}
	for field, why := range d.Why {
		r.Null(why, "host.model_disk."+field)
	}
	if r.PageCachePercent = m.PageCachePercent; m.PageCachePercent == nil {
		r.Null(m.Why, "page_cache_percent")
	}
}

// SetEngineBlock sets the block of the row's engine under a name that is none of a
// row's own: typed for ours, as it came for others.
func (r *Row) SetEngineBlock(name string, block any) error {
	if own, ok := block.(*EngineBlock); ok {
		r.Assay = own
		return nil
	}
	raw, err := json.Marshal(block)
	if err != nil {
		return fmt.Errorf("row %s: block of engine %s: %w", r.RowID, r.Engine, err)
	}
	if r.Extra == nil {
		r.Extra = map[string]map[string]json.RawMessage{}
	}
	if r.Extra[""] == nil {
		r.Extra[""] = map[string]json.RawMessage{}
	}
	r.Extra[""][name] = raw
	return nil
}
