package engine

import (
	"context"
	"strings"
	"testing"

	"assay/internal/engine/spec"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// A block that drafts for another model, or is none, is refused before the model is
// loaded, by the name of its file.
func TestHeadThatDoesNotFit(t *testing.T) {
	model, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no block anywhere", Options{Drafts: 4, Drafter: spec.KindMTP}, "has no block that drafts (qwen3moe.nextn_predict_layers)"},
		{"a file without one", Options{Drafts: 4, Head: openGGUF(t, "seedling-15m-q8_0.gguf")}, "seedling-15m-q8_0.gguf: qwen3moe.nextn_predict_layers is 0 or missing"},
		{"nobody of that name", Options{Drafts: 4, Drafter: "oracle"}, `there is no "oracle" (want suffix or mtp)`},
	} {
		e, err := Load(context.Background(), model, c.o, func(int64, int64) { t.Errorf("%s: the model is loaded all the same", c.name) })
		if err == nil {
			_ = e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// With a block at hand, others can draft all the same, and nothing is drafted
// unless it is asked for.
func TestWhoDrafts(t *testing.T) {
	head := openGGUF(t, "seedling-15m-mtp-f16.gguf")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Head: head}, ""},
		{Options{Drafts: 2}, spec.KindSuffix},
		{Options{Drafts: 2, Head: head}, spec.KindMTP},
		{Options{Drafts: 2, Head: head, Drafter: spec.KindSuffix}, spec.KindSuffix},
	} {
		c.o.Threads = 1
		e := load(t, c.o)
		if got := e.Options().Drafter; got != c.want || (e.head != nil) != (c.want == spec.KindMTP) {
			t.Errorf("%+v: %q drafts, want %q", c.o, got, c.want)
		}
	}
}
