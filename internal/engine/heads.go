package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/engine/model"
	"assay/internal/engine/spec"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// checkDrafter checks who is to draft, before anything is loaded. f is the model's
// file.
func (o *Options) checkDrafter(f *gguf.File, c *model.Config) error {
	switch {
	case o.Drafter != "" && !slices.Contains(spec.Kinds, o.Drafter):
		return fmt.Errorf("drafter: there is no %q (want %s)", o.Drafter, strings.Join(spec.Kinds, " or "))
	case o.Drafter != spec.KindMTP:
		return nil
	case o.Head != nil:
		return model.CheckHead(c, o.Head)
	case c.Drafting == 0:
		return fmt.Errorf("%s: it has no block that drafts (%s.nextn_predict_layers); some models have theirs in a file of its own", f.Name(), c.Architecture)
	}
	return model.CheckHead(c, f)
}

// beforeHead has weights leave the model's own block that drafts out, when nobody
// drafts with it.
func (o *Options) beforeHead(f *gguf.File, c *model.Config, how *weights.Options) {
	if o.Drafter == spec.KindMTP && o.Head == nil {
		return
	}
	for _, t := range f.Tensors() {
		if c.Drafts(t.Name) {
			how.Elsewhere = append(how.Elsewhere, t.Name)
		}
	}
}

// openHead reads the block that drafts, if one is to: from a file of its own, whose
// tensors are the set that it returns, or from the model's file f, whose tensors w
// holds. All may be nil.
func (o *Options) openHead(ctx context.Context, m *model.Model, f *gguf.File, w *weights.Set) (*model.Model, *weights.Set, error) {
	switch {
	case o.Drafter != spec.KindMTP:
		return nil, nil, nil
	case o.Head == nil:
		head, err := model.NewHead(m, f, w)
		return head, nil, err
	}
	set, err := weights.Load(ctx, o.Head, model.WeightOptions(o.Head))
	if err != nil {
		return nil, nil, err
	}
	head, err := model.NewHead(m, o.Head, set)
	if err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	return head, set, nil
}

// newDrafter makes what drafts for one slot.
func (e *Engine) newDrafter() spec.Drafter {
	if e.head != nil {
		return e.head.NewDrafter(e.options.Context)
	}
	return spec.NewSuffix(e.options.Context)
}
