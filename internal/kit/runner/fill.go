package runner

import (
	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// newRow is a row with what is known before the figures.
func (s *session) newRow(m *measured) *row.Row {
	id := s.target.Identity
	r := &row.Row{
		Schema: row.Schema, AssayVersion: s.Version,
		RowID: m.run.ID(s.Plan.Arm), Cell: m.run.Cell, Arm: s.Plan.Arm, Engine: id.Engine,
		EngineCommit: id.Commit, Quant: id.Format, FileSHA256: s.Model.FileSHA256,
		Ctx: m.run.Label(), Phase: row.Measure, Repeat: m.run.Repeat, Attempt: m.run.Attempt, Run: m.run.Number,
		SliceSHA256: &m.prompt.Slice.SHA256, PromptSHA256: new(m.prompt.SHA256()), Nonce: &m.prompt.Nonce,
		Requested: row.Requested{
			MaxTokens: &s.Plan.MaxTokens, Ctx: &m.run.Ctx,
			Sampling:    row.Sampling{Temperature: s.Plan.Temperature, Seed: s.Plan.Seed},
			Cache:       new("cold"), // a fresh nonce, and the engine's switch where it has one
			NaturalStop: &s.Plan.NaturalStop,
			Endpoint:    new(target.ChatPath),
		},
		EngineEnv: map[string]string{},
	}
	if m.run.Warmup {
		r.Phase = row.Warmup
	}
	r.SetHost(s.host)
	s.identity(r, id)
	s.start(r, m)
	s.promptTokens(r, m)
	return r
}

func (s *session) identity(r *row.Row, id target.Identity) {
	if r.EngineCommit == nil {
		r.Null(id.Why["commit"], "engine_commit")
	}
	if r.Quant == nil {
		r.Null(id.Why["format"], "quant")
	}
	if r.FileSHA256 == nil {
		r.Null(s.Model.Why, "file_sha256")
	}
}

// start sets what is known of the launch. Of a target that was only attached to
// none of it is.
func (s *session) start(r *row.Row, m *measured) {
	threads, err := s.target.Threads()
	if err != nil {
		r.Null(err.Error(), "threads")
	} else {
		r.Threads = row.Threads{Workers: threads.Workers, HostThread: threads.HostThread, Line: &threads.Line}
		if threads.Workers == nil {
			r.Null("not in that line", "threads.workers")
		}
	}
	p := s.target.Process
	if p == nil {
		r.EngineEnv = nil
		r.Null("attached to a server that was running: its start was not seen", "command_line", "start_id", "load_ms", "requests_since_start", "engine_env")
		return
	}
	r.CommandLine, r.EngineEnv = p.Argv, target.EnvThatMatters(s.Launch.Env)
	r.StartID, r.LoadMS, r.RequestsSinceStart = s.startID, new(float64(p.LoadTime.Microseconds())/1e3), &m.requests
}

func (s *session) promptTokens(r *row.Row, m *measured) {
	switch {
	case m.size == nil:
		r.Null(m.sizeWhy, "prompt_tokens_expected")
	case m.size.Total == nil:
		r.Null("the server renders the prompt, but is not asked for its count: that would be its own word again", "prompt_tokens_expected")
	default:
		r.PromptTokensExpected = m.size.Total
	}
}

// finish sets what Fill can't know: how an interrupted run ended, the engine's
// own block and the telemetry.
func (s *session) finish(m *measured, r *row.Row) {
	switch {
	case m.interrupted:
		r.Status, r.FailKind, r.Error = row.Stopped, new("interrupted"), new("interrupted by the user")
	case m.timedOut:
		r.FailKind = new("run-limit")
	case m.ended != "":
		r.FailKind = new("target-ended")
	}
	if r.Engine == "assay" {
		s.engineBlock(r, m)
	}
	s.telemetry(r, m)
}

// engineBlock sets our engine's block from its log line and its counters, under
// the keys that the row format was first used with.
func (s *session) engineBlock(r *row.Row, m *measured) {
	l := m.logRecord
	b := &row.EngineBlock{
		EngineGenerated: l.Generated, Reused: l.Cached,
		EngineDecodeTokS: l.DecodeRate, EnginePromptTokS: l.PromptRate,
		DraftsAccepted: l.DraftAccepted, DraftsOffered: l.DraftN,
	}
	const path = "assay"
	r.Null("the engine keeps all experts in memory: it has no tiers to count", path+".hit_rate_log", path+".hits", path+".lookups", path+".offloaded", path+".pcie_share_log", path+".routed")
	drafts := []string{path + ".drafts_accepted", path + ".drafts_offered", path + ".tokens_per_round_derived", path + ".tokens_per_round_rule"}
	switch {
	case m.logErr != nil:
		why := "the log: " + m.logErr.Error()
		r.Null(why, path+".hit_rate_line", path+".engine_generated", path+".reused", path+".engine_decode_tok_s", path+".engine_prompt_tok_s")
		r.Null(why, drafts...)
	case l.DraftN == nil:
		b.HitRateLine = new("absent")
		r.Null("no drafts were made", drafts...)
	case *l.DraftAccepted < *l.Generated:
		b.HitRateLine = new("absent")
		b.TokensPerRoundDerived = new(float64(*l.Generated) / float64(*l.Generated-*l.DraftAccepted))
		b.TokensPerRoundRule = new("derived: generated / (generated - drafts accepted)")
	default:
		b.HitRateLine = new("absent")
		r.Null("as many drafts were accepted as tokens were generated: that can't be", drafts[2:]...)
	}
	r.Null("no such figure in this engine's /metrics", path+".metrics")
	if delta, err := s.counters(m); err == nil {
		b.Metrics = row.EngineMetrics{
			EngineGenerated: whole(delta.Predicted), OutputTokens: whole(delta.Predicted), Reused: whole(delta.Cached),
			PromptMS: milliseconds(delta.PromptSeconds), DecodeMS: milliseconds(delta.PredictedSeconds), Finish: l.Finish,
		}
	} else {
		r.Null(err.Error(), path+".metrics")
	}
	if err := r.SetEngineBlock(b); err != nil {
		panic(err) // a block of ours always fits
	}
}
