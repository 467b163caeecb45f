package cli

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
)

const summaryLong = `Sum up rows: for every arm and context the number of runs, the median and the
range of TTFT, prompt tok/s and decode tok/s.

FILE is a file of rows, a directory that holds one (` + row.RowsFile + `), or - for
standard input. Rows of other tools are read as well, each under its own timing
rule. Warm-ups, failed and short runs are left out; withheld figures are never
mixed in. Below the table stand what failed, what is withheld and why, how the
token counts were checked and by which rule the rates were timed. A row that is
given twice is counted once.

  assay summary runs/today
  assay summary runs/today --format md      for an issue or a document
  assay summary a/rows.jsonl b/rows.jsonl --json

With --tokenizer, the text of runs that could not count it when they were made is
counted now, from the evidence beside the rows: the verdict, and what it
withholds, are then those of the new count. The rows stay as they are.

  assay summary runs/today --tokenizer model.gguf

The table fits itself to $COLUMNS where that is set.

EXIT STATUS
  0  ok
  2  wrong usage, or a file that can't be read as rows
  3  rows failed, or figures are withheld`

type summaryOptions struct {
	json      bool
	format    string
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
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	cmd.Flags().StringVar(&o.format, "format", "text", "text or md")
	cmd.Flags().StringVar(&o.tokenizer, "tokenizer", "", "`file` of the model, to count texts by that were not counted yet")
	return cmd
}

func runSummary(env *Env, o summaryOptions, args []string) error {
	if o.format != "text" && o.format != "md" {
		return usagef("--format: %q is neither text nor md", o.format)
	}
	in := rowInput{stdin: env.Stdin, builder: report.NewBuilder(), seen: map[[sha256.Size]byte]bool{}}
	if o.tokenizer != "" {
		c, err := openCounter(o.tokenizer)
		if err != nil {
			return usagef("--tokenizer: %w", err)
		}
		in.counter = c
	}
	for _, arg := range args {
		if err := in.add(arg); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if err := in.err(); err != nil {
		return &exitError{ExitUsage, err}
	}
	rep := in.builder.Report()
	if rep.Rows == 0 {
		return usagef("there are no rows in %q", args)
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
	if o.json {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(rep)
	}
	width, err := strconv.Atoi(env.Getenv("COLUMNS"))
	if err != nil || width < 40 {
		width = 0
	}
	return rep.Print(env.Stdout, report.Options{Width: width, Markdown: o.format == "md"})
}

// rowInput reads rows from the places that a command was given.
type rowInput struct {
	stdin   io.Reader
	builder *report.Builder
	seen    map[[sha256.Size]byte]bool // sha256 of the lines so far
	twice   int
	broken  []error // the first of them
	bad     int     // how many there are

	counter *tokens.Counter // nil: rows are taken as they are
	counted int             // rows whose text it counted
}

// mostBroken is how many broken lines are told of.
const mostBroken = 10

// add reads the rows of one argument. Its error is one of the file; what is
// wrong in lines is collected, so that all of it can be shown at once.
func (in *rowInput) add(arg string) error {
	if arg == "-" {
		in.read(in.stdin, "stdin", "")
		return nil
	}
	info, err := os.Stat(arg)
	if err != nil {
		return err
	}
	path := arg
	if info.IsDir() {
		path = filepath.Join(arg, row.RowsFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in.read(f, path, filepath.Dir(path))
	return nil
}

// read reads rows whose evidence lies below dir; "" is nowhere.
func (in *rowInput) read(r io.Reader, name, dir string) {
	for line := range row.Lines(r) {
		parsed, err := line.Row()
		if err == nil && parsed != nil {
			err = readable(parsed)
		}
		if err == nil && parsed != nil && in.counter != nil && dir != "" {
			parsed, err = in.later(parsed, dir)
		}
		switch {
		case err != nil:
			if in.bad++; in.bad <= mostBroken {
				in.broken = append(in.broken, fmt.Errorf("%s:%d: %w", name, line.Number, err))
			}
		case parsed == nil: // a blank line
		case in.isNew(line.Bytes):
			in.builder.Add(parsed)
		}
	}
}

// later counts the text of a row now, if the run could not, and returns the row
// with what follows from the count.
func (in *rowInput) later(r *row.Row, dir string) (*row.Row, error) {
	if r.Schema == "" || r.Evidence.Dir == nil {
		return r, nil // another tool's, or without evidence
	}
	at, err := filepath.Localize(*r.Evidence.Dir)
	if err != nil {
		return nil, fmt.Errorf("evidence.dir: %w", err)
	}
	at = filepath.Join(dir, at)
	if wrong := evidence.Check(at, r.Evidence.Files); len(wrong) > 0 {
		return nil, fmt.Errorf("its evidence is not what it was (assay verify tells more): %w", wrong[0])
	}
	rec, err := evidence.Read(at)
	if err != nil {
		return nil, err
	}
	facts, err := derive.ReadFacts(rec)
	if err != nil {
		return nil, err
	}
	counted, err := derive.Later(rec, *facts, in.counter)
	if err != nil || counted == nil {
		return r, err
	}
	in.counted++
	counted.Evidence, counted.Seq, counted.PrevSHA256 = r.Evidence, r.Seq, r.PrevSHA256
	return counted, nil
}

// isNew says whether these bytes were not seen before.
func (in *rowInput) isNew(line []byte) bool {
	sum := sha256.Sum256(line)
	if in.seen[sum] {
		in.twice++
		return false
	}
	in.seen[sum] = true
	return true
}

// readable refuses what is JSON but no row that this version understands.
func readable(r *row.Row) error {
	switch {
	case r.Schema != "" && r.Schema != row.Schema:
		return fmt.Errorf("schema: %q is not known, want %q: was it written by a newer assay?", r.Schema, row.Schema)
	case r.Arm == "":
		return errors.New("arm: missing: this is no row")
	case r.Status == "":
		return errors.New("status: missing: this is no row")
	}
	return nil
}

// err tells of the broken lines.
func (in *rowInput) err() error {
	if more := in.bad - len(in.broken); more > 0 {
		return errors.Join(append(in.broken, fmt.Errorf("and %d more lines", more))...)
	}
	return errors.Join(in.broken...)
}
