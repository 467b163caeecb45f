package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by whoever builds, with -ldflags "-X assay/internal/cli.NAME=VALUE": the
// Makefile and .goreleaser.yaml.
var (
	// Version is Assay's own version; a release has its tag's.
	Version = "0.1.0-dev"
	// commit is the revision this binary was built from; empty: what Go recorded.
	commit string
	// date is when that commit was made, in RFC 3339 (not when it was built, so that
	// two builds of one commit are the same); empty: what Go recorded.
	date string
)

// recorded is what Go noted of the source it built; empty: nothing.
func recorded(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// buildCommit is the source revision, or "unknown" where nothing recorded it.
func buildCommit() string {
	for _, s := range []string{commit, recorded("vcs.revision")} {
		if s != "" {
			return s
		}
	}
	return "unknown"
}

// versionInfo is what version prints as JSON.
type versionInfo struct {
	Version  string  `json:"version"`
	Commit   string  `json:"commit"` // or "unknown"
	Date     *string `json:"date"`   // of the commit, RFC 3339; null where nothing recorded it
	DateWhy  string  `json:"date_why,omitempty"`
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: Version, Commit: buildCommit(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range []string{date, recorded("vcs.time")} {
		if s != "" && v.Date == nil {
			v.Date = &s
		}
	}
	if v.Date == nil {
		v.DateWhy = "neither the build nor Go recorded it"
	}
	return v
}

func newVersionCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Long:  "Print Assay's version, the commit it was built from with its date, and the Go version.\n\nEXIT STATUS\n  0  ok\n  2  wrong usage",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if asJSON {
				return json.NewEncoder(env.Stdout).Encode(v)
			}
			of := v.Commit
			if v.Date != nil {
				of += " of " + *v.Date
			}
			_, err := fmt.Fprintf(env.Stdout, "assay %s (commit %s, %s, %s)\n", v.Version, of, v.Go, v.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
