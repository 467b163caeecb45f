package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/kit/bundle"
	"assay/internal/kit/publish"
	"assay/internal/kit/verify"
)

const publishLong = `Make one signed file of a folder of rows, for others to check.

  assay publish runs/today -o today.tar.zst
  assay publish runs/today -o today.tar.zst --redact completion_head,command_line.port
  assay publish runs/today --dry-run

What identifies you is found and taken out: home directories, host and user names,
keys, network and mail addresses, serial numbers. It is listed before anything is
written. Then the whole bundle is searched for it, in logs, requests, streams and
facts too, as it is and in the escapes of JSON and URLs and in base64; if anything
is left, nothing is published.

--redact takes out fields by their names in a row: * stands for any letters, and
command_line.NAME for the value of the flag --NAME. --redact-text takes out what a
pattern matches, wherever it stands, and --secrets every line of a file. --keep lets
a value stay that was found.

Where a value was, there stands redacted-DATE, and the bundle has a commitment to
it. The salts are kept in FILE.salts, which only you can read: with it, assay reveal
proves a value later. Don't lose it, and don't publish it.

--evidence all       everything that was kept (the default)
--evidence figures   without the prompts: figures can still be computed anew
--evidence none      rows only

The bundle is a tar in zstd. It is signed with your key (assay key new). A folder
that does not pass assay verify is not published.

EXIT STATUS
  0    published, or listed with --dry-run
  1    the folder or the key can't be read, or something would have leaked
  2    wrong usage, or there is nobody to ask and no --yes
  130  interrupted`

type publishOptions struct {
	out, evidence, key, secrets, tokenizer string
	redact, texts, keep                    []string
	yes, dryRun, json                      bool
}

func newPublishCommand(env *Env) *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish DIR -o FILE",
		Short: "Make a signed bundle of rows, redacted",
		Long:  publishLong,
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runPublish(cmd.Context(), env, o, args[0]) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "the `file` to make, like results.tar.zst")
	f.StringVar(&o.evidence, "evidence", string(bundle.All), "how `much`: none, figures or all")
	f.StringSliceVar(&o.redact, "redact", nil, "`fields` to take out, by their names")
	f.StringArrayVar(&o.texts, "redact-text", nil, "`pattern` of texts to take out (may be given again)")
	f.StringVar(&o.secrets, "secrets", "", "`file` with texts to take out, one a line")
	f.StringArrayVar(&o.keep, "keep", nil, "`value` that may stay, though it was found (may be given again)")
	f.StringVar(&o.key, "key", "", "`file` of the key to sign with (default: that of assay key new)")
	f.StringVar(&o.tokenizer, "tokenizer", "", "`file` of the model, to check the token counts by")
	f.BoolVar(&o.yes, "yes", false, "don't ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "list what would be taken out, and write nothing")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// options checks what the user asked for.
func (o *publishOptions) options(env *Env) (publish.Options, error) {
	out := publish.Options{
		Evidence: bundle.Evidence(o.evidence), Fields: o.redact, Keep: o.keep,
		Machine: publish.ReadMachine(env.Environ()), Day: time.Now(),
	}
	switch out.Evidence {
	case bundle.None, bundle.Figures, bundle.All:
	default:
		return out, usagef("--evidence: %q is none of none, figures, all", o.evidence)
	}
	if o.out == "" && !o.dryRun {
		return out, usagef("-o: missing: the file to make, like results.tar.zst")
	}
	for _, t := range o.texts {
		re, err := regexp.Compile(t)
		if err != nil {
			return out, usagef("--redact-text: %w", err)
		}
		if re.MatchString("") {
			return out, usagef("--redact-text: %q matches the empty text, which is everywhere", t)
		}
		out.Texts = append(out.Texts, re)
	}
	if o.secrets != "" {
		data, err := os.ReadFile(o.secrets)
		if err != nil {
			return out, usagef("--secrets: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && len(line) < 4 {
				return out, usagef("--secrets: %s: %q is too short to be searched for (want 4 letters or more)", o.secrets, line)
			} else if line != "" {
				out.Listed = append(out.Listed, line)
			}
		}
	}
	counter, err := countersFor(env, o.tokenizer)
	if err != nil {
		return out, usagef("--tokenizer: %w", err)
	}
	out.Verify = verify.Options{Version: Version, Counter: counter}
	return out, nil
}

func runPublish(ctx context.Context, env *Env, o publishOptions, dir string) error {
	opts, err := o.options(env)
	if err != nil {
		return err
	}
	var k *bundle.Key
	if !o.dryRun {
		if k, _, err = loadKey(env, o.key); err != nil {
			return err
		}
	}
	draft, err := publish.Prepare(ctx, dir, opts)
	if err != nil {
		return err
	}
	if len(draft.Unnamed) > 0 {
		return usagef("--redact: no row of %s has a value at %s", dir, strings.Join(draft.Unnamed, ", "))
	}
	list := env.Stderr
	if o.dryRun && !o.json {
		list = env.Stdout
	}
	if !o.json || !o.yes && !o.dryRun {
		fmt.Fprint(list, draftText(draft))
	}
	if o.dryRun {
		if o.json {
			return printJSON(env, draft)
		}
		return nil
	}
	if !o.yes {
		if err := consent(env, o.out); err != nil {
			return err
		}
	}
	w, err := draft.Write(ctx, o.out, k)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(env, w)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %s, %d bytes, sha256 %s\nsigned by %s\n%s: the salts of %s; keep it, and don't publish it\n",
		w.Bundle, plural(w.Check.Rows, "row"), w.Bytes, w.SHA256, k.Public(), w.Salts, plural(w.Check.Redacted, "redacted value"))
	return err
}

// draftText lists what will be redacted.
func draftText(d *publish.Draft) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s of evidence\n", d.Dir, plural(d.Rows, "row"), plural(d.Files, "file"))
	if len(d.Found)+len(d.Fields) == 0 {
		b.WriteString("nothing was found to take out\n")
		return b.String()
	}
	b.WriteString("this is taken out wherever it stands:\n")
	for _, f := range d.Found {
		fmt.Fprintf(&b, "  %-15s %q: %s, first in %s\n", f.Kind, f.Value, plural(f.Places, "place"), f.First)
	}
	for _, f := range d.Fields {
		fmt.Fprintf(&b, "  %-15s %s: in %s", "field", f.Path, plural(f.Rows, "row"))
		if f.RowsOnly != "" {
			fmt.Fprintf(&b, " (in rows only: %s)", f.RowsOnly)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// consent asks the user. Without anyone to ask, it is an error.
func consent(env *Env, out string) error {
	nobody := usagef("nothing was written: there is no terminal to ask at; look through the list, then say --yes")
	in, ok := env.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return nobody
	}
	fmt.Fprintf(env.Stderr, "write %s? [y/N] ", out)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil { // /dev/null passes for a terminal
		return nobody
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return usagef("nothing was written")
	}
	return nil
}
