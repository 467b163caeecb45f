package engine

import (
	"math"
	"testing"

	"assay/internal/engine/expert"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// What a model is said to need is what it takes once it is loaded, wherever its experts
// are, and what is free decides what auto gives to them and to prompts.
func TestNeedOf(t *testing.T) {
	f := seedlingFile(t)
	least, all := expertSizes(t, f)
	need := func(o Options, free *expert.Free) Need {
		t.Helper()
		n, err := NeedOf(f, o, free)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, o := range []Options{
		{Threads: 1, Context: 512},
		{Threads: 1, Context: 512, ExpertRAM: least},
	} {
		e, n := opened(t, f, o), need(o, nil)
		if got := int64(e.weights.Bytes()); n.Dense != got || n.Experts != o.ExpertRAM || n.LeastExperts != least || n.AllExperts != all {
			t.Errorf("%+v; %d bytes of weights, %d to %d of experts", n, got, least, all)
		}
	}
	const mib = 1 << 20
	auto := Options{Context: 4096, Slots: 2, ExpertRAM: ExpertAuto, ReuseBytes: 8 * mib}
	n := need(auto, nil)
	if want := max(least, all/10); n.Experts != want || n.Reserve != 0 || n.Reuse != 8*mib {
		t.Errorf("where nobody knows what is free: %+v", n)
	}
	least = n.Experts
	others := n.Total() - n.Experts
	for _, c := range []struct{ beside, experts int64 }{{all + mib, all}, {all, all}, {all - mib, all - mib}, {least, least}, {least - mib, least}, {-others, least}} {
		free := &expert.Free{Bytes: others + expert.Reserve(0) + c.beside}
		if got := need(auto, free); got.Experts != c.experts || got.Reserve != expert.Reserve(0) || (got.Total() <= free.Bytes) != (c.beside >= least) {
			t.Errorf("%d bytes beside the others: experts have %d, want %d; %d together", c.beside, got.Experts, c.experts, got.Total())
		}
		if got, want := n.ExpertRoom(free.Bytes), free.Bytes-others; got != want {
			t.Errorf("--expert-ram could be %d, want %d", got, want)
		}
	}
	for asked, want := range map[int64]int64{0: 0, 5: 5, ReuseAuto: (800*mib - n.Buffers - n.Dense) / 8, math.MaxInt64: -1} {
		o := auto
		o.ReuseBytes = asked
		if got := need(o, &expert.Free{Bytes: 800 * mib}); got.Reuse != want {
			t.Errorf("%d for reuse: %d, want %d", asked, got.Reuse, want)
		}
	}
	plain, drafts := need(Options{}, nil), need(Options{Drafts: 4, Slots: 3}, nil)
	if plain.Drafts != 0 || drafts.Drafts < 3*5*4*4096 {
		t.Errorf("drafts take %d and %d bytes", plain.Drafts, drafts.Drafts)
	}
	builtin, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := NeedOf(builtin, Options{}, nil); err != nil || n.AllExperts != 0 || n.Dense != plain.Dense {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := NeedOf(builtin, auto, nil); err == nil {
		t.Error("experts of no file")
	}
}
