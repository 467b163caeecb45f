package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

const compareLong = `Hold arms against the first of them: the ratio of the medians of one figure, the
95 % interval of that ratio, and whether there is a difference at all.

An ARM is a file of rows, a folder that holds one (` + row.RowsFile + `), a folder of such
folders, or one of these and an arm in it: DIR:NAME. A folder alone must hold one
arm, unless it is the only argument: then its arms are compared, in their order.

  assay compare before after                     the same arm, two builds
  assay compare runs/today                       all arms of a plan
  assay compare runs/today:ours runs/today:theirs
  assay compare before after --metric ttft
  assay compare before after --fail-if 'decode < 0.95' --fail-if 'ttft @ 2K > 1.1'

One figure is declared (--metric, decode if not given) and tested, over all
contexts as one family (Holm). Arms that were started in turns (A B B A) are
compared by pairs of starts, with the exact signed-rank test; others by the
Mann-Whitney test, over starts where each arm has four or more, else over runs,
and then it is said. The interval is Hodges and Lehmann's. Four of each are
needed, six of pairs; more where several contexts or arms are compared at once: it
is said how many.

Runs are compared only when they read the same slice, as many tokens of prompt (to
1 %), asked for as many, and agree in sampling, reasoning and cache, and only with
runs of our own measuring or all of another tool's. --allow passes over a kind of
mismatch. Different timing rules are never compared.

--fail-if takes METRIC < RATIO or METRIC > RATIO, the ratio being to the first
arm; METRIC @ CONTEXT for one context only. It is met when the whole interval is
beyond the limit. Metrics: `

const compareExit = `

EXIT STATUS
  0   ok; no condition is met
  2   wrong usage, a file that can't be read as rows, or nothing is comparable
  3   some pair could not be compared, or a condition not decided
  99  a condition of --fail-if is met`

type compareOptions struct {
	json, md bool
	metric   string
	allow    []string
	failIf   []string
}

func newCompareCommand(env *Env) *cobra.Command {
	var o compareOptions
	var names []string
	for _, f := range report.Figures {
		names = append(names, f.Name)
	}
	cmd := &cobra.Command{
		Use:   "compare ARM [ARM...]",
		Short: "Say by how much arms differ, and whether it is more than noise",
		Long:  compareLong + "\n" + wrapWords(names, 80) + compareExit,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return runCompare(env, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print as JSON")
	f.BoolVar(&o.md, "md", false, "print as Markdown")
	f.StringVar(&o.metric, "metric", "decode", "the `figure` that is tested")
	f.StringSliceVar(&o.allow, "allow", nil, "`kinds` of mismatch to pass over: "+strings.Join(report.AllowKinds(), ", "))
	f.StringArrayVar(&o.failIf, "fail-if", nil, "a `condition` on a ratio, such as 'decode < 0.95': end with status 99 when it is met; may be given several times")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

// wrapWords joins words with commas, in lines of that width.
func wrapWords(words []string, width int) string {
	var b strings.Builder
	at := 0
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		}
		switch {
		case i == 0:
		case at+1+len(w) > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += len(w)
	}
	return b.String()
}

func runCompare(env *Env, o compareOptions, args []string) error {
	opts := report.CompareOptions{Metric: o.metric, Allow: o.allow}
	for _, text := range o.failIf {
		c, err := report.ParseCondition(text)
		if err != nil {
			return usagef("--fail-if: %w", err)
		}
		opts.Conditions = append(opts.Conditions, c)
	}
	arms, err := readArms(env, args)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	c, err := report.Compare(arms, opts)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	if o.json {
		err = printJSON(env, c)
	} else {
		err = c.Print(env.Stdout, report.Options{Width: columns(env), Markdown: o.md})
	}
	switch {
	case err != nil:
		return err
	case c.Tripped():
		return &exitError{Code: ExitThreshold}
	case c.Refused():
		return usagef("nothing is comparable")
	case !c.Complete():
		return &exitError{Code: ExitWithheld}
	}
	return nil
}

// readArms reads the arms of a command line.
func readArms(env *Env, args []string) ([]report.ArmRows, error) {
	var arms []report.ArmRows
	for _, arg := range args {
		path, name := splitArm(arg)
		found, err := armsIn(env, path)
		if err != nil {
			return nil, err
		}
		switch {
		case name != "":
			i := slices.IndexFunc(found, func(a report.ArmRows) bool { return a.Label == name })
			if i < 0 {
				return nil, fmt.Errorf("%s: no arm %q (it has %s)", path, name, labels(found))
			}
			found = found[i : i+1]
		case len(args) > 1 && len(found) > 1:
			return nil, fmt.Errorf("%s: it has several arms: name one, %s:NAME (it has %s)", path, path, labels(found))
		}
		arms = append(arms, found...)
	}
	if len(arms) < 2 {
		return nil, fmt.Errorf("%s: one arm, %s: a comparison needs two", args[0], labels(arms))
	}
	return labelled(arms), nil
}

// splitArm takes DIR:NAME apart. A path that is there as it stands is one,
// colon or not.
func splitArm(arg string) (path, name string) {
	if _, err := os.Stat(arg); err == nil {
		return arg, ""
	}
	if i := strings.LastIndexByte(arg, ':'); i > 0 && i < len(arg)-1 {
		return arg[:i], arg[i+1:]
	}
	return arg, ""
}

// armsIn gives the arms of a path, in the order of their first rows, under their
// own names.
func armsIn(env *Env, path string) ([]report.ArmRows, error) {
	var arms []report.ArmRows
	in := newRowInput(env, func(r *row.Row) {
		i := slices.IndexFunc(arms, func(a report.ArmRows) bool { return a.Label == r.Arm })
		if i < 0 {
			i = len(arms)
			arms = append(arms, report.ArmRows{Label: r.Arm, From: path})
		}
		arms[i].Rows = append(arms[i].Rows, r)
	})
	if err := in.add(path); err != nil {
		return nil, err
	}
	if err := in.err(); err != nil {
		return nil, err
	}
	if len(arms) == 0 {
		return nil, fmt.Errorf("%s: %w", path, errNoRows)
	}
	return arms, nil
}

var errNoRows = errors.New("there are no rows in it")

func labels(arms []report.ArmRows) string {
	var out []string
	for _, a := range arms {
		out = append(out, a.Label)
	}
	return strings.Join(out, ", ")
}

// labelled gives arms of one name the names of where they come from; where those
// are equal too, numbers.
func labelled(arms []report.ArmRows) []report.ArmRows {
	seen := map[string]int{}
	for _, a := range arms {
		seen[a.Label]++
	}
	out := slices.Clone(arms)
	again := map[string]int{}
	for i, a := range arms {
		if seen[a.Label] > 1 {
			out[i].Label = strings.TrimSuffix(filepath.Base(a.From), ".jsonl")
			if out[i].Label == "rows" {
				out[i].Label = filepath.Base(filepath.Dir(a.From))
			}
		}
		again[out[i].Label]++
		if n := again[out[i].Label]; n > 1 {
			out[i].Label = fmt.Sprintf("%s (%d)", out[i].Label, n)
		}
	}
	return out
}
