package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/kit/display"
	"assay/internal/kit/doctor"
	"assay/internal/kit/evidence"
	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/models/seedling"
)

const runLong = `Measure engines: stream completions from them, time them by the client's own
clock, hold the token count against every source that can be read, and write one
JSON row a run. A figure that fails its check is withheld, with the reason.

A plan says what is measured, in which order and within which limits; without one
the flags do. Without --url that is "assay serve" with the built-in model, or with
the GGUF file that -m names, which is started and stopped; or the engine that
--target names, which gets what comes after --. With --url it is a server that is
already running, which is never stopped.

  assay run                                         the built-in engine and model
  assay run -m model.gguf --ctx 1K,4K --repeats 10  our engine, another model
  assay run --target llama-server -- -m model.gguf -ngl 99
                                                    another engine, started and stopped
  assay run --url http://127.0.0.1:8080             a running server
  assay run --url http://127.0.0.1:8000 --tokenizer model.gguf
                                                    ... that can't tell its tokens
  assay run PLAN.yaml                               a plan: docs/plans.md
  assay run example:two-engines                     one of the shipped plans
  assay run PLAN.yaml --dry-run                     what it would do, and for how long
  assay run DIR/plan.json --out OTHER               what DIR holds, measured again
  assay run --resume DIR                            go on where it was interrupted
  assay run --resume DIR PLAN.yaml                  ... with a plan that has more of the same

Prompts are a fresh nonce and a slice of public-domain books, cut to the exact
number of tokens. Sizes are 512, 4K (4000) or 4Ki (4096). An API key for --url is
taken from ` + target.KeyVariable + ` and is never written anywhere.

The folder of --out holds ` + row.RowsFile + `, one row a line, ` + evidence.Folder + `/ with what each
run received, ` + runner.PlanFile + `, and the logs of the started targets. Ctrl-C finishes the
run at hand and ends; a second one ends at once. What is left is made by --resume:
what is done is not done again, and what failed is tried anew.

Before anything starts the machine is looked at, as by "assay doctor": one that does
not meet the plan's demands ends it with status 4.

EXIT STATUS
  0    all rows are ok and nothing is withheld
  1    failed: a target could not be started or reached, or ended by itself; or the
       guard ended the plan
  2    a flag, an argument, the plan or an input file is wrong
  3    finished, with rows failed or figures withheld
  4    the machine is not fit for what the plan asks
  130  interrupted; the rows so far are written`

type runOptions struct {
	url, adapter, model, log string
	modelFile, tokenizer     string
	called                   string // the name by which modelFile was found, if it was
	program                  string
	more                     []string // the arguments after "--"
	arm, out, textFile       string
	ctx, promptFiles         []string
	repeats, warmups         int
	maxTokens, threads       int
	temperature, minSeconds  float64
	seed                     int64
	naturalStop              bool
	runLimit                 time.Duration
	wallCommand              string
	resume, whenUnfit        string
	json, dryRun             bool
	progress                 string
	given                    func(flag string) bool // on the command line or in the environment
}

func newRunCommand(env *Env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [PLAN] [-- ARGUMENTS OF THE ENGINE]",
		Short: "Measure engines and write rows",
		Long:  runLong,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = func(name string) bool { return cmd.Flags().Changed(name) }
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, o.more = args[:n], args[n:]
			}
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runRun(cmd.Context(), env, o, file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "measure the server at this `URL`, which is running")
	f.StringVar(&o.adapter, "target", "auto", "the engine to start (assay targets), or what the server at --url is: auto, "+strings.Join(adapters.Names(), ", "))
	f.StringVar(&o.program, "program", "", "`path` of the engine's program (default: its usual name, on PATH)")
	f.StringVar(&o.model, "model", "", "`name` of the model in requests to --url (default: the first that the server lists)")
	f.StringVar(&o.log, "log", "", "`file` that the server at --url logs to")
	f.StringVarP(&o.modelFile, "model-file", "m", seedling.Name, modelHelp+", to start the engine with; with --url, the file whose tokenizer counts")
	f.StringVar(&o.tokenizer, "tokenizer", "", "GGUF `file` whose tokenizer counts, if not the model's own")
	f.StringSliceVar(&o.ctx, "ctx", []string{"1K", "4K"}, "prompt `sizes` in tokens")
	f.StringArrayVar(&o.promptFiles, "prompt-file", nil, "text `file` that is a prompt, read whole behind a nonce, instead of --ctx; may be given several times")
	f.IntVar(&o.repeats, "repeats", 6, "measured runs of each size")
	f.IntVar(&o.warmups, "warmups", 1, "runs before them, marked and never summarised")
	f.IntVar(&o.maxTokens, "max-tokens", 128, "tokens to generate in each run")
	f.Float64Var(&o.minSeconds, "min-seconds", 0.25, "`seconds` that generating must take: more tokens are asked for by the rate of the first warm-up (default with --max-tokens or --natural-stop: 0)")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature")
	f.Int64Var(&o.seed, "seed", 0, "sampling seed (default: the server's)")
	f.BoolVar(&o.naturalStop, "natural-stop", false, "let the model end before --max-tokens")
	f.IntVarP(&o.threads, "threads", "t", 0, "compute threads of the engine (0: left to it; ours leaves a core to the kit)")
	f.StringVarP(&o.textFile, "file", "f", "", "text `file` to cut prompts from, instead of the built-in books")
	f.DurationVar(&o.runLimit, "run-limit", 30*time.Minute, "a run that takes longer is stopped and failed")
	f.StringVar(&o.wallCommand, "wall-command", "", "shell `command` that prints the watts of a wall meter, a line a reading, until it is stopped")
	f.StringVar(&o.arm, "arm", "", "`name` of what is measured, in rows and tables (default: engine and model)")
	f.StringVarP(&o.out, "out", "o", "", "new or empty `folder` for the rows (default: assay-runs/TIME)")
	f.StringVar(&o.resume, "resume", "", "go on with the plan and the rows in this `folder`")
	f.StringVar(&o.whenUnfit, "when-unfit", string(plan.Refuse), "on a machine that is not fit for the plan: refuse, or measure all the same")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would run and for how long, and run nothing")
	f.StringVar(&o.progress, "progress", "auto", runProgressHelp)
	return cmd
}

func runRun(ctx context.Context, env *Env, o runOptions, file string) error {
	if err := o.check(file); err != nil {
		return err
	}
	show, err := progressOf(env, o.progress, o.json)
	if err != nil {
		return err
	}
	c := &runner.Config{Version: Version, Environ: env.Environ(), Adapters: adapters.All}
	if err := o.plan(ctx, env, file, c); err != nil {
		return err
	}
	if o.dryRun {
		return o.printPlan(env, c)
	}
	if err := openFiles(ctx, env, c); err != nil {
		return err
	}
	if err := o.fit(ctx, env, &c.Plan, c.Dir); err != nil {
		return err
	}
	view := show()
	defer view.Close() // gives the terminal back when something panics, too
	hard, end := untilSecondInterrupt(ctx, env, view)
	defer end()
	c.Finish, c.Progress = ctx.Done(), view.Show
	sum, err := runner.Run(hard, *c)
	view.Close()
	return o.finish(env, c, sum, err)
}

// untilSecondInterrupt is a context that outlives the first interrupt, which ctx
// tells of, so that the run at hand can be finished. A second one ends it, and so
// does a request to terminate, which leaves no time for that.
func untilSecondInterrupt(ctx context.Context, env *Env, view display.View) (context.Context, func()) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if env.Interrupts == nil {
		return hard, cancel
	}
	told, stop := env.Interrupts()
	go func() {
		for n := 1; ; n++ {
			select {
			case <-hard.Done():
				return
			case s := <-told:
				if n > 1 || s == syscall.SIGTERM {
					cancel()
					return
				}
				view.Note("finishing the run at hand; Ctrl-C again ends it now")
			}
		}
	}()
	return hard, func() {
		stop()
		cancel()
	}
}

// finish prints what came of it and says with which status the program ends.
func (o *runOptions) finish(env *Env, c *runner.Config, sum *runner.Summary, err error) error {
	if sum == nil {
		return err
	}
	for _, k := range sum.Reaped {
		fmt.Fprintf(env.Stderr, "assay: killed %s, which an earlier run had left behind\n", k)
	}
	rep, e := readReport(sum.Rows)
	if e != nil {
		return errors.Join(err, e)
	}
	if err != nil && rep.Rows == 0 && o.out == "" && !c.Resume {
		_ = os.RemoveAll(c.Dir) // ours, and without a row; the error holds the end of the log
		return interrupted(err)
	}
	if rep.Rows > 0 || o.json && err == nil {
		if e := o.printResult(env, c, sum, rep); e != nil {
			return errors.Join(err, e)
		}
	}
	switch {
	case err != nil:
		return interrupted(err)
	case !rep.Clean():
		return &exitError{Code: ExitWithheld}
	}
	return nil
}

func interrupted(err error) error {
	if errors.Is(err, runner.ErrInterrupted) {
		return &exitError{ExitInterrupted, err}
	}
	return err
}

// fit looks at the machine before anything starts, as assay doctor does, and for as
// long only as the plan's demands need.
func (o *runOptions) fit(ctx context.Context, env *Env, p *plan.Plan, dir string) error {
	models, err := planModels(p)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	r, err := examine(ctx, doctor.Config{Root: "/", Plan: p, Models: models, Out: dir}, watchFor(p))
	if err != nil || r.Fit {
		return err
	}
	var b strings.Builder
	for _, check := range r.Checks {
		if check.Level != doctor.Unfit {
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s", check.Name, check.Found)
		if check.Do != "" {
			fmt.Fprintf(&b, " (%s)", check.Do)
		}
	}
	if p.WhenUnfit == plan.Measure || o.whenUnfit == string(plan.Measure) {
		fmt.Fprintf(env.Stderr, "assay: the machine is not fit for what the plan asks, and is measured all the same:%s\n", b.String())
		return nil
	}
	return &exitError{ExitUnfit, fmt.Errorf("the machine is not fit for what the plan asks (--when-unfit measure goes on all the same):%s", b.String())}
}

// watchFor is how long to look at what else runs: not at all where the plan sets no
// limit on it.
func watchFor(p *plan.Plan) float64 {
	n := p.Noise
	if n.CPU == nil && n.BusyProcesses == nil && n.Steal == nil {
		return 0
	}
	return lookSeconds
}
