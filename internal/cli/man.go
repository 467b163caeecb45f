package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const manLong = `Write a manual page for each command into a folder, made from the same text as
--help: for packages. The date in them is that of the commit, so that two builds
of it are the same.

EXIT STATUS
  0  ok
  1  a page could not be written
  2  wrong usage`

func newManCommand(*Env) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write manual pages",
		Long:   manLong,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

// writeManPages writes the page of a command and of those below it.
func writeManPages(cmd *cobra.Command, dir string) error {
	cmd.InitDefaultHelpFlag()
	page := manPage(cmd)
	if err := os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), page, 0o644); err != nil {
		return err
	}
	for _, c := range manChildren(cmd) {
		if err := writeManPages(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// manChildren are the commands below one that have pages.
func manChildren(cmd *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "help" {
			out = append(out, c)
		}
	}
	return out
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is a command's page, in the language of troff's man macros.
func manPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	day := ""
	if v := readVersion(); v.Date != nil {
		if t, err := time.Parse(time.RFC3339, *v.Date); err == nil {
			day = t.UTC().Format(time.DateOnly)
		}
	}
	name := manName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"assay %s\" \"Assay\"\n", manEscape(strings.ToUpper(name)), day, Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", manEscape(name), manEscape(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", manEscape(cmd.CommandPath()))
	if _, rest, ok := strings.Cut(cmd.Use, " "); ok {
		fmt.Fprintf(&b, "%s\n", manEscape(rest))
	}
	if cmd.HasAvailableFlags() {
		fmt.Fprintf(&b, "[\\fIflags\\fR]\n")
	}
	description, status, _ := strings.Cut(cmd.Long, "EXIT STATUS\n")
	b.WriteString(".SH DESCRIPTION\n")
	manText(&b, description)
	manFlags(&b, cmd)
	if status != "" {
		b.WriteString(".SH EXIT STATUS\n")
		manText(&b, status)
	}
	manSeeAlso(&b, cmd)
	return b.Bytes()
}

// manText writes help text: paragraphs are filled, lines that are indented stay as
// they are, and a line that ends with a colon before such is a heading of them.
func manText(b *bytes.Buffer, text string) {
	verbatim := false
	fill := func(want bool) {
		if verbatim != want {
			b.WriteString(map[bool]string{true: ".PP\n.nf\n.RS 4\n", false: ".RE\n.fi\n"}[want])
			verbatim = want
		}
	}
	gap := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			gap = true
			continue
		}
		indented := strings.HasPrefix(line, " ")
		if gap && indented && verbatim {
			b.WriteString("\n")
		}
		fill(indented)
		if gap && !indented {
			b.WriteString(".PP\n")
		}
		gap = false
		if indented {
			line = strings.TrimPrefix(line, "  ")
		}
		b.WriteString(manEscape(line) + "\n")
	}
	fill(false)
}

func manFlags(b *bytes.Buffer, cmd *cobra.Command) {
	if !cmd.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH OPTIONS\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", manEscape(f.Shorthand))
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", manEscape(f.Name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", manEscape(value))
		}
		fmt.Fprintf(b, "\n%s", manEscape(usage))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			fmt.Fprintf(b, " (default %s)", manEscape(f.DefValue))
		}
		b.WriteString("\n")
	})
}

func manSeeAlso(b *bytes.Buffer, cmd *cobra.Command) {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, manName(cmd.Parent()))
	}
	for _, c := range manChildren(cmd) {
		pages = append(pages, manName(c))
	}
	if len(pages) == 0 {
		return
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, p := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", manEscape(p), comma)
	}
}

var manControl = regexp.MustCompile(`(?m)^\.`)

// manEscape makes text mean itself to troff: backslashes, hyphens that are not to
// become other dashes, and what starts a command at the start of a line.
func manEscape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`", "^", `\(ha`, "~", `\(ti`).Replace(s)
	return manControl.ReplaceAllString(s, `\&$0`)
}
