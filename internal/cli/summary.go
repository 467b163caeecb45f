package cli

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

const summaryLong = `Sum up rows: for every arm and context the number of runs and starts, and of TTFT,
prompt tok/s and decode tok/s the median, the range and the 95 % interval of the
median, which needs six runs; --wide has every figure: first visible token,
rounds, gaps, load time, energy, memory, warm-ups.

FILE is a file of rows, a folder that holds one (` + row.RowsFile + `), a folder of such
folders, or - for standard input. Rows of other tools are read as well, each under
its own timing rule. Warm-ups, failed and short runs are left out; withheld figures
are never mixed in. Below the table stand what failed, what is withheld and why,
what lies far from the rest (and is kept), how the token counts were checked and by
which rule the rates were timed. A row that is given twice is counted once.

  assay summary runs/today
  assay summary runs/today --md             for an issue or a document
  assay summary runs/today --wide           every figure, a line each
  assay summary runs/today --csv            the same for a spreadsheet
  assay summary a/rows.jsonl b/rows.jsonl --json
  assay summary runs/today --llama-bench    lines as llama-bench -o jsonl has them

With --tokenizer, the text of runs that could not count it when they were made is
counted now, from the evidence beside the rows: the verdict, and what it
withholds, are then those of the new count. The rows stay as they are.

  assay summary runs/today --tokenizer model.gguf

The table fits itself to $COLUMNS, or to 80.

EXIT STATUS
  0  ok
  2  wrong usage, or a file that can't be read as rows
  3  rows failed, or figures are withheld`

type summaryOptions struct {
	json, md, wide, csv, llamaBench bool

	format    string // text or md, for printReport
	tokenizer string
}

func newSummaryCommand(env *Env) *cobra.Command {
	var o summaryOptions
	cmd := &cobra.Command{
		Use:   "summary FILE...",
		Short: "Print a table of any rows",
		Long:  summaryLong,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return runSummary(env, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print as JSON")
	f.BoolVar(&o.md, "md", false, "print as Markdown")
	f.BoolVar(&o.wide, "wide", false, "every figure, a line each")
	f.BoolVar(&o.csv, "csv", false, "print as CSV, a line for each figure")
	f.BoolVar(&o.llamaBench, "llama-bench", false, "print as llama-bench's JSON lines")
	f.StringVar(&o.tokenizer, "tokenizer", "", "`file` of the model, to count texts by that were not counted yet")
	cmd.MarkFlagsMutuallyExclusive("json", "md", "csv", "llama-bench")
	cmd.MarkFlagsMutuallyExclusive("json", "wide", "csv", "llama-bench")
	return cmd
}

func runSummary(env *Env, o summaryOptions, args []string) error {
	builder := report.NewBuilder()
	in := newRowInput(env, builder.Add)
	if o.tokenizer != "" {
		c, err := openCounter(env, o.tokenizer)
		if err != nil {
			return usagef("--tokenizer: %w", err)
		}
		in.counter = c
	}
	rep, err := in.report(builder, args)
	if err != nil {
		return err
	}
	if in.twice > 0 {
		fmt.Fprintf(env.Stderr, "assay: rows given more than once and counted once: %d\n", in.twice)
	}
	if in.counter != nil {
		fmt.Fprintf(env.Stderr, "assay: texts counted now by %s: %d\n", in.counter.Name, in.counted)
	}
	if err := printReport(env, rep, o); err != nil {
		return err
	}
	if !rep.Clean() {
		return &exitError{Code: ExitWithheld}
	}
	return nil
}

func printReport(env *Env, rep *report.Report, o summaryOptions) error {
	switch {
	case o.json:
		return printJSON(env, rep)
	case o.csv:
		return rep.CSV(env.Stdout)
	case o.llamaBench:
		return rep.LlamaBench(env.Stdout)
	}
	return rep.Print(env.Stdout, report.Options{Width: columns(env), Markdown: o.md || o.format == "md", Wide: o.wide})
}

func printJSON(env *Env, v any) error {
	enc := json.NewEncoder(env.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// columns is the width that tables fit themselves to.
func columns(env *Env) int {
	const usual, least = 80, 40
	width, err := strconv.Atoi(env.Getenv("COLUMNS"))
	if err != nil || width < least {
		return usual
	}
	return width
}
