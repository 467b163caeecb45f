package strata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// block is the engine's part of a row. The keys of row.EngineBlock are those of the
// rows that the format was first used with. hit_rate_log is in percent, as the log
// prints it; metrics.hit_rate is a share of one, as /metrics does. Their
// definition: hit rate = hits/lookups, where lookups leave out what the GPU read
// over PCIe; pcie share = offloaded/routed.
type block struct {
	row.EngineBlock
	PromptTotal  *int             `json:"prompt_total"` // tokens of the prompt, by the log
	PromptRead   *int             `json:"prompt_read"`  // of these, read; fewer than all where it was cancelled
	Cancelled    *bool            `json:"cancelled"`
	Parts        *int             `json:"parts"` // times that the engine was had to go on, the first included
	SuffixDrafts *suffixDrafts    `json:"suffix_drafts"`
	KVStreaming  *kvStreaming     `json:"kv_streaming"`
	Blobs        *blobs           `json:"blobs"`
	Engine       *json.RawMessage `json:"engine"` // the engine's settings and state, as /metrics has them after the run
}

// suffixDrafts are drafts by looking up what was said before.
type suffixDrafts struct {
	Windows  *int64 `json:"windows"`
	Accepted *int64 `json:"accepted"`
	Offered  *int64 `json:"offered"`
	Line     string `json:"line"`
}

// kvStreaming is reading the KV cache where part of it is in RAM.
type kvStreaming struct {
	HitPercent *float64 `json:"hit_percent"` // of block reads, found in VRAM
	BlockReads *int64   `json:"block_reads"`
	RAMMiB     *float64 `json:"ram_mib"` // read from RAM
	Line       string   `json:"line"`
}

// blobs are experts read from below VRAM.
type blobs struct {
	RAM    *int     `json:"ram"`
	File   *int     `json:"file"`
	FileMB *float64 `json:"file_mb"`
}

const roundRule = "derived: engine_generated / (engine_generated - drafts_accepted): a round gives the drafts that it accepted and one token more; the engine prints no count of rounds"

// Block has the engine's log lines and the request's entry in /metrics.
func (Adapter) Block(a *target.Account) *target.Block {
	m := &maker{why: map[string]string{}}
	if a.LogErr != nil {
		m.logWhy = "the log: " + a.LogErr.Error()
	} else {
		m.lines = readLines(a.Log)
		m.log(&a.Record)
	}
	r, err := read(a.Before, a.After)
	switch {
	case a.DeltaErr != nil:
		m.metricsWhy = a.DeltaErr.Error()
	case err != nil:
		m.metricsWhy = err.Error()
	default:
		m.metrics(r)
	}
	m.explain()
	out := &target.Block{Name: "strata", Fields: &m.b, Why: m.why}
	check := identities{account: a, lines: &m.lines, block: &m.b}
	if m.metricsWhy == "" {
		check.reading = r
	}
	out.Failed = check.failed()
	return out
}

type maker struct {
	b                  block
	lines              lines
	logWhy, metricsWhy string            // why the one or the other was not read
	why                map[string]string // reasons of fields that have their own
}

func (m *maker) null(why string, names ...string) {
	for _, name := range names {
		m.why[name] = why
	}
}

// log sets what the request's lines say.
func (m *maker) log(rec *target.LogRecord) {
	b, l := &m.b, &m.lines
	b.EngineGenerated, b.Reused = rec.Generated, rec.Cached
	b.EngineDecodeTokS, b.EnginePromptTokS = rec.DecodeRate, rec.PromptRate
	b.DraftsAccepted, b.DraftsOffered = rec.DraftAccepted, rec.DraftN
	b.PromptTotal, b.PromptRead = l.read[0].Int(2), rec.PromptN
	b.Cancelled, b.Parts = new(l.cancelled()), new(len(l.read))
	m.hits()
	m.rounds()
	if len(l.suffix) > 0 {
		b.SuffixDrafts = &suffixDrafts{sum(l.suffix, 2), sum(l.suffix, 3), sum(l.suffix, 4), joined(l.suffix)}
	} else {
		m.null("the log has no such line for the request", "suffix_drafts")
	}
	if len(l.kv) > 0 {
		b.KVStreaming = &kvStreaming{BlockReads: sum(l.kv, 3), Line: joined(l.kv)}
		if len(l.kv) == 1 {
			b.KVStreaming.HitPercent, b.KVStreaming.RAMMiB = l.kv[0].Float(2), l.kv[0].Float(4)
		}
	} else {
		m.null("the log has no such line for the request", "kv_streaming")
	}
}

// hits sets the expert lookups. The engine prints no line when it looked nothing
// up: then all experts are in VRAM, and there is no rate.
func (m *maker) hits() {
	b, all := &m.b, m.lines.hit
	if len(all) == 0 {
		b.HitRateLine = new("absent")
		m.null("the engine prints no hit rate when it looked nothing up: all experts are in VRAM", "hit_rate_log", "hits", "lookups", "offloaded", "pcie_share_log", "routed")
		return
	}
	b.HitRateLine = new(joined(all))
	b.Hits, b.Lookups = sum(all, 3), sum(all, 4)
	// A tail that one of the lines lacks is none of that line's.
	tails := slices.DeleteFunc(slices.Clone(all), func(g target.Groups) bool { return g.Text(5) == "" })
	if len(tails) == 0 {
		m.null("the line does not say: it tells of experts read over PCIe from 0.1.39 on, and only when there were some", "offloaded", "pcie_share_log", "routed")
	} else if b.Offloaded = sum(tails, 5); b.Offloaded != nil && b.Lookups != nil {
		b.Routed = new(*b.Lookups + *b.Offloaded)
	}
	if len(all) == 1 {
		b.HitRateLog = all[0].Float(2)
		if len(tails) == 1 {
			b.PCIeShareLog, b.Routed = all[0].Float(6), sum(all, 7)
		}
		return
	}
	share := func(part, of *int64) *float64 {
		if part == nil || of == nil || *of <= 0 {
			return nil
		}
		return new(100 * float64(*part) / float64(*of))
	}
	b.HitRateLog, b.PCIeShareLog = share(b.Hits, b.Lookups), share(b.Offloaded, b.Routed)
}

// rounds derives the tokens of a round.
func (m *maker) rounds() {
	b := &m.b
	derived := []string{"tokens_per_round_derived", "tokens_per_round_rule"}
	switch {
	case b.DraftsAccepted == nil || b.DraftsOffered == nil:
		b.DraftsAccepted, b.DraftsOffered = nil, nil
		m.null("the line tells of no drafts", append(derived, "drafts_accepted", "drafts_offered")...)
	case b.EngineGenerated == nil:
		m.null("the log tells of no generated tokens", derived...)
	case *b.DraftsAccepted >= *b.EngineGenerated:
		m.null(fmt.Sprintf("%d drafts accepted for %d tokens leaves no round", *b.DraftsAccepted, *b.EngineGenerated), derived...)
	default:
		b.TokensPerRoundDerived = new(float64(*b.EngineGenerated) / float64(*b.EngineGenerated-*b.DraftsAccepted))
		b.TokensPerRoundRule = new(roundRule)
	}
}

// metrics sets what the request's entry says.
func (m *maker) metrics(r *reading) {
	e := r.request
	m.b.Metrics = row.EngineMetrics{
		HitRate: e.float("hit_rate"), PCIeShare: e.float("pcie_share"), DecodeTokS: e.float("decode_tok_s"),
		EngineGenerated: e.count("engine_generated"), PromptMS: e.float("prompt_ms"), DecodeMS: e.float("decode_ms"),
		Reused: e.count("reused"), OutputTokens: e.count("output_tokens"), Finish: e.text("finish"), Projection: e.text("projection"),
	}
	m.b.Blobs = &blobs{e.count("ram_blobs"), e.count("file_blobs"), e.float("file_mb")}
	if len(r.after.Engine) > 0 && string(r.after.Engine) != "null" {
		m.b.Engine = &r.after.Engine
	}
}

// explain gives every null a reason: its own, or why its source was not read.
func (m *maker) explain() {
	data, err := json.Marshal(&m.b)
	var root any
	if err != nil || json.Unmarshal(data, &root) != nil {
		return // the row's own check tells
	}
	for _, path := range nulls("", root) {
		if m.why[path] != "" {
			continue
		}
		top, _, _ := strings.Cut(path, ".")
		switch {
		case top == "metrics" || top == "blobs" || top == "engine":
			if m.metricsWhy != "" {
				m.why[path] = m.metricsWhy
			} else {
				m.why[path] = "null or absent in /metrics"
			}
		case m.logWhy != "":
			m.why[path] = m.logWhy
		default:
			m.why[path] = "the log does not say it, or not as a number"
		}
	}
}

// nulls are the paths of all nulls below v.
func nulls(path string, v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{path}
	case map[string]any:
		var out []string
		for name, e := range v {
			p := name
			if path != "" {
				p = path + "." + name
			}
			out = append(out, nulls(p, e)...)
		}
		return out
	case []any:
		var out []string
		for i, e := range v {
			out = append(out, nulls(fmt.Sprintf("%s[%d]", path, i), e)...)
		}
		return out
	}
	return nil
}
