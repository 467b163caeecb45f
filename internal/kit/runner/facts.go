package runner

import (
	"assay/internal/kit/derive"
	"assay/internal/kit/figure"
	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// facts are what is known of a run before it is made.
func (s *session) facts(run plan.Run) *derive.Facts {
	id, doc := s.target.Identity, s.target.Adapter.Facts()
	f := &derive.Facts{
		Form: derive.Form, AssayVersion: s.Version, TimingRule: figure.Rule,
		Plan: derive.Plan{
			Arm: s.Plan.Arm, Cell: run.Cell, Ctx: run.Ctx, Phase: row.Measure,
			Repeat: run.Repeat, Attempt: run.Attempt, Run: run.Number,
			NaturalStop: s.Plan.NaturalStop,
			Cache:       "cold", // a fresh nonce, and the engine's switch where it has one
		},
		Target: derive.Target{
			Adapter: s.target.Adapter.Name(), Engine: id.Engine, Commit: id.Commit, Format: id.Format, Why: map[string]string{},
			EndTokenCounted: doc.EndTokenCounted, DecodeBasis: doc.DecodeBasis,
			ThreadsLog: s.threads.Line,
		},
		Model: derive.Model{FileSHA256: s.Model.FileSHA256, Why: s.Model.Why},
		Host:  s.host, Around: s.around,
	}
	if run.Warmup {
		f.Plan.Phase = row.Warmup
	}
	for _, name := range []string{"commit", "format"} {
		if why, ok := id.Why[name]; ok {
			f.Target.Why[name] = why
		}
	}
	if s.threadsErr != nil {
		f.Target.ThreadsWhy = s.threadsErr.Error()
	}
	if p := s.target.Process; p != nil {
		f.Start = &derive.Start{
			ID: s.startID, Argv: p.Argv, Env: target.EnvThatMatters(s.Launch.Env),
			LoadMS: float64(p.LoadTime.Microseconds()) / 1e3,
		}
	}
	return f
}
