package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/publish"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
	"assay/internal/kit/verify"
	"assay/models/seedling"
)

const verifyLong = `Check a folder of rows, or a published bundle, against its evidence.

  assay verify runs/today
  assay verify runs/today --tokenizer model.gguf
  assay verify runs/today --json
  assay verify today.tar.zst --key ed25519:...
  assay verify today.tar.zst --reveal port.json

Three things are checked. The chain of ` + row.RowsFile + `: no row was changed, taken
out, doubled or moved. The sha256 of every file of evidence, and that there are no
others. And every value of every row: all are computed anew, by the functions that
the run used, from the bytes and stamps that were kept. Whatever differs is named,
with the value in the row and the one that the evidence gives.

The text is tokenised anew where the tokenizer is at hand: that of the built-in
model always, another one when --tokenizer names its file. Where it is not, the
ends of the kept tokens are held against the text, and the output says so.

Of a bundle, first the seal over all of its bytes, the signature and the hash of
every member are checked, and nothing is unpacked before. --key demands who must
have signed it. What can't be checked because it was redacted or left out is told;
all else is computed anew. --reveal proves values that the publisher reveals.

What a check of the folder can't show: that the rows were not made up together with
their evidence.

EXIT STATUS
  0    everything is as it should be
  1    the folder can't be read as one of rows, or the bundle is not what was signed
  2    wrong usage, or --tokenizer, --key or --reveal can't be read
  3    something differs, is missing, or can't be computed by this version
  130  interrupted`

func newVerifyCommand(env *Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify DIR|BUNDLE",
		Short: "Compute rows anew from their evidence",
		Long:  verifyLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), env, args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.key, "key", "", "public `key` that must have signed the bundle, or a file with it")
	cmd.Flags().StringVar(&o.reveal, "reveal", "", "`file` of assay reveal: values of the bundle to prove")
	cmd.Flags().StringVar(&o.tokenizer, "tokenizer", "", "GGUF `file` (or "+seedling.Name+") whose tokenizer counts")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

type verifyOptions struct {
	tokenizer, key, reveal string
	json                   bool
}

func runVerify(ctx context.Context, env *Env, path string, o verifyOptions) error {
	counter, err := countersFor(env, o.tokenizer)
	if err != nil {
		return &exitError{ExitUsage, fmt.Errorf("--tokenizer: %w", err)}
	}
	opts := verify.Options{Version: Version, Counter: counter}
	if verify.IsBundle(path) {
		return runVerifyBundle(ctx, env, path, opts, o)
	}
	if o.key != "" || o.reveal != "" {
		return usagef("--key and --reveal are for bundles; %s is none", path)
	}
	rep, err := verify.Dir(ctx, path, opts)
	if err != nil {
		return err
	}
	if o.json {
		err = printIndented(env.Stdout, rep)
	} else {
		_, err = fmt.Fprint(env.Stdout, verifyText(rep))
	}
	if err == nil && !rep.Clean {
		return &exitError{Code: ExitWithheld}
	}
	return err
}

func runVerifyBundle(ctx context.Context, env *Env, path string, opts verify.Options, o verifyOptions) error {
	bo := verify.BundleOptions{Options: opts}
	var err error
	if bo.Key, err = publicKey(o.key); err != nil {
		return usagef("--key: %w", err)
	}
	if o.reveal != "" {
		if bo.Reveal, err = publish.LoadOpenings(o.reveal); err != nil {
			return usagef("--reveal: %w", err)
		}
	}
	rep, err := verify.Bundle(ctx, path, bo)
	if err != nil {
		return err
	}
	if o.json {
		err = printIndented(env.Stdout, rep)
	} else {
		_, err = fmt.Fprint(env.Stdout, bundleText(rep)+verifyText(&rep.Report))
	}
	if err == nil && !rep.Clean {
		return &exitError{Code: ExitWithheld}
	}
	return err
}

// bundleText is what the check of a bundle tells beside that of a folder.
func bundleText(r *verify.BundleReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signed by %s, made %s, evidence: %s\n", r.Key, r.Made, r.Evidence)
	if r.Redacted > 0 {
		fmt.Fprintf(&b, "redacted: %s, in %s\n", plural(r.Redacted, "value"), plural(r.Altered, "row"))
	}
	for _, u := range r.Unchecked {
		what := strings.Join(u.Paths, ", ")
		if most := 6; len(u.Paths) > most {
			what = fmt.Sprintf("%s and %d more", strings.Join(u.Paths[:most], ", "), len(u.Paths)-most)
		}
		if what == "" {
			what = "whole rows"
		}
		fmt.Fprintf(&b, "not checked: %s (%d): %s\n", what, u.Rows, u.Why)
	}
	for _, o := range r.Revealed {
		const most = 120 // a whole line has thousands
		value := string(o.Value)
		if len(value) > most {
			value = strings.ToValidUTF8(value[:most], "") + "..."
		}
		fmt.Fprintf(&b, "revealed and proved: line %d: %s: %s\n", o.Line, o.Path, value)
	}
	return b.String()
}

// countersFor finds tokenizers by the name that rows give them. With a file, that
// one counts for all rows.
func countersFor(env *Env, file string) (func(name string) *tokens.Counter, error) {
	if file != "" {
		c, err := openCounter(env, file)
		return func(string) *tokens.Counter { return c }, err
	}
	builtin, err := openCounter(env, seedling.Name)
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
	if r.Imported > 0 {
		fmt.Fprintf(&b, "imported, so that nothing can be computed anew: %s\n", plural(r.Imported, "row"))
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
