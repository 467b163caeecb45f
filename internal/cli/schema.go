package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/row"
)

const schemaLong = `Print the JSON Schema of a row: for every field what it is, its unit (x-unit) and
where its value comes from (x-rule). What is withheld when stands in the schema as
x-withholding.

  assay schema                  of the rows that Assay writes
  assay schema --redacted       of rows that travel: values may be taken out, a mark
                                such as "redacted-2026-10-13" then stands in their
                                place; rows of other tools fit it as well
  assay schema --withholding    the table of checks: what each keeps from being shown

The schema says what a field may hold. That every null has its reason in "why",
and that no figure is shown which is withheld, is checked when a row is written.

EXIT STATUS
  0  ok
  2  wrong usage`

func newSchemaCommand(env *Env) *cobra.Command {
	var redacted, withholding, asJSON bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a row, or what is withheld when",
		Long:  schemaLong,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case withholding && !asJSON:
				return printWithholding(env.Stdout, row.Withholding())
			case withholding:
				return printIndented(env.Stdout, row.Withholding())
			case redacted:
				return printIndented(env.Stdout, row.JSONSchema(row.Published))
			}
			return printIndented(env.Stdout, row.JSONSchema(row.Written))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&redacted, "redacted", false, "the form of published rows")
	f.BoolVar(&withholding, "withholding", false, "the table of what is withheld when, as text")
	f.BoolVar(&asJSON, "json", false, "print the table as JSON (a schema always is)")
	cmd.MarkFlagsMutuallyExclusive("redacted", "withholding")
	return cmd
}

func printIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Widths of the columns of the table of checks.
const (
	codeWidth = 16
	whenWidth = 44
	whatWidth = 34
)

func printWithholding(w io.Writer, table []row.WithholdingRule) error {
	var b strings.Builder
	b.WriteString("A figure that fails a check is computed, kept in the row under \"withheld\", and not shown.\n\n")
	line := func(code, when, what string) {
		s := fmt.Sprintf("%-*s  %-*s  %s", codeWidth, code, whenWidth, when, what)
		b.WriteString(strings.TrimRight(s, " ") + "\n")
	}
	line("CODE", "WHEN", "WITHHOLDS")
	for _, rule := range table {
		what := "energy: " + strings.Join(rule.Groups, ", ")
		if len(rule.Figures) > 0 {
			what = strings.Join(rule.Figures, ", ")
		}
		if rule.Fails {
			what = "everything: the run has failed"
		}
		left, right := wrap(rule.When, whenWidth), wrap(what, whatWidth)
		for i := range max(len(left), len(right)) {
			line(lineOf([]string{rule.Code}, i), lineOf(left, i), lineOf(right, i))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// wrap breaks a text into lines of at most width characters where words allow it.
func wrap(s string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			out, line = append(out, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
