package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/evidence"
	"assay/internal/kit/keeper"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/telemetry"
	"assay/models/seedling"
)

// planFlags make a plan, so they can't stand beside one.
var planFlags = []string{
	"url", "target", "model", "log", "model-file", "tokenizer", "ctx", "prompt-file", "repeats", "warmups", "max-tokens",
	"min-seconds", "temperature", "seed", "natural-stop", "threads", "file", "run-limit", "wall-command", "arm", "program",
}

// check refuses flags that contradict each other, or the plan.
func (o *runOptions) check(file string) error {
	if file != "" || o.resume != "" {
		for _, name := range planFlags {
			if o.given(name) {
				return usagef("--%s: the plan says it (want a flag or a plan, not both)", name)
			}
		}
		if len(o.more) > 0 {
			return usagef("arguments after --: the plan says them (want flags, in its arms)")
		}
	}
	if o.resume != "" && o.given("out") {
		return usagef("--out: the rows go on in the folder of --resume")
	}
	if o.whenUnfit != string(plan.Refuse) && o.whenUnfit != string(plan.Measure) {
		return usagef("--when-unfit: %q (want %s or %s)", o.whenUnfit, plan.Refuse, plan.Measure)
	}
	attached := o.url != ""
	for _, f := range []struct {
		name string
		ok   bool
		why  string
	}{
		{"threads", !attached, "the server at --url has its own threads"},
		{"program", !attached, "the server at --url runs already"},
		{"model", attached || o.adapter != "auto" && o.adapter != "assay", "it names the model in requests to --url; -m names the file to start"},
		{"log", attached, "a started target logs to the folder of rows"},
		{"tokenizer", attached || o.adapter != "auto" && o.adapter != "assay", "our engine's model file has the tokenizer"},
		{"ctx", !o.given("prompt-file"), "it can't stand beside --prompt-file, which is read whole"},
		{"file", !o.given("prompt-file"), "it can't stand beside --prompt-file, which is read whole"},
	} {
		if o.given(f.name) && !f.ok {
			return usagef("--%s: %s", f.name, f.why)
		}
	}
	switch {
	case o.threads < 0:
		return usagef("--threads: %d is not a number of threads (want 0 for one a core, or more)", o.threads)
	case o.given("arm") && o.arm == "":
		return usagef("--arm: empty")
	}
	if attached {
		if len(o.more) > 0 {
			return usagef("arguments after --: the server at --url runs already")
		}
		if _, err := target.ParseURL(o.url); err != nil {
			return usagef("--url: %w", err)
		}
		if o.adapter != "auto" {
			if _, err := adapters.ByName(o.adapter); err != nil {
				return usagef("--target: %w", err)
			}
		}
	}
	return nil
}

// plan settles what is run and where the rows go: by the file of a plan, by the
// folder of an earlier try, or by the flags.
func (o *runOptions) plan(ctx context.Context, env *Env, file string, c *runner.Config) error {
	p, err := o.whatToRun(ctx, env, file)
	if err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return &exitError{ExitUsage, err}
	}
	if err := keysAreThere(env, p); err != nil {
		return &exitError{ExitUsage, err}
	}
	if err := canStart(p, "/proc/self/exe", os.DevNull); err != nil && !o.dryRun {
		return err
	}
	c.Plan = *p
	if c.Executable, err = env.Executable(); err != nil {
		return fmt.Errorf("this program's own path: %w", err)
	}
	if o.resume != "" {
		c.Dir, c.Resume = o.resume, true
		return nil
	}
	if c.Dir = o.out; c.Dir == "" {
		c.Dir = freshDir()
	}
	if err := runner.CheckDir(c.Dir); err != nil {
		return usagef("--out: %w", err)
	}
	return nil
}

// canStart refuses to start engines where they could not be stopped again for
// certain: on Linux their descendants are found in /proc, of which one file stands
// for all among those that are needed.
func canStart(p *plan.Plan, needed ...string) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	for i := range p.Arms {
		if p.Arms[i].Kind() == plan.Attached {
			continue
		}
		for _, file := range needed {
			if _, err := os.Stat(file); err != nil {
				return &exitError{ExitUnfit, fmt.Errorf("arm %s: without /proc and /dev/null an engine that is started could outlive this program: %w; mount them, or start the engine yourself and measure it with --url", p.Arms[i].Name, err)}
			}
		}
	}
	return nil
}

func (o *runOptions) whatToRun(ctx context.Context, env *Env, file string) (*plan.Plan, error) {
	var before *plan.Plan
	if o.resume != "" {
		var err error
		if before, err = runner.ReadPlan(o.resume); err != nil {
			return nil, usagef("--resume: %w", err)
		}
	}
	switch {
	case file == "" && before != nil:
		return before, nil
	case file == "":
		return o.planOfFlags(ctx, env)
	}
	p, err := loadPlan(file)
	if err == nil {
		err = p.CheckFiles(modelNames(env))
	}
	if err == nil && before != nil {
		if err = p.Resumable(before); err != nil {
			err = fmt.Errorf("--resume: %w", err)
		}
	}
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	return p, nil
}

// loadPlan reads a plan: a YAML file, or what an earlier run kept of its own beside
// its rows, to make the same again.
func loadPlan(file string) (*plan.Plan, error) {
	if filepath.Base(file) == runner.PlanFile {
		if p, err := runner.ReadPlan(filepath.Dir(file)); err == nil {
			return p, nil
		}
	}
	return plan.Load(file, plan.Options{Targets: adapters.Names()})
}

// keysAreThere sees to it that the variables which hold the arms' keys are set.
func keysAreThere(env *Env, p *plan.Plan) error {
	for i := range p.Arms {
		if name := p.Arms[i].KeyEnv; name != "" && env.Getenv(name) == "" {
			return fmt.Errorf("arm %s: its API key is to be in the environment variable %s, which is not set", p.Arms[i].Name, name)
		}
	}
	return nil
}

// findFiles makes paths of the models' names among the flags. A path that is not
// there stays: what it is for tells of it.
func (o *runOptions) findFiles(env *Env) error {
	for _, name := range []*string{&o.modelFile, &o.tokenizer} {
		path, err := findModel(env, *name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case path != *name && name == &o.modelFile:
			o.called = *name
			fallthrough
		default:
			*name = path
		}
	}
	return nil
}

// tokensAtMost is how many tokens --min-seconds may ask for: a quarter of a second of
// an engine that makes 4,000 a second, in which a millisecond of ours is little.
const tokensAtMost = 1024

// planOfFlags is a plan with one arm.
func (o *runOptions) planOfFlags(ctx context.Context, env *Env) (*plan.Plan, error) {
	p := plan.Defaults()
	p.Warmups, p.Repeats, p.MaxTokens = o.warmups, o.repeats, o.maxTokens
	p.Temperature, p.NaturalStop, p.RunLimit = &o.temperature, o.naturalStop, o.runLimit
	if o.given("min-seconds") || !o.given("max-tokens") && !o.naturalStop && o.warmups > 0 {
		p.MinSeconds = o.minSeconds
		p.TokensAtMost = max(p.MaxTokens, tokensAtMost)
	}
	p.Text, p.Prompts, p.Contexts = o.textFile, o.promptFiles, nil
	if o.given("seed") {
		p.Seed = &o.seed
	}
	if o.wallCommand != "" {
		p.WallMeter.Command = telemetry.Shell(o.wallCommand)
	}
	if len(p.Prompts) == 0 {
		for _, s := range o.ctx {
			n, err := prompt.ParseCount(s)
			if err != nil {
				return nil, usagef("--ctx: %w", err)
			}
			p.Contexts = append(p.Contexts, n)
		}
	}
	if err := o.findFiles(env); err != nil {
		return nil, err
	}
	var arm plan.Arm
	if o.url == "" {
		var err error
		if arm, err = o.commandArm(o.more); err != nil {
			return nil, err
		}
		if arm.Tokenizer == "" {
			arm.Tokenizer = o.tokenizer
		}
	} else {
		arm = plan.Arm{Name: o.arm, Target: o.adapter, URL: o.url, Tokenizer: o.tokenizer, Log: o.log, ModelName: o.model}
		if arm.Tokenizer == "" && o.given("model-file") {
			arm.Tokenizer = o.modelFile
		}
		if env.Getenv(target.KeyVariable) != "" {
			arm.KeyEnv = target.KeyVariable
		}
	}
	p.Arms = []plan.Arm{arm}
	if arm.Name != "" {
		return &p, nil
	}
	p.Arms[0].Name = "attached" // until somebody has asked it
	if err := p.Check(); err != nil || o.dryRun {
		return &p, nil // what is wrong is told by who checks the plan
	}
	if file := arm.Tokenizer; file != "" && file != seedling.Name {
		if _, err := os.Stat(file); err != nil {
			return nil, usagef("the tokenizer: %w", err)
		}
	}
	t, err := target.Attach(ctx, arm.URL, target.Options{Adapters: adapters.All, Adapter: arm.Target, Key: env.Getenv(target.KeyVariable), Model: arm.ModelName, Log: arm.Log})
	if err != nil {
		return nil, err
	}
	p.Arms[0].Name = runner.ArmName(t.Identity.Engine, t.Identity.Model)
	return &p, nil
}

// freshDir names a folder for the rows that is not there yet.
func freshDir() string {
	name := filepath.Join("assay-runs", time.Now().UTC().Format("20060102T150405Z"))
	for n, dir := 2, name; ; n++ {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", name, n)
	}
}

// dryRun is what --dry-run --json prints.
type dryRun struct {
	Out      string        `json:"out"` // folder of the rows
	Plan     *plan.Plan    `json:"plan"`
	Runs     int           `json:"runs"` // warm-ups included
	Starts   int           `json:"starts"`
	Time     plan.Estimate `json:"time"` // in ns
	Schedule plan.Schedule `json:"schedule"`
}

// printPlan is --dry-run.
func (o *runOptions) printPlan(env *Env, c *runner.Config) error {
	s := c.Plan.Schedule()
	if c.Resume {
		done, err := runner.Done(c.Dir, &c.Plan)
		if err != nil {
			return err
		}
		s = c.Plan.Remaining(done)
	}
	if o.json {
		return printIndented(env.Stdout, dryRun{
			Out: c.Dir, Plan: &c.Plan, Runs: len(s.Runs()), Starts: s.Starts(), Time: c.Plan.Estimate(s), Schedule: s,
		})
	}
	_, err := fmt.Fprintf(env.Stdout, "%s%-9s %s\n\n%s", c.Plan.Describe(s, commandLine), "rows", filepath.Join(c.Dir, row.RowsFile), s)
	return err
}

// runResult is what --json prints at the end.
type runResult struct {
	Rows       string          `json:"rows"`                  // file of the rows
	Evidence   string          `json:"evidence"`              // folder of the evidence
	TargetLogs []string        `json:"target_logs,omitempty"` // absent where nothing was started
	OK         int             `json:"ok"`                    // rows of this try, warm-ups included
	Failed     int             `json:"failed"`
	Stopped    int             `json:"stopped"`
	Before     int             `json:"before"` // rows of earlier tries
	NotRun     int             `json:"not_run"`
	Left       int             `json:"left"`             // measured runs without a row of status ok
	Resume     []string        `json:"resume,omitempty"` // the command that makes them
	Withheld   int             `json:"withheld"`         // measured rows of status ok with a figure withheld
	Reaped     []keeper.Killed `json:"reaped,omitempty"` // what an earlier try had left running
	Summary    *report.Report  `json:"summary"`
}

// printResult prints the table and where everything is, and how to go on where
// something is left.
func (o *runOptions) printResult(env *Env, c *runner.Config, sum *runner.Summary, rep *report.Report) error {
	var resume []string
	if sum.Left > 0 {
		resume = []string{"assay", "run", "--resume", c.Dir}
	}
	if o.json {
		return printIndented(env.Stdout, runResult{
			Rows: sum.Rows, Evidence: filepath.Join(c.Dir, evidence.Folder), TargetLogs: sum.Logs,
			OK: sum.OK, Failed: sum.Failed, Stopped: sum.Stopped, Before: sum.Before, NotRun: sum.Missing,
			Left: sum.Left, Resume: resume, Withheld: sum.Withheld, Reaped: sum.Reaped, Summary: rep,
		})
	}
	if err := printReport(env, rep, summaryOptions{}); err != nil {
		return err
	}
	before := ""
	if sum.Before > 0 {
		before = fmt.Sprintf(", %d before", sum.Before)
	}
	_, err := fmt.Fprintf(env.Stdout, "\nrows: %s (%d ok, %d failed, %d stopped, %d not run%s)\n", sum.Rows, sum.OK, sum.Failed, sum.Stopped, sum.Missing, before)
	for _, k := range sum.Reaped {
		if err == nil {
			_, err = fmt.Fprintf(env.Stdout, "an earlier try had left %s running: killed\n", k)
		}
	}
	if err == nil && resume != nil {
		_, err = fmt.Fprintf(env.Stdout, "%s left; go on with: %s\n", plural(sum.Left, "measured run"), shellCommand(resume))
	}
	return err
}

// shellCommand is a command as one would type it.
func shellCommand(argv []string) string {
	out := slices.Clone(argv)
	for i, s := range out {
		if strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]#~!{}") || s == "" {
			out[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
