package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/kit/evidence"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/report"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/models/seedling"
)

const runLong = `Measure an engine: stream completions from it, time them by the client's own
clock, hold the token count against every source that can be read, and write one
JSON row a run. A figure that fails its check is withheld, with the reason.

Without --url it starts "assay serve" with the built-in model, or with the GGUF
file that -m names, and stops it at the end. With --url it measures a server that
is already running, and never stops it.

  assay run                                         the built-in engine and model
  assay run -m model.gguf --ctx 1K,4K --repeats 10  our engine, another model
  assay run --url http://127.0.0.1:8080             a running server
  assay run --url http://127.0.0.1:8000 --tokenizer model.gguf
                                                    ... that can't tell its tokens

Prompts are a fresh nonce and a slice of public-domain books, cut to the exact
number of tokens. Sizes are 512, 4K (4000) or 4Ki (4096). An API key for --url is
taken from ` + target.KeyVariable + ` and is never written anywhere.

The folder of --out holds ` + "rows.jsonl" + `, one row a line, ` + evidence.Folder + `/ with what each
run received, and the log of the started target.

EXIT STATUS
  0    all rows are ok and nothing is withheld
  1    failed: the target could not be started or reached, or ended by itself
  2    a flag, an argument or an input file is wrong
  3    finished, with rows failed or figures withheld
  130  interrupted; the rows so far are written`

type runOptions struct {
	url, adapter, model, log string
	modelFile, tokenizer     string
	arm, out, textFile       string
	ctx                      []string
	repeats, warmups         int
	maxTokens, threads       int
	temperature              float64
	seed                     int64
	naturalStop              bool
	runLimit                 time.Duration
	json, dryRun             bool
	progress                 string
	given                    func(flag string) bool // on the command line or in the environment
}

func newRunCommand(env *Env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure an engine and write rows",
		Long:  runLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.given = func(name string) bool { return cmd.Flags().Changed(name) }
			return runRun(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "measure the server at this `URL`, which is running")
	f.StringVar(&o.adapter, "target", "auto", "what the server at --url is: auto, "+strings.Join(adapters.Names(), ", "))
	f.StringVar(&o.model, "model", "", "`name` of the model in requests to --url (default: the first that the server lists)")
	f.StringVar(&o.log, "log", "", "`file` that the server at --url logs to")
	f.StringVarP(&o.modelFile, "model-file", "m", seedling.Name, "GGUF `file` to start our engine with; with --url, the file whose tokenizer counts")
	f.StringVar(&o.tokenizer, "tokenizer", "", "GGUF `file` whose tokenizer counts, if not the model's own")
	f.StringSliceVar(&o.ctx, "ctx", []string{"512", "2K"}, "prompt `sizes` in tokens")
	f.IntVar(&o.repeats, "repeats", 6, "measured runs of each size")
	f.IntVar(&o.warmups, "warmups", 1, "runs before them, marked and never summarised")
	f.IntVar(&o.maxTokens, "max-tokens", 128, "tokens to generate in each run")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature")
	f.Int64Var(&o.seed, "seed", 0, "sampling seed (default: the server's)")
	f.BoolVar(&o.naturalStop, "natural-stop", false, "let the model end before --max-tokens")
	f.IntVarP(&o.threads, "threads", "t", 0, "compute threads of our engine (0: one a core)")
	f.StringVarP(&o.textFile, "file", "f", "", "text `file` to cut prompts from, instead of the built-in books")
	f.DurationVar(&o.runLimit, "run-limit", 30*time.Minute, "a run that takes longer is stopped and failed")
	f.StringVar(&o.arm, "arm", "", "`name` of what is measured, in rows and tables (default: engine and model)")
	f.StringVarP(&o.out, "out", "o", "", "new or empty `folder` for the rows (default: assay-runs/TIME)")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would run, and run nothing")
	f.StringVar(&o.progress, "progress", "auto", progressHelp)
	return cmd
}

func runRun(ctx context.Context, env *Env, o runOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	steps, err := newSteps(env, o.progress)
	if err != nil {
		return err
	}
	c, err := o.config(env)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.printPlan(env, c)
	}
	if err := o.openFiles(ctx, env, c); err != nil {
		return err
	}
	rows := report.NewBuilder()
	c.Progress = func(e runner.Event) {
		steps.show(e)
		if e.Row != nil {
			rows.Add(e.Row)
		}
	}
	sum, err := runner.Run(ctx, *c)
	steps.clear()
	rep := rows.Report()
	if err != nil && rep.Rows == 0 && o.out == "" {
		_ = os.RemoveAll(c.Dir) // ours, and without a row; the error holds the end of the log
	}
	if rep.Rows > 0 || o.json && err == nil {
		if e := o.printResult(env, c, sum, rep); e != nil {
			return errors.Join(err, e)
		}
	}
	switch {
	case errors.Is(err, runner.ErrInterrupted):
		return &exitError{ExitInterrupted, err}
	case err != nil:
		return err
	case !rep.Clean():
		return &exitError{Code: ExitWithheld}
	}
	return nil
}

// check refuses flags that contradict each other.
func (o *runOptions) check() error {
	attached := o.url != ""
	for _, f := range []struct {
		name string
		ok   bool
		why  string
	}{
		{"threads", !attached, "the server at --url has its own threads"},
		{"target", attached || o.adapter == "auto" || o.adapter == "assay", "other engines than ours are measured with --url, once they run"},
		{"model", attached, "it names the model in requests to --url; -m names the file to start"},
		{"log", attached, "a started target logs to the folder of rows"},
		{"tokenizer", attached, "our engine's model file has the tokenizer"},
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

// config turns the flags into a plan and a target, without opening anything.
func (o *runOptions) config(env *Env) (*runner.Config, error) {
	c := &runner.Config{
		Plan: plan.Plan{
			Arm: o.arm, Warmups: o.warmups, Repeats: o.repeats, MaxTokens: o.maxTokens,
			Temperature: &o.temperature, NaturalStop: o.naturalStop, RunLimit: o.runLimit,
		},
		Dir:     o.out,
		Version: Version,
		Text:    prompt.Books(),
		URL:     o.url,
	}
	if o.given("seed") {
		c.Plan.Seed = &o.seed
	}
	for _, s := range o.ctx {
		n, err := prompt.ParseCount(s)
		if err != nil {
			return nil, usagef("--ctx: %w", err)
		}
		c.Plan.Contexts = append(c.Plan.Contexts, n)
	}
	if err := c.Plan.Check(); err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	if c.Dir == "" {
		c.Dir = freshDir()
	}
	if err := runner.CheckDir(c.Dir); err != nil {
		return nil, usagef("--out: %w", err)
	}
	if o.url != "" {
		c.Target = target.Options{Adapter: o.adapter, Key: env.Getenv(target.KeyVariable), Model: o.model, Log: o.log}
		return c, nil
	}
	return c, o.launch(env, c)
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

// launch says how our own engine is started: as anyone would from a shell.
func (o *runOptions) launch(env *Env, c *runner.Config) error {
	exe, err := env.Executable()
	if err != nil {
		return fmt.Errorf("this program's own path: %w", err)
	}
	argv := []string{exe, "serve", "--model", o.modelFile, "--host", "127.0.0.1", "--port", "0", "--parallel", "1", "--context", fmt.Sprint(contextFor(&c.Plan))}
	if o.threads > 0 {
		argv = append(argv, "--threads", fmt.Sprint(o.threads))
	}
	c.Launch = &runner.Launch{Argv: argv, Env: target.Scrub(env.Environ())}
	c.Target.Adapter = "assay"
	if c.Plan.Arm == "" {
		c.Plan.Arm = runner.ArmName("assay", o.modelFile)
		if o.threads > 0 {
			c.Plan.Arm += fmt.Sprintf("-t%d", o.threads)
		}
	}
	return nil
}

// contextFor is the context that the plan needs: the longest prompt, its answer,
// and room for nonce and chat template, in whole pages of 256 positions.
func contextFor(p *plan.Plan) int {
	longest := 0
	for _, n := range p.Contexts {
		longest = max(longest, n)
	}
	const page, extra = 256, 256
	return (longest + p.MaxTokens + extra + page - 1) / page * page
}

// printPlan is --dry-run.
func (o *runOptions) printPlan(env *Env, c *runner.Config) error {
	runs := c.Plan.Runs()
	if o.json {
		out := map[string]any{"runs": len(runs), "contexts": c.Plan.Contexts, "warmups": c.Plan.Warmups, "repeats": c.Plan.Repeats, "max_tokens": c.Plan.MaxTokens, "out": c.Dir}
		if c.Launch != nil {
			out["start"] = c.Launch.Argv
		} else {
			out["url"] = c.URL
		}
		return json.NewEncoder(env.Stdout).Encode(out)
	}
	var b strings.Builder
	if c.Launch != nil {
		fmt.Fprintf(&b, "start     %s\n", strings.Join(c.Launch.Argv, " "))
	} else {
		fmt.Fprintf(&b, "attach    %s\n", c.URL)
	}
	for _, n := range c.Plan.Contexts {
		fmt.Fprintf(&b, "cell      %s tokens read, %d generated: %d warm-ups, %d repeats\n", prompt.FormatCount(n), c.Plan.MaxTokens, c.Plan.Warmups, c.Plan.Repeats)
	}
	fmt.Fprintf(&b, "runs      %d\nrows      %s\n", len(runs), filepath.Join(c.Dir, "rows.jsonl"))
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}

// runResult is what --json prints at the end.
type runResult struct {
	Rows      string         `json:"rows"`                 // file of the rows
	Evidence  string         `json:"evidence"`             // folder of the evidence
	TargetLog string         `json:"target_log,omitempty"` // absent for --url
	OK        int            `json:"ok"`                   // rows, warm-ups included
	Failed    int            `json:"failed"`
	Stopped   int            `json:"stopped"`
	NotRun    int            `json:"not_run"`
	Withheld  int            `json:"withheld"` // measured rows of status ok with a figure withheld
	Summary   *report.Report `json:"summary"`
}

// printResult prints the table and where everything is.
func (o *runOptions) printResult(env *Env, c *runner.Config, sum *runner.Summary, rep *report.Report) error {
	if o.json {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(runResult{
			Rows: sum.Rows, Evidence: filepath.Join(c.Dir, evidence.Folder), TargetLog: sum.Log,
			OK: sum.OK, Failed: sum.Failed, Stopped: sum.Stopped, NotRun: sum.Missing, Withheld: sum.Withheld,
			Summary: rep,
		})
	}
	if err := printReport(env, rep, summaryOptions{format: "text"}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "\nrows: %s (%d ok, %d failed, %d stopped, %d not run)\n", sum.Rows, sum.OK, sum.Failed, sum.Stopped, sum.Missing)
	return err
}
