package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"assay/internal/kit/plan"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/models/seedling"
)

// commandArm is the arm of an engine that is started by its name. more are the
// arguments after "--", which go to the engine; the model's file is found in them,
// so that it is hashed and its tokenizer counts.
func (o *runOptions) commandArm(more []string) (plan.Arm, error) {
	arm := plan.Arm{Name: o.arm, Target: o.adapter}
	if arm.Target == "auto" {
		arm.Target = "assay"
	}
	adapter, err := adapters.ByName(arm.Target)
	if err != nil {
		return arm, usagef("--target: %w", err)
	}
	if o.program != "" {
		arm.Program = []string{o.program}
	}
	if o.threads > 0 {
		arm.Threads = &o.threads
	}
	for _, arg := range more {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--host", "--port":
			return arm, usagef("%s: it is set by assay run, which finds a free port", name)
		case "--api-key", "-api-key":
			return arm, usagef("%s: a key on a command line would reach the rows", name)
		}
	}
	facts := adapter.Facts()
	arm.Model, arm.Flags = takeValue(more, facts.ModelFlags)
	s := target.Settings{Args: arm.Flags}
	if arm.ModelName = o.model; o.model != "" && len(facts.ModelFlags) > 0 {
		return arm, usagef("--model: %s is started with a file (want -m FILE)", arm.Target)
	}
	switch {
	case o.given("model-file") && arm.Model != "":
		return arm, usagef("--model-file: the arguments after -- name a model as well")
	case o.given("model-file") || arm.Target == "assay" && arm.Model == "":
		arm.Model = o.modelFile
	}
	switch {
	case arm.Target != "assay" && arm.Model == seedling.Name:
		return arm, usagef("--model-file: only our own engine has the built-in model (want a file)")
	case arm.Model == "" && len(facts.ModelFlags) > 0 && !s.Has(facts.FetchFlags...):
		return arm, usagef("--target %s: which model? (want -m FILE)", arm.Target)
	}
	if o.threads == 0 && arm.Target == "assay" && !s.Has("-t", "--threads") {
		arm.Threads = new(max(1, runtime.NumCPU()-1)) // the kit reads and samples on the last one
	}
	if arm.Drafts = plan.Drafting(arm.Flags); arm.Name != "" {
		return arm, nil
	}
	model := cmp.Or(o.called, arm.Model, arm.ModelName)
	if model == "" {
		model, _ = s.Value(facts.FetchFlags...)
	}
	arm.Name = runner.ArmName(arm.Target, model)
	if o.threads > 0 {
		arm.Name += fmt.Sprintf("-t%d", o.threads)
	}
	return arm, nil
}

// takeValue takes the last value of a flag that goes by these names out of a list
// of arguments, with the flag.
func takeValue(args, names []string) (value string, rest []string) {
	for i := 0; i < len(args); i++ {
		name, v, joined := strings.Cut(args[i], "=")
		switch {
		case !slices.Contains(names, name) || !joined && i+1 == len(args):
			rest = append(rest, args[i])
		case joined:
			value = v
		default:
			i++
			value = args[i]
		}
	}
	return value, rest
}

// commandLine is how an arm that is started by its engine's name would be started,
// as far as that is known without asking the program.
func commandLine(a *plan.Arm, l plan.Launch) []string {
	adapter, err := adapters.ByName(a.Target)
	if err != nil {
		return []string{a.Target}
	}
	c, err := adapter.Command(runner.Settings(a, l, "assay"))
	if err != nil {
		return []string{a.Target, "can't be started:", err.Error()}
	}
	return c.Argv
}
