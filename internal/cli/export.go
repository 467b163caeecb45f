package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"assay/internal/kit/report"
)

const exportLong = `Write the summary of rows in a form of others.

  assay export runs/today --to llama-bench > bench.jsonl
  assay export runs/today --to csv -o runs.csv

llama-bench writes the lines of llama-bench -o jsonl, for tools that read these: its
averages are means, ours are medians. csv has a line for each figure of each cell.
FILE is what assay summary takes.

EXIT STATUS
  0  ok
  1  the file can't be written
  2  wrong usage, or a file can't be read as rows`

type exportOptions struct{ to, out string }

func newExportCommand(env *Env) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export FILE... --to FORM",
		Short: "Write rows as llama-bench's lines or CSV",
		Long:  exportLong,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return runExport(env, o, args) },
	}
	cmd.Flags().StringVar(&o.to, "to", "", "`form`: llama-bench or csv")
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "the `file` to make (default: print)")
	return cmd
}

func runExport(env *Env, o exportOptions, args []string) error {
	var write func(*report.Report, io.Writer) error
	switch o.to {
	case "llama-bench":
		write = (*report.Report).LlamaBench
	case "csv":
		write = (*report.Report).CSV
	default:
		return usagef("--to: %q is none of llama-bench, csv", o.to)
	}
	builder := report.NewBuilder()
	in := newRowInput(env, builder.Add)
	rep, err := in.report(builder, args)
	if err != nil {
		return err
	}
	if o.out == "" {
		return write(rep, env.Stdout)
	}
	f, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(rep, f), f.Close())
}
