package cli

import (
	"fmt"
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
	head string
}

func (o *draftFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.most, "spec", 0, "draft up to so many `tokens` ahead and verify them in one pass, where that pays (0: none); the text stays the same")
	f.Float32Var(&o.minP, "spec-min-p", 0, "draft no token that is less likely than that")
	f.StringVar(&o.kind, "spec-type", "", "who drafts: "+spec.KindSuffix+" looks up what followed before, "+spec.KindMTP+" is a block that the model was trained with (default: "+spec.KindMTP+" with --mtp, else "+spec.KindSuffix+")")
	f.StringVar(&o.head, "mtp", "", "GGUF `file` with the block that drafts, where it is not in the model's own")
}

func (o *draftFlags) check() error {
	switch {
	case o.most < 0 || o.most > spec.MaxDrafts:
		return usagef("--spec: %d is not a number of drafts (want 0 to %d)", o.most, spec.MaxDrafts)
	case !(o.minP >= 0 && o.minP <= 1):
		return usagef("--spec-min-p: %g is not a probability (want 0 to 1)", o.minP)
	case o.kind != "" && !slices.Contains(spec.Kinds, o.kind):
		return usagef("--spec-type: nobody drafts by %q (want %s)", o.kind, strings.Join(spec.Kinds, " or "))
	case o.head != "" && o.most == 0:
		return usagef("--mtp: --spec is 0, so nothing would be drafted (want --spec 1 or more)")
	case o.head != "" && o.kind != "" && o.kind != spec.KindMTP:
		return usagef("--mtp: by --spec-type %s that file is not used (want %s, or no --mtp)", o.kind, spec.KindMTP)
	}
	return nil
}

// set puts the flags into the engine's options. The file that it opens must stay open
// until the engine is loaded.
func (o *draftFlags) set(env *Env, e *engine.Options) (release func(), err error) {
	e.Drafts, e.DraftMinP, e.Drafter = o.most, o.minP, o.kind
	if o.head == "" {
		return func() {}, nil
	}
	f, err := openModel(env, o.head)
	if err != nil {
		return nil, fmt.Errorf("--mtp: %w", err)
	}
	e.Head = f
	return func() { f.Close() }, nil
}
