package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/page"
	kitreport "assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
)

const reportLong = `Make a report of rows: which arm is faster, by how much, and whether that can be
believed.

  assay report runs/today -o report.html
  assay report runs/before runs/after --split -o report.html
  assay report runs/today --md                  for a forum, an issue or a document
  assay report runs/today --json                what it says, for a program

DIR is a folder that holds ` + row.RowsFile + `, a folder of such folders, a file of rows, or -
for standard input.
The HTML report is one file: it loads nothing and runs no script, so it can be
opened from disk, sent by mail and printed. Its charts need the evidence beside the
rows and say so where it is missing. It links to the evidence by relative paths:
keep it where it was written, or the links lead nowhere.

Rows of one arm are one arm, whichever folders they come from, if they are runs of
the same thing; else, and with --split, each folder's rows are an arm of their own.
The first arm, or the one that --base names, is what the others are held against.

EXIT STATUS
  0  the report is written
  1  it could not be written
  2  wrong usage, or a file that can't be read as rows`

type reportOptions struct {
	out    string
	md     bool
	json   bool
	base   string
	metric string
	split  bool
	allow  []string
}

func newReportCommand(env *Env) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Make a report of any rows, as HTML or Markdown",
		Long:  reportLong,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runReport(cmd.Context(), env, o, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "`file` to write (default, with --md and --json: standard output)")
	f.BoolVar(&o.md, "md", false, "write Markdown instead of HTML")
	f.BoolVar(&o.json, "json", false, "write JSON instead of HTML: answer, summary and comparison")
	cmd.MarkFlagsMutuallyExclusive("md", "json")
	registerArmFlags(cmd, &o)
	return cmd
}

// registerArmFlags adds the flags that say what the arms are.
func registerArmFlags(cmd *cobra.Command, o *reportOptions) {
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "`arm` that the others are held against (default: the first)")
	f.StringVar(&o.metric, "metric", "decode", "the figure that is tested")
	f.StringSliceVar(&o.allow, "allow", nil, "`kinds` of mismatch that are passed over (assay compare --help)")
	f.BoolVar(&o.split, "split", false, "the rows of each folder are an arm of their own")
}

// check refuses names that are not known.
func (o *reportOptions) check() error {
	for _, a := range o.allow {
		if !slices.Contains(kitreport.AllowKinds(), a) {
			return usagef("--allow: %q is not known (want %s)", a, strings.Join(kitreport.AllowKinds(), ", "))
		}
	}
	if _, ok := kitreport.FigureOf(o.metric); !ok {
		var names []string
		for _, f := range kitreport.Figures {
			names = append(names, f.Name)
		}
		return usagef("--metric: %q is not known (want %s)", o.metric, strings.Join(names, ", "))
	}
	return nil
}

func (o *reportOptions) page() page.Options {
	return page.Options{Base: o.base, Metric: o.metric, Split: o.split, Allow: o.allow, Version: Version}
}

func runReport(ctx context.Context, env *Env, o reportOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.out == "" && !o.md && !o.json {
		return usagef("-o: missing: name the file to write, such as -o report.html (or ask for --md or --json)")
	}
	b := page.NewBuilder(o.page())
	var folder *page.Folder
	var arms []string
	in := newRowInput(env, func(r *row.Row) {
		if !slices.Contains(arms, r.Arm) {
			arms = append(arms, r.Arm)
		}
		b.Add(r, folder)
	})
	for _, arg := range args {
		if err := addRows(in, &folder, arg, o.out); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if err := in.err(); err != nil {
		return &exitError{ExitUsage, err}
	}
	if b.Rows() == 0 {
		return usagef("there are no rows in %q", args)
	}
	if o.base != "" && !slices.Contains(arms, o.base) && !o.split {
		return usagef("--base: %q is none of the arms (%s)", o.base, strings.Join(arms, ", "))
	}
	p, err := b.Page(ctx)
	if err != nil {
		return err
	}
	write := p.WriteHTML
	switch {
	case o.md:
		write = p.WriteMarkdown
	case o.json:
		write = p.WriteJSON
	}
	if o.out == "" {
		return write(env.Stdout)
	}
	if err := writeWhole(o.out, write); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "assay: wrote %s\n", o.out)
	return nil
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	defer os.Remove(tmp.Name())
	if err := errors.Join(write(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	return nil
}

// addRows reads the rows of one argument into a page that is written to out
// ("": standard output).
func addRows(in *rowInput, folder **page.Folder, arg, out string) error {
	if arg == "-" {
		*folder = &page.Folder{Name: "-"}
		return in.add(arg)
	}
	paths, err := rowFiles(arg)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if isBundle(path) { // no folder to link to
			*folder = &page.Folder{Name: path}
		} else {
			*folder = folderOf(path)
			(*folder).Link = linkFrom(filepath.Dir(out), (*folder).Path)
		}
		if err := in.addFile(path); err != nil {
			return err
		}
	}
	return nil
}

// folderOf is the folder of a file of rows. It is named by the file where that
// has a name of its own.
func folderOf(path string) *page.Folder {
	f := &page.Folder{Name: path, Path: filepath.Dir(path)}
	if filepath.Base(path) == row.RowsFile {
		f.Name = f.Path
		if plan := filepath.Join(f.Path, runner.PlanFile); isThere(plan) {
			f.Plan = plan
		}
	}
	return f
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// linkFrom is the relative URL of a folder, seen from another; "" when there is
// none.
func linkFrom(from, to string) string {
	from, err1 := filepath.Abs(from)
	to, err2 := filepath.Abs(to)
	rel, err3 := filepath.Rel(from, to)
	if errors.Join(err1, err2, err3) != nil {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	if parts[0] == "." || parts[0] == ".." {
		return strings.Join(parts, "/")
	}
	return "./" + strings.Join(parts, "/") // a first part with a colon is no scheme
}
