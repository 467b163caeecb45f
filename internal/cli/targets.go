package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
)

const targetsLong = `List the engines that Assay knows, and what it can prove of each: where the
engine tells its own counts, beside the stream, whether a run can be made to have
exactly the tokens that were asked for, and how its prompt cache is kept out of
the way. What is not documented of an engine is left empty.

  assay targets                 a table
  assay targets llama-server    all of one, in words
  assay targets --md            the table of docs/engines.md

An engine that can be started by its name is measured by "assay run --target NAME
-- ARGUMENTS"; every other one by --url, or by a plan with the command that starts
it.

EXIT STATUS
  0  ok
  2  wrong usage, or no engine goes by that name`

type targetsOptions struct {
	json, md bool
}

func newTargetsCommand(env *Env) *cobra.Command {
	var o targetsOptions
	cmd := &cobra.Command{
		Use:   "targets [NAME]",
		Short: "List the engines and what can be proved of each",
		Long:  targetsLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runTargets(env, o, name)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print as JSON")
	f.BoolVar(&o.md, "md", false, "print as Markdown")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

// knownEngine is what is known of one kind of engine, as --json prints it.
type knownEngine struct {
	Name            string   `json:"name"`
	About           string   `json:"about"`
	Start           []string `json:"start"`             // a command line, values in capitals; null: it can't be started by its name
	Counts          []string `json:"counts"`            // where the engine tells its count of tokens
	Exact           bool     `json:"exact_length"`      // a run can have exactly the tokens that were asked for
	Exactly         string   `json:"exactly"`           // how, or why not
	CacheOff        string   `json:"cache_off"`         // how the prompt cache is kept out of the way
	EndTokenCounted *bool    `json:"end_token_counted"` // null: not documented
	DecodeBasis     *string  `json:"decode_basis"`      // what its own rate divides; null: found from the numbers
	Tokenizer       []string `json:"tokenizer"`         // endpoints that give the tokens of a text
	Template        bool     `json:"template"`          // an endpoint renders its chat template
	PromptTokens    *string  `json:"prompt_tokens"`     // the endpoint that counts a prompt; null: there is none
	Metrics         *string  `json:"metrics"`           // the path of its counters; null: there are none
	Log             bool     `json:"log"`               // its log tells of each request
}

func engineOf(a target.Adapter) knownEngine {
	f := a.Facts()
	e := knownEngine{
		Name: a.Name(), About: f.About, Counts: f.Counts, Exact: f.ExactLength, Exactly: f.Exactly, CacheOff: f.CacheOff,
		EndTokenCounted: f.EndTokenCounted, DecodeBasis: target.NonEmpty(f.DecodeBasis), Tokenizer: []string{}, Template: a.Template(),
		PromptTokens: target.NonEmpty(a.InputTokens()), Metrics: target.NonEmpty(a.Meter().Path),
	}
	if e.Counts == nil {
		e.Counts = []string{}
	}
	for _, form := range a.TokenizeForms() {
		e.Tokenizer = append(e.Tokenizer, form.Path)
	}
	_, err := a.ReadLog(nil)
	e.Log = !errors.Is(err, target.ErrUnknownLog)
	s := target.Settings{Model: "MODEL", Port: 8080, Context: 4096}
	if a.Name() == "assay" {
		s.Program = []string{"assay", "serve"}
	}
	if c, err := a.Command(s); err == nil {
		e.Start = c.Argv
	}
	return e
}

func runTargets(env *Env, o targetsOptions, name string) error {
	all := adapters.All
	if name != "" {
		a, err := target.ByName(all, name)
		if err != nil {
			return &exitError{ExitUsage, err}
		}
		all = []target.Adapter{a}
	}
	var engines []knownEngine
	for _, a := range all {
		engines = append(engines, engineOf(a))
	}
	switch {
	case o.json && name != "":
		return printIndented(env.Stdout, engines[0])
	case o.json:
		return printIndented(env.Stdout, engines)
	case o.md:
		return enginesTable(env.Stdout, engines)
	case name != "":
		return engines[0].words(env.Stdout)
	}
	return enginesList(env.Stdout, engines)
}

// starts says how an engine comes to be measured.
func (e *knownEngine) starts() string {
	if e.Start == nil {
		return "attached"
	}
	return "started"
}

// tokens says which of its endpoints tell of tokens.
func (e *knownEngine) tokens() string {
	switch {
	case len(e.Tokenizer) > 0 && e.Template:
		return "tokens, template"
	case len(e.Tokenizer) > 0:
		return "tokens"
	}
	return "-"
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// enginesList is the table for a terminal.
func enginesList(to io.Writer, engines []knownEngine) error {
	rows := [][]string{{"engine", "by --target", "exact length", "endpoints", "counts"}}
	for _, e := range engines {
		rows = append(rows, []string{e.Name, e.starts(), yesNo(e.Exact), e.tokens(), short(e.Counts)})
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// short names the sources of a count without what is said of them in brackets.
func short(counts []string) string {
	var out []string
	for _, c := range counts {
		c, _, _ = strings.Cut(c, " (")
		out = append(out, c)
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

// enginesTable is the table of docs/engines.md.
func enginesTable(to io.Writer, engines []knownEngine) error {
	var b strings.Builder
	b.WriteString("| engine | started by name | exactly N tokens | prompt cache | where it tells its counts | its own decode rate divides |\n| --- | --- | --- | --- | --- | --- |\n")
	cell := func(s string) string {
		if s == "" {
			return "not documented"
		}
		return strings.ReplaceAll(s, "|", `\|`)
	}
	for _, e := range engines {
		basis := "found from its numbers"
		if e.DecodeBasis != nil {
			basis = *e.DecodeBasis
		}
		exactly := e.Exactly
		if e.Exact {
			exactly = "yes: " + exactly
		} else if exactly != "" {
			exactly = "no: " + exactly
		}
		fmt.Fprintf(&b, "| **%s**: %s | %s | %s | %s | %s | %s |\n", e.Name, cell(e.About), yesNo(e.Start != nil), cell(exactly), cell(e.CacheOff), cell(strings.Join(e.Counts, ", ")), basis)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// words is all that is known of one engine.
func (e *knownEngine) words(to io.Writer) error {
	var b strings.Builder
	line := func(name, text string) {
		if text == "" {
			text = "not documented"
		}
		fmt.Fprintf(&b, "%-18s %s\n", name, text)
	}
	line("engine", e.Name+": "+e.About)
	if e.Start != nil {
		line("started as", strings.Join(e.Start, " "))
	} else {
		line("started as", "not by its name: --url, or a plan with the command")
	}
	line("exact length", yesNo(e.Exact)+": "+e.Exactly)
	line("prompt cache", e.CacheOff)
	line("counts", strings.Join(e.Counts, ", "))
	switch {
	case e.EndTokenCounted == nil:
		line("end token", "")
	default:
		line("end token", map[bool]string{true: "counted, though it has no text", false: "not counted"}[*e.EndTokenCounted])
	}
	basis := "found from its numbers: n-1, n, or neither"
	if e.DecodeBasis != nil {
		basis = *e.DecodeBasis
	}
	line("decode rate", basis)
	line("log", map[bool]string{true: "tells of each request", false: "not read"}[e.Log])
	line("counters", orNone(e.Metrics))
	line("tokens of a text", strings.Join(e.Tokenizer, ", "))
	line("tokens of a prompt", orNone(e.PromptTokens))
	line("template", map[bool]string{true: "/apply-template", false: "none"}[e.Template])
	_, err := io.WriteString(to, b.String())
	return err
}

func orNone(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}
