package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is Assay's own version.
const Version = "0.1.0-dev"

// commit is the revision this binary was built from, set by the Makefile with
// -ldflags -X; without it, what Go recorded.
var commit string

// buildCommit is the source revision, or "unknown" where nothing recorded it.
func buildCommit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

func newVersionCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Long:  "Print Assay's version, the commit it was built from and the Go version.\n\nEXIT STATUS\n  0  ok\n  2  wrong usage",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(env.Stdout).Encode(map[string]string{
					"version": Version, "commit": buildCommit(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(env.Stdout, "assay %s (commit %s, %s, %s/%s)\n", Version, buildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
