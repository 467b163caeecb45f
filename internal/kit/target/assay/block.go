package assay

import (
	"maps"
	"slices"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// Block is the engine's part of a row, from its log line and its counters, under
// the keys that the row format was first used with.
func (Adapter) Block(a *target.Account) *target.Block {
	l := &a.Record
	b := &row.EngineBlock{
		EngineGenerated: l.Generated, Reused: l.Cached,
		EngineDecodeTokS: l.DecodeRate, EnginePromptTokS: l.PromptRate,
	}
	out := &target.Block{Name: row.OwnEngine, Fields: b, Why: map[string]string{}}
	null := func(why string, names ...string) {
		for _, name := range names {
			out.Why[name] = why
		}
	}
	null("this engine computes on the CPU alone: nothing is read over PCIe", "offloaded", "pcie_share_log", "routed")
	experts := expertsSaid(a)
	draftsSaid(a).fill(b, out)
	logged := map[string]bool{
		"engine_generated": l.Generated == nil, "reused": l.Cached == nil,
		"engine_decode_tok_s": l.DecodeRate == nil, "engine_prompt_tok_s": l.PromptRate == nil,
	}
	if a.LogErr != nil {
		why := "the log: " + a.LogErr.Error()
		null(why, slices.Collect(maps.Keys(logged))...)
		null(why, "hit_rate_line", "hit_rate_log")
	} else {
		b.HitRateLine = new("absent")
		for name, missing := range logged {
			if missing {
				null("out of range in the log", name)
			}
		}
	}
	experts.fill(b, out)
	null("no such figure in this engine's /metrics", "metrics")
	if a.DeltaErr != nil {
		null(a.DeltaErr.Error(), "metrics")
		return out
	}
	d := &a.Delta
	b.Metrics = row.EngineMetrics{
		EngineGenerated: target.Whole(d.Predicted), OutputTokens: target.Whole(d.Predicted), Reused: target.Whole(d.Cached),
		PromptMS: target.Milliseconds(d.PromptSeconds), DecodeMS: target.Milliseconds(d.PredictedSeconds), Finish: l.Finish,
		HitRate: experts.metrics.rate(),
	}
	if b.Metrics.HitRate == nil {
		null(experts.metricsWhy, "metrics.hit_rate")
	}
	return out
}
