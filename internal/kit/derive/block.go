package derive

import (
	"assay/internal/kit/row"
)

// engineBlock is our engine's block, from its log line and its counters, under
// the keys that the row format was first used with.
func (s *source) engineBlock(r *row.Row) *row.EngineBlock {
	const path = row.OwnEngine
	l := &s.log
	b := &row.EngineBlock{
		EngineGenerated: l.Generated, Reused: l.Cached,
		EngineDecodeTokS: l.DecodeRate, EnginePromptTokS: l.PromptRate,
		DraftsAccepted: l.DraftAccepted, DraftsOffered: l.DraftN,
	}
	r.Null("the engine keeps all experts in memory: it has no tiers to count", path+".hit_rate_log", path+".hits", path+".lookups", path+".offloaded", path+".pcie_share_log", path+".routed")
	derived := []string{path + ".tokens_per_round_derived", path + ".tokens_per_round_rule"}
	if s.logErr != nil {
		why := "the log: " + s.logErr.Error()
		r.Null(why, path+".hit_rate_line", path+".engine_generated", path+".reused", path+".engine_decode_tok_s", path+".engine_prompt_tok_s", path+".drafts_accepted", path+".drafts_offered")
		r.Null(why, derived...)
	} else {
		b.HitRateLine = new("absent")
		for name, missing := range map[string]bool{
			"engine_generated": l.Generated == nil, "reused": l.Cached == nil,
			"engine_decode_tok_s": l.DecodeRate == nil, "engine_prompt_tok_s": l.PromptRate == nil,
		} {
			if missing {
				r.Null("out of range in the log", path+"."+name)
			}
		}
		switch {
		case l.DraftN == nil || l.DraftAccepted == nil:
			r.Null("no drafts were made", path+".drafts_accepted", path+".drafts_offered")
			r.Null("no drafts were made", derived...)
			b.DraftsAccepted, b.DraftsOffered = nil, nil
		case l.Generated != nil && *l.DraftAccepted < *l.Generated:
			b.TokensPerRoundDerived = new(float64(*l.Generated) / float64(*l.Generated-*l.DraftAccepted))
			b.TokensPerRoundRule = new("derived: generated / (generated - drafts accepted)")
		default:
			r.Null("as many drafts were accepted as tokens were generated: that can't be", derived...)
		}
	}
	r.Null("no such figure in this engine's /metrics", path+".metrics")
	if s.deltaErr != nil {
		r.Null(s.deltaErr.Error(), path+".metrics")
		return b
	}
	d := &s.delta
	b.Metrics = row.EngineMetrics{
		EngineGenerated: whole(d.Predicted), OutputTokens: whole(d.Predicted), Reused: whole(d.Cached),
		PromptMS: milliseconds(d.PromptSeconds), DecodeMS: milliseconds(d.PredictedSeconds), Finish: l.Finish,
	}
	return b
}
