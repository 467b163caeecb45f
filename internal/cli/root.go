package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Assay measures LLM inference engines and says only what it can prove. It is
also an engine of its own for GGUF mixture-of-experts models on CPUs, which it
measures by the same rules as any other.

  assay run                 measure the built-in engine and model
  assay run --url URL       measure a server that is already running
  assay serve -m FILE       the engine as a server with the OpenAI API
  assay chat                talk to the built-in model

Every flag can also be given as an environment variable: --max-tokens as
ASSAY_MAX_TOKENS. A flag on the command line wins.

EXIT STATUS
  0    ok
  1    failed
  2    a flag, an argument or an input file is wrong
  3    finished, with rows failed or figures withheld
  4    the machine is not fit to measure
  99   a threshold was crossed
  130  interrupted`

// newRoot builds the whole command tree.
func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "assay",
		Short:         "Measure LLM inference engines, honestly",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return flagsFromEnv(env, cmd.Flags())
		},
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w (see: %s --help)", err, cmd.CommandPath())
	})
	for _, c := range commands {
		root.AddCommand(c(env))
	}
	completeModels(env, root)
	return root
}

// commands are the constructors of all commands. Each takes what it touches
// from env.
var commands = []func(env *Env) *cobra.Command{
	newRunCommand,
	newServeCommand,
	newGenerateCommand,
	newChatCommand,
	newSummaryCommand,
	newCompareCommand,
	newReportCommand,
	newUICommand,
	newVerifyCommand,
	newPublishCommand,
	newRevealCommand,
	newKeyCommand,
	newImportCommand,
	newExportCommand,
	newSchemaCommand,
	newModelsCommand,
	newInspectCommand,
	newFitCommand,
	newSpeedCommand,
	newTokenizeCommand,
	newTargetsCommand,
	newDoctorCommand,
	newSelftestCommand,
	newHealthCommand,
	newManCommand,
	newVersionCommand,
}

// Main runs one command and returns the exit status.
func Main(env *Env) int {
	root := newRoot(env)
	ctx, cancel := env.Context()
	defer cancel()
	args := rewriteAliases(env.Args)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	err = asUsage(err)
	reportError(env, cmd, args, err)
	return exitCode(err)
}

// asUsage marks cobra's own complaints (unknown command, wrong number of
// arguments) as errors of usage: cobra gives them no type.
func asUsage(err error) error {
	var e *exitError
	if errors.As(err, &e) {
		return err
	}
	for _, prefix := range []string{"unknown command", "accepts ", "requires at least", "unknown shorthand", "unknown flag", "if any flags in the group", "at least one of the flags", "required flag"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return &exitError{ExitUsage, err}
		}
	}
	return err
}

// reportError prints err, as JSON when the command was asked for JSON.
func reportError(env *Env, cmd *cobra.Command, args []string, err error) {
	var e *exitError
	if errors.As(err, &e) && e.Err == nil {
		return
	}
	asJSON := false
	if f := cmd.Flags().Lookup("json"); f != nil {
		asJSON = f.Value.String() == "true"
	}
	for _, a := range args { // a flag error may come before --json was parsed
		if a == "--" {
			break
		}
		asJSON = asJSON || a == "--json"
	}
	if asJSON {
		line, _ := json.Marshal(map[string]any{"error": err.Error(), "exit_status": exitCode(err)})
		fmt.Fprintf(env.Stderr, "%s\n", line)
		return
	}
	fmt.Fprintf(env.Stderr, "assay: %v\n", err)
}

// flagsFromEnv sets every flag that the command line left alone from its
// ASSAY_* twin.
func flagsFromEnv(env *Env, flags *pflag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "help" {
			return
		}
		name := "ASSAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v := env.Getenv(name)
		if v == "" {
			return
		}
		if e := flags.Set(f.Name, v); e != nil {
			err = usagef("environment variable %s: %w", name, e)
		}
	})
	return err
}
