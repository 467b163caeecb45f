package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/spec"
)

// draftFlags say whether tokens are guessed ahead, and by whom.
type draftFlags struct {
	most int
	minP float32
	kind string
}

func (o *draftFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.most, "spec", 0, "draft up to so many `tokens` ahead and verify them in one pass, where that pays (0: none); the text stays the same")
	f.Float32Var(&o.minP, "spec-min-p", 0, "draft no token that is less likely than that")
	f.StringVar(&o.kind, "spec-type", "", "who drafts: "+strings.Join(spec.Kinds, " or ")+" (default: "+spec.KindSuffix+", which looks up what followed before)")
}

func (o *draftFlags) check() error {
	switch {
	case o.most < 0 || o.most > spec.MaxDrafts:
		return usagef("--spec: %d is not a number of drafts (want 0 to %d)", o.most, spec.MaxDrafts)
	case !(o.minP >= 0 && o.minP <= 1):
		return usagef("--spec-min-p: %g is not a probability (want 0 to 1)", o.minP)
	case o.kind != "" && !slices.Contains(spec.Kinds, o.kind):
		return usagef("--spec-type: nobody drafts by %q (want %s)", o.kind, strings.Join(spec.Kinds, " or "))
	}
	return nil
}

// set puts the flags into the engine's options.
func (o *draftFlags) set(e *engine.Options) {
	e.Drafts, e.DraftMinP, e.Drafter = o.most, o.minP, o.kind
}
