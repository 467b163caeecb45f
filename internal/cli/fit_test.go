package cli

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/engine"
)

// Expectations are the read rate over the bytes, times the efficiency.
func TestFitExpect(t *testing.T) {
	read := 10.0
	r := &fitReport{Context: 8192, Read: &read, Efficiency: 0.5}
	r.need.Demand = engine.Demand{Weights: 1e9, Memory: 1e9, PerToken: 100e6, KVPosition: 1e5}
	r.expect()
	if len(r.Speeds) != 3 || r.Speeds[0].Bound != 100 || *r.Speeds[0].Expected != 50 || r.Speeds[1].Depth != 4096 || r.Speeds[2].Depth != 8191 {
		t.Fatalf("%+v", r.Speeds)
	}
	if want := int64(100e6 + 4096*1e5); r.Speeds[1].Bytes != want {
		t.Errorf("%d bytes at depth 4096, want %d", r.Speeds[1].Bytes, want)
	}
	if got := fitDepths(2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("depths of a context of 2: %v", got)
	}
}

// What fits, and what helps where it does not: an amount for experts first, then a
// shorter context, and what is advised does fit.
func TestFitAdvice(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	// 2 GiB that every token needs, 20 GiB of experts, 100 MiB of keys and values a page
	// of all slots.
	need := engine.Need{
		Demand: engine.Demand{Buffers: gib, KVPosition: 100 * mib / 256, KVPage: 256, Context: 2560, Slots: 1},
		Dense:  22 * gib, Reuse: 512 * mib, LeastExperts: 64 * mib, AllExperts: 20 * gib, Others: 2 * gib,
	}
	for name, c := range map[string]struct {
		asked, free int64
		change      func(n *engine.Need)
		want        string // in the report
	}{
		"all":            {0, 25 * gib, nil, "by x: it fits"},
		"too large":      {0, 16 * gib, nil, "it does NOT fit, by 8.48 GiB; try --expert-ram 11.5GiB"},
		"no experts":     {0, 24 * gib, func(n *engine.Need) { n.AllExperts = 0 }, "it does NOT fit, by 488.00 MiB; -c 1280 would fit"},
		"dense":          {0, 10 * gib, func(n *engine.Need) { n.AllExperts = 0 }, "; free memory, or take a smaller model"},
		"cache":          {0, 24*gib + 64*mib, func(n *engine.Need) { n.AllExperts, n.Context, n.KVPosition = 0, 256, 1000*mib/256 }, "; --cache-ram 0 would fit"},
		"slots":          {0, 10 * gib, func(n *engine.Need) { n.AllExperts, n.Slots = 0, 4 }, "; try a smaller --parallel"},
		"fixed":          {8 * gib, 16 * gib, nil, "8.00 GiB of 20.00 GiB in RAM (40 %)\nhit share        unknown: it depends on which experts the text asks for"},
		"fixed too much": {13 * gib, 16 * gib, nil, "it does NOT fit, by 1.48 GiB; try --expert-ram 11.5GiB"},
		"more than all":  {40 * gib, 30 * gib, nil, "20.00 GiB of 20.00 GiB in RAM (100 %): each is read once"},
		"and not free":   {40 * gib, 30 * gib, nil, "it does NOT fit, by 13.00 GiB; try --expert-ram 20.0GiB"},
		"few":            {1 * mib, 16 * gib, nil, "too few, it takes 64.00 MiB to run at all"},
		"few, and more":  {1 * mib, 16 * gib, nil, "it does NOT fit; try --expert-ram 11.5GiB"},
		"auto":           {engine.ExpertAuto, 16 * gib, func(n *engine.Need) { n.Experts, n.Reserve = 10*gib, gib }, "left to others   1.00 GiB\n"},
		"auto, no room":  {engine.ExpertAuto, 6 * gib, func(n *engine.Need) { n.Experts, n.Reserve = 2*gib, gib }, "it does NOT fit, by 1.48 GiB; free memory"},
		"no limit":       {0, 24 * gib, func(n *engine.Need) { n.Reuse = -1 }, "prompt cache     no limit: it is left out of the sum"},
	} {
		n := need
		if c.asked != 0 {
			n.Dense = n.Others
		}
		if c.asked > 0 {
			n.Experts = min(c.asked, n.AllExperts)
		}
		if c.change != nil {
			c.change(&n)
		}
		r := newFitReport("m.gguf", n, engine.Options{ExpertRAM: c.asked})
		r.Free, r.FreeFrom = &c.free, "x"
		r.judge()
		var b strings.Builder
		if err := r.print(&b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v\n%s\nwant %q", name, err, &b, c.want)
		}
		to, ok := strings.CutPrefix(r.Advice, "try --expert-ram ")
		if !ok {
			continue
		}
		bytes, _ := parseSize(to)
		if n.Dense, n.Experts = n.Others, min(bytes, n.AllExperts); n.Total() > c.free || n.Experts < n.LeastExperts {
			t.Errorf("%s: with --expert-ram %s it takes %d bytes", name, to, n.Total())
		}
	}
}
