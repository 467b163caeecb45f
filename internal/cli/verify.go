package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
	"assay/internal/kit/verify"
	"assay/models/seedling"
)

const verifyLong = `Check a folder of rows against its evidence.

  assay verify runs/today
  assay verify runs/today --tokenizer model.gguf
  assay verify runs/today --json

Three things are checked. The chain of ` + row.RowsFile + `: no row was changed, taken
out, doubled or moved. The sha256 of every file of evidence, and that there are no
others. And every value of every row: all are computed anew, by the functions that
the run used, from the bytes and stamps that were kept. Whatever differs is named,
with the value in the row and the one that the evidence gives.

The text is tokenised anew where the tokenizer is at hand: that of the built-in
model always, another one when --tokenizer names its file. Where it is not, the
ends of the kept tokens are held against the text, and the output says so.

What a check of the folder can't show: that the rows were not made up together with
their evidence.

EXIT STATUS
  0    everything is as it should be
  1    the folder can't be read as one of rows
  2    wrong usage, or --tokenizer can't be read
  3    something differs, is missing, or can't be computed by this version
  130  interrupted`

func newVerifyCommand(env *Env) *cobra.Command {
	var tokenizer string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Compute rows anew from their evidence",
		Long:  verifyLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), env, args[0], tokenizer, asJSON)
		},
	}
	cmd.Flags().StringVar(&tokenizer, "tokenizer", "", "GGUF `file` (or "+seedling.Name+") whose tokenizer counts")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func runVerify(ctx context.Context, env *Env, dir, tokenizer string, asJSON bool) error {
	counter, err := countersFor(tokenizer)
	if err != nil {
		return &exitError{ExitUsage, fmt.Errorf("--tokenizer: %w", err)}
	}
	rep, err := verify.Dir(ctx, dir, verify.Options{Version: Version, Counter: counter})
	if err != nil {
		return err
	}
	if asJSON {
		err = printIndented(env.Stdout, rep)
	} else {
		_, err = fmt.Fprint(env.Stdout, verifyText(rep))
	}
	if err == nil && !rep.Clean {
		return &exitError{Code: ExitWithheld}
	}
	return err
}

// countersFor finds tokenizers by the name that rows give them. With a file, that
// one counts for all rows.
func countersFor(file string) (func(name string) *tokens.Counter, error) {
	if file != "" {
		c, err := openCounter(file)
		return func(string) *tokens.Counter { return c }, err
	}
	builtin, err := openCounter(seedling.Name)
	return func(name string) *tokens.Counter {
		if name == seedling.File {
			return builtin
		}
		return nil
	}, err
}

// mostFindings is how many findings the text shows.
const mostFindings = 100

func verifyText(r *verify.Report) string {
	var b strings.Builder
	for _, list := range []struct {
		title    string
		findings []verify.Finding
	}{{"", r.Findings}, {"note: ", r.Notes}} {
		for i, f := range list.findings {
			if i == mostFindings {
				fmt.Fprintf(&b, "%sand %d more (all of them with --json)\n", list.title, len(list.findings)-i)
				break
			}
			fmt.Fprintf(&b, "%s%s\n", list.title, f)
		}
	}
	fmt.Fprintf(&b, "%s: %s, %s of evidence\n", r.Dir, plural(r.Rows, "row"), plural(r.Files, "file"))
	for _, rule := range slices.Sorted(maps.Keys(r.Rules)) {
		fmt.Fprintf(&b, "computed anew by %s: %s\n", rule, plural(r.Rules[rule], "row"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Recounted)) {
		fmt.Fprintf(&b, "tokenised anew by %s: %s\n", name, plural(r.Recounted[name], "row"))
	}
	for _, l := range r.Left {
		fmt.Fprintf(&b, "not tokenised anew: %s: %s\n", plural(l.Rows, "row"), l.Why)
	}
	if r.Clean {
		b.WriteString("clean: nothing differs\n")
	} else {
		fmt.Fprintf(&b, "NOT CLEAN: %s\n", plural(len(r.Findings), "finding"))
	}
	return b.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
