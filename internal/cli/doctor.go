package cli

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/gguf"
	"assay/internal/kit/doctor"
	"assay/internal/kit/modelfile"
	"assay/internal/kit/plan"
	"assay/internal/kit/target/adapters"
	"assay/models/seedling"
)

const doctorLong = `Say what this machine can measure, and whether it is fit for what a plan asks.

For each figure of a row: it can be measured, and from where; or it can't, why,
and what to do about it. Then what would disturb a measurement: other processes,
swap, heat, the governor, a hypervisor, too little memory for the model, a full
disk.

  assay doctor                 for what assay run does without a plan
  assay doctor PLAN.yaml       for a plan: its models, limits and demands
  assay doctor example:energy  for one of the shipped plans

Only what the plan demands (require, noise, guard), what it starts, and memory or
disk that do not suffice make a machine unfit. All else is a warning.

EXIT STATUS
  0    fit
  1    failed
  2    the plan, a flag or a file that the plan names is wrong
  4    the machine is not fit for what the plan asks
  130  interrupted`

type doctorOptions struct {
	out     string
	root    string
	seconds float64
	json    bool
}

func newDoctorCommand(env *Env) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [PLAN]",
		Short: "Say what this machine can measure",
		Long:  doctorLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runDoctor(cmd.Context(), env, o, file)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "assay-runs", "`folder` that the rows would go to")
	f.Float64Var(&o.seconds, "seconds", lookSeconds, "how long to watch what else runs; 0: not at all")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	// For tests and for looking at another machine's recorded files.
	f.StringVar(&o.root, "machine-root", "/", "read /proc and /sys below this `folder`")
	_ = f.MarkHidden("machine-root") // the flag is there
	return cmd
}

// lookSeconds is how long what else runs is watched: the kernel counts processor time
// in hundredths of a second.
const lookSeconds = 2

// maxWatch is how long doctor may watch.
const maxWatch = 600

func runDoctor(ctx context.Context, env *Env, o doctorOptions, file string) error {
	if !(o.seconds >= 0 && o.seconds <= maxWatch) {
		return usagef("--seconds: %v (want 0 to %d)", o.seconds, maxWatch)
	}
	p, err := doctorPlan(env, file)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	models, err := planModels(p)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	r, err := examine(ctx, doctor.Config{Root: o.root, Plan: p, Models: models, Out: o.out}, o.seconds)
	if err != nil {
		return err
	}
	if o.json {
		err = printIndented(env.Stdout, r)
	} else {
		_, err = fmt.Fprint(env.Stdout, r.Text())
	}
	switch {
	case err != nil:
		return err
	case !r.Fit:
		return &exitError{Code: ExitUnfit}
	}
	return nil
}

// examine looks at the machine, and at what else runs on it for some time.
func examine(ctx context.Context, c doctor.Config, seconds float64) (doctor.Report, error) {
	c.LookPath, c.Out = exec.LookPath, doctor.Nearest(c.Out)
	if seconds > 0 {
		if err := watch(ctx, &c, seconds); err != nil {
			return doctor.Report{}, err
		}
	}
	return doctor.Examine(c), nil
}

// doctorPlan is the plan of a file, or what assay run does without one.
func doctorPlan(env *Env, file string) (*plan.Plan, error) {
	if file == "" {
		p := plan.Defaults()
		p.Arms = []plan.Arm{{Name: "assay-seedling", Target: "assay", Model: seedling.Name}}
		return &p, nil
	}
	p, err := plan.Load(file, plan.Options{Targets: adapters.Names()})
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		p.Name = file
	}
	return p, p.CheckFiles(modelNames(env))
}

// planModels opens the model of each arm for its size, which also tells a file
// that is none.
func planModels(p *plan.Plan) ([]doctor.Model, error) {
	var out []doctor.Model
	for i := range p.Arms {
		a := &p.Arms[i]
		if a.Model == "" {
			continue
		}
		m := doctor.Model{Arm: a.Name, Path: a.Model, Built: a.Model == seedling.Name}
		if m.Built {
			m.Bytes = int64(len(seedling.GGUF))
		} else {
			var err error
			if m.Bytes, err = modelfile.Size(a.Model); err == nil && a.Target == "assay" {
				err = isModel(a.Model)
			}
			if err != nil {
				return nil, fmt.Errorf("the model of %s: %w", a.Name, err)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// isModel opens a file that our own engine is to load.
func isModel(name string) error {
	f, err := gguf.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// watch looks at what runs on the machine for some time. Where /proc can't be
// read, the report says that nobody looked.
func watch(ctx context.Context, c *doctor.Config, seconds float64) (err error) {
	before, errB := doctor.Look(c.Root)
	if c.Late, err = timers(ctx, seconds); err != nil {
		return err
	}
	if after, errA := doctor.Look(c.Root); errA == nil && errB == nil {
		c.Before, c.After = before, after
	}
	return nil
}

// timers waits for some time in steps of a millisecond, and says how late each
// one was: what a client that waits for frames would see of a busy machine.
func timers(ctx context.Context, seconds float64) ([]time.Duration, error) {
	const step = time.Millisecond
	var late []time.Duration
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); ; {
		began := time.Now()
		if !began.Before(end) {
			return late, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(step):
			late = append(late, time.Since(began)-step)
		}
	}
}
