package runner

import (
	"cmp"
	"maps"
	"strings"

	"assay/internal/kit/derive"
	"assay/internal/kit/figure"
	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// facts are what is known of a run before it is made.
func (s *session) facts(l *live, run plan.Run) *derive.Facts {
	f := &derive.Facts{
		Form: derive.Form, AssayVersion: s.Version, TimingRule: figure.Rule,
		Plan: derive.Plan{
			Arm: run.Arm, Cell: run.Cell, Ctx: run.Ctx, Phase: row.Measure,
			Block: run.Block, Repeat: run.Repeat, Attempt: run.Attempt, Run: run.Number, Turn: run.Turn,
			NaturalStop: s.Plan.NaturalStop,
			Cache:       string(cmp.Or(s.Plan.Cache, plan.Cold)),
		},
		Target: l.told(),
		Model:  derive.Model{FileSHA256: l.files.Model.FileSHA256, Why: l.files.Model.Why},
		Host:   s.host,
	}
	if run.Warmup {
		f.Plan.Phase = row.Warmup
	}
	if run.Prompt != "" {
		f.Plan.File = run.Label()
	}
	if l.target != nil && l.target.Process != nil {
		p := l.target.Process
		f.Start = &derive.Start{
			ID: l.startID, Argv: p.Argv, Env: target.EnvThatMatters(l.env),
			LoadMS: float64(p.LoadTime.Microseconds()) / 1e3, CgroupWhy: p.CgroupWhy,
		}
	}
	return f
}

// told is what the target said of itself. One that never came up said nothing: then
// it is what the plan calls it.
func (l *live) told() derive.Target {
	if l.failed != nil || l.target == nil {
		const why = "the target did not start"
		t := derive.Target{Adapter: l.arm.Target, Engine: l.arm.Target, ThreadsWhy: why, Why: map[string]string{"commit": why, "format": why}}
		if t.Adapter == "auto" {
			t.Adapter, t.Engine = "openai", "unknown" // whose formats are nobody's
		}
		return t
	}
	id, doc := l.target.Identity, l.target.Adapter.Facts()
	t := derive.Target{
		Adapter: l.target.Adapter.Name(), Engine: id.Engine, Commit: id.Commit, Format: id.Format, Why: map[string]string{},
		EndTokenCounted: doc.EndTokenCounted, DecodeBasis: doc.DecodeBasis,
		ThreadsLog: l.threads.Line, Found: id.Found,
	}
	for _, name := range []string{"commit", "format"} {
		if why, ok := id.Why[name]; ok {
			t.Why[name] = why
		}
	}
	if len(l.left) > 0 {
		t.Found = maps.Clone(t.Found)
		if t.Found == nil {
			t.Found = map[string]string{}
		}
		t.Found["flags_left_out"] = strings.Join(l.left, " ") + ": this version does not list them"
	}
	if l.threadsErr != nil {
		t.ThreadsWhy = l.threadsErr.Error()
	}
	return t
}
