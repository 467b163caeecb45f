package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

// WriteMarkdown writes the report as a post for a forum: the answer, whether it
// can be believed, the tables, what is withheld, and the commands that repeat it.
func (p *Page) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", escape(p.view.Title))
	for _, s := range p.view.Lead {
		fmt.Fprintf(&b, "**%s**\n\n", escape(s))
	}
	if len(p.view.About) > 0 {
		fmt.Fprintf(&b, "%s.\n\n", escape(strings.Join(p.view.About, ", ")))
	}
	for _, c := range p.view.Checks {
		fmt.Fprintf(&b, "- %s %s\n", c.Mark, escape(c.Text))
	}
	if len(p.view.Checks) > 0 {
		b.WriteByte('\n')
	}
	p.markdownCompared(&b)
	if err := p.summary.Print(&b, report.Options{Markdown: true}); err != nil {
		return err
	}
	p.markdownDifferences(&b)
	p.markdownRepeat(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Page) markdownCompared(b *strings.Builder) {
	if len(p.view.Compared) == 0 {
		return
	}
	fmt.Fprintf(b, "| at | arm | %s, as a multiple of %s | verdict | TTFT |\n|---|---|---:|---|---:|\n", escape(p.view.Metric), escape(p.view.Compared[0].Base))
	for _, c := range p.view.Compared {
		verdict := c.Verdict
		if c.Ratio == "none" && c.Words != "" {
			verdict += ": " + c.Words
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", escape(c.Where), escape(c.Arm), escape(strings.TrimSpace(c.Ratio+" "+c.Interval)), escape(verdict), escape(strings.TrimSpace(c.TTFT+" "+c.TTFTIn)))
	}
	b.WriteString("\nRatios of medians, 95 % intervals in brackets.\n\n")
}

func (p *Page) markdownDifferences(b *strings.Builder) {
	for _, d := range p.view.Differ {
		if len(d.Items) == 0 {
			continue
		}
		fmt.Fprintf(b, "\nWhat differs:\n\n| | %s | %s |\n|---|---|---|\n", escape(d.Base), escape(d.Arm))
		for _, i := range d.Items {
			fmt.Fprintf(b, "| %s | %s | %s |\n", escape(i.What), escape(clean(i.Base)), escape(clean(i.Other)))
		}
	}
}

// markdownRepeat gives the commands: what served each arm, what measures it
// again, and what checks these rows.
func (p *Page) markdownRepeat(b *strings.Builder) {
	b.WriteString("\nTo repeat it:\n\n")
	var lines []string
	for _, a := range p.arms {
		lines = append(lines, p.repeat(a)...)
	}
	lines = append(lines, "# with the rows themselves: what their plan measured, again; their evidence, checked; this report, made again")
	lines = append(lines, p.view.Commands...)
	for _, l := range lines {
		b.WriteString("    " + clean(l) + "\n") // indented code needs no fence that a text could close
	}
}

// repeat is how an arm is measured again. Rows hold the target's command line,
// not ours: ours is what asks for the same runs.
func (p *Page) repeat(a *arm) []string {
	var ctxs []string
	repeats, tokens, commands := 0, 0, []string{}
	for _, r := range a.rows {
		if !slices.Contains(ctxs, r.Ctx) && r.Phase != row.Warmup {
			ctxs = append(ctxs, r.Ctx)
		}
		repeats = max(repeats, r.Repeat+1)
		if n := r.Requested.MaxTokens; n != nil {
			tokens = max(tokens, *n)
		}
		if line := shellLine(r.CommandLine...); len(r.CommandLine) > 0 && !slices.Contains(commands, line) {
			commands = append(commands, line)
		}
	}
	out := []string{"# " + a.label}
	switch {
	case len(commands) > 0:
		out = append(out, commands[0])
		if len(commands) > 1 {
			out = append(out, fmt.Sprintf("# and %d further command lines, see the rows", len(commands)-1))
		}
	default:
		out = append(out, "# its command line is not known: the rows don't hold it")
	}
	args := []string{"assay", "run", "--url", "http://127.0.0.1:PORT", "--arm", a.label, "--ctx", strings.Join(ctxs, ",")}
	if tokens > 0 {
		args = append(args, "--max-tokens", strconv.Itoa(tokens))
	}
	return append(out, shellLine(append(args, "--repeats", strconv.Itoa(cmp.Or(repeats, 1)))...))
}

// escape makes text of rows harmless in Markdown: it makes no table cell, tag,
// link, emphasis or code.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "<", "&lt;", "\n", " ", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`, "@", "@\u200b",
	).Replace(s)
}
