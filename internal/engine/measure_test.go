package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/internal/engine/spec"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// A Bench feeds tokens as Generate does: the logits after them are the same
// however they were fed, and after going back.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long under the race detector; Generate is tested there")
	}
	e := load(t, Options{Threads: 2, Context: BatchTokens + 100})
	ctx := context.Background()
	b, err := e.Bench(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ids := make([]int32, BatchTokens+20)
	for i := range ids {
		ids[i] = int32(i * 31 % e.Info().Vocabulary)
	}
	if err := b.Feed(ctx, ids); err != nil {
		t.Fatal(err)
	}
	whole := append([]float32(nil), b.s.logits...)
	if b.Len() != len(ids) {
		t.Errorf("%d positions, want %d", b.Len(), len(ids))
	}
	b.Truncate(len(ids) - 3)
	for _, id := range ids[len(ids)-3:] {
		if err := b.Feed(ctx, []int32{id}); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range b.s.logits {
		if v != whole[i] {
			t.Fatalf("logit %d is %g token by token, %g at once", i, v, whole[i])
		}
	}
	var tooLong *ContextError
	if err := b.Feed(ctx, make([]int32, 100)); !errors.As(err, &tooLong) || b.Len() != len(ids) {
		t.Errorf("more than the context: %v, %d positions", err, b.Len())
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Feed(gone, ids[:1]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A Bench has its slot alone, gives it back once, and gets none of a closed
// Engine.
func TestBenchTakesASlot(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 16})
	b, err := e.Bench(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Bench(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one: %v", err)
	}
	b.Close()
	b.Close()
	if len(e.slots) != 1 {
		t.Errorf("%d slots free, want 1", len(e.slots))
	}
}

// What a model is said to need is what it takes.
func TestDemand(t *testing.T) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	d, err := DemandOf(f, Options{Context: 300, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	const (
		experts = 4 * 3 * 16 * 256 * 256 * 110 / 256 // bytes of IQ3_S in 4 layers
		embed   = 4096 * 256 * 110 / 256
	)
	if want := d.Weights - experts*14/16 - embed*4095/4096; d.PerToken != want {
		t.Errorf("a token reads %d bytes, want %d: 2 of 16 experts and one row of the embeddings", d.PerToken, want)
	}
	if want := float64(d.PerToken + experts/4/16); d.Chosen != 8 || d.RoundReads(9) != want || d.RoundReads(8) != float64(d.PerToken) {
		t.Errorf("%d experts a token, a round of one more reads %g bytes, want %g", d.Chosen, d.RoundReads(9), want)
	}
	// q and attn_output, k and v, router, experts; output
	if want := int64(2 * (4*(2*256*256+2*256*128+16*256+2*3*256*256) + 4096*256)); d.Operations != want {
		t.Errorf("%d operations a token, want %d", d.Operations, want)
	}
	if want := 2 * 2 * int64(d.KVPage) * d.KVPosition; d.KV() != want {
		t.Errorf("keys and values: %d, want two slots of two pages: %d", d.KV(), want)
	}
	if d.Context != 300 || d.Slots != 2 || d.Total() != d.Memory+d.KV()+d.Buffers {
		t.Errorf("%+v", d)
	}
	e := load(t, Options{Context: 300, Slots: 2})
	if _, total, _ := e.HugeBytes(); total != d.Memory || total < d.Weights {
		t.Errorf("the loaded weights take %d bytes, %d are said to be needed, %d are in the file", total, d.Memory, d.Weights)
	}
	for want, o := range map[string]Options{
		"context: 1048576 is not between": {Context: 1 << 20},
		"slots: 5000 is not between":      {Slots: 5000},
	} {
		if _, err := DemandOf(f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A block that drafts counts only where somebody drafts with it, and never for what a
// token reads.
func TestDemandOfABlockThatDrafts(t *testing.T) {
	f, err := gguf.Open("../../../shared/models/arch/models/qwen35moe.gguf")
	if err != nil {
		t.Skip("the models of other architectures are not on this machine")
	}
	defer f.Close()
	without, err := DemandOf(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	with, err := DemandOf(f, Options{Drafts: 1, Drafter: spec.KindMTP})
	if err != nil {
		t.Fatal(err)
	}
	if without.Weights >= with.Weights || without.Memory >= with.Memory || without.Memory < without.Weights || without.PerToken != with.PerToken {
		t.Errorf("without %+v, with %+v", without, with)
	}
	if a, b := without.Reads(0), with.Reads(0); a < 0.99*b || a > 1.01*b {
		t.Errorf("a token reads %.0f bytes, and %.0f where somebody drafts", a, b)
	}
}
