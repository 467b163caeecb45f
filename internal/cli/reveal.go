package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"assay/internal/kit/bundle"
	"assay/internal/kit/publish"
)

const revealLong = `Prove values that were redacted when a bundle was made.

  assay reveal today.tar.zst.salts                               list what was redacted
  assay reveal today.tar.zst.salts command_line.port -o port.json
  assay verify today.tar.zst --reveal port.json                  what others do with it

SALTS is the file that publish left beside the bundle. The fields are named as for
publish --redact; "line" is the whole of a row as it was written, which also proves
its place in the chain. --row takes one row's values only. The file that is made
opens these values and no other, and can be given to anyone.

EXIT STATUS
  0  ok
  1  the files can't be read or written
  2  wrong usage, or nothing of that name was redacted`

func newRevealCommand(env *Env) *cobra.Command {
	var out, rowID string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reveal SALTS [FIELD...]",
		Short: "Prove a redacted value",
		Long:  revealLong,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runReveal(env, args[0], args[1:], rowID, out, asJSON)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "the `file` to make; without it, print")
	cmd.Flags().StringVar(&rowID, "row", "", "of this `row` only (its row_id, as published)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func runReveal(env *Env, file string, fields []string, rowID, out string, asJSON bool) error {
	salts, err := publish.LoadOpenings(file)
	if err != nil {
		return err
	}
	if salts.Format != bundle.SaltsFormat {
		return fmt.Errorf("%s: format %q: it is no publisher's file of salts", file, salts.Format)
	}
	if len(fields) == 0 {
		for _, o := range salts.Openings {
			if rowID == "" || o.Row == rowID {
				if _, err := fmt.Fprintf(env.Stdout, "%d %s: %s\n", o.Line, o.Row, o.Path); err != nil {
					return err
				}
			}
		}
		return nil
	}
	r, err := publish.Reveal(salts, fields, rowID)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	if out == "" {
		text, err := r.Encode()
		if err == nil {
			_, err = env.Stdout.Write(text)
		}
		return err
	}
	if err := publish.StoreOpenings(out, r); err != nil {
		return err
	}
	if asJSON {
		return printJSON(env, r)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: opens %s of bundle %s\n", out, plural(len(r.Openings), "value"), r.Bundle)
	return err
}
