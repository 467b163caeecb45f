package grammar

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The mask, found along the tree of tokens and shared between states, has the
// tokens that fit one by one.
func TestMaskIsWhatFits(t *testing.T) {
	v := vocabulary(t)
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		schema := newSchemaMaker(seed).document()
		g := compile(t, string(schema))
		m := g.Matcher()
		r := rand.New(rand.NewPCG(seed, 1))
		for range rapid.IntRange(0, 40).Draw(rt, "tokens") {
			mask := m.Allowed()
			var can []int32
			for id := range int32(v.tok.Size()) {
				in := mask[id>>6]>>(id&63)&1 != 0
				if in != m.Allows(id) {
					rt.Fatalf("%s: token %d %q: in the mask %v, fits %v", schema, id, v.tok.Piece(id), in, !in)
				}
				if in && !v.tok.IsEOG(id) {
					can = append(can, id)
				}
			}
			if len(can) == 0 {
				if !m.Ended() {
					rt.Fatalf("%s: no token fits, and it has not ended", schema)
				}
				return
			}
			m.Accept(can[r.IntN(len(can))])
		}
	})
}

// The shortest way to the end is as long as was said, from wherever.
func TestTheEndIsAsNearAsItSays(t *testing.T) {
	v := vocabulary(t)
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		g := compile(t, string(newSchemaMaker(seed).document()))
		m := g.Matcher()
		r := rand.New(rand.NewPCG(seed, 1))
		for range rapid.IntRange(0, 30).Draw(rt, "tokens") {
			id := int32(r.IntN(v.tok.Size()))
			if m.Allows(id) && !v.tok.IsEOG(id) {
				m.Accept(id)
			}
		}
		need, n := m.Need(), 0
		for ; !m.at.accept; n++ {
			id, ok := m.Shortest()
			if !ok || !m.Allows(id) || !m.Fits(id, need-n-1) || need-n-2 >= 0 && need-n == 1 && m.Fits(id, -1) {
				rt.Fatalf("token %d of %d of the shortest end is %d: %v", n, need, id, ok)
			}
			m.Accept(id)
		}
		if n != need {
			rt.Fatalf("the end was %d tokens away, not %d", n, need)
		}
	})
}

// Every state goes on working when the memory of states is dropped.
func TestForgetting(t *testing.T) {
	g := compile(t, `{"type":"array","items":{"type":"string","maxLength":3}}`)
	m := g.Matcher()
	for _, b := range []byte(`["ab","`) {
		m.at = g.m.step(m.at, b)
		before := m.Allowed()
		g.m.forget()
		again := g.Matcher()
		_ = again.Allowed()
		if &before[0] != &m.Allowed()[0] {
			t.Errorf("after %q the mask was made again", b)
		}
	}
	if !g.Match(`["ab","xyz"]`) || g.Match(`["abcd"]`) {
		t.Error("it matches something else now")
	}
}

// Texts up to a mark, free texts, and control tokens.
func TestExpressions(t *testing.T) {
	v := vocabulary(t)
	for _, c := range []struct {
		name     string
		e        *Expr
		yes, not []string
	}{
		{"until", Seq(Until("aab"), Lit("x")), []string{"aabx", "aaabx", "zaaaabx"}, []string{"aab", "aabaabx", "x"}},
		{"without", Without("aab"), []string{"", "aa", "aaxb"}, []string{"aab", "xaaab"}},
		{"counted", Repeat(Lit("ab"), 2, 3), []string{"abab", "ababab"}, []string{"ab", "abababab"}},
		{"nested counts", Repeat(Seq(Repeat(Lit("a"), 1, 2), Lit(";")), 2, 2), []string{"a;aa;"}, []string{"a;", "aaa;a;"}},
		{"behind", Behind("<t>", Alt(Seq(Lit("<t>a"), Lit("b")), Lit("<t>c"))), []string{"ab", "c"}, []string{"<t>ab"}},
		{"an unknown mark is text", Mark("<none>"), []string{"<none>"}, []string{""}},
		{"a known mark is no text", Mark("<|im_start|>"), []string{"\xff<|im_start|>"}, []string{"<|im_start|>"}},
	} {
		g, err := Compile(c.e, v)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, s := range c.yes {
			if !g.Match(s) {
				t.Errorf("%s: %q is refused", c.name, s)
			}
		}
		for _, s := range c.not {
			if g.Match(s) {
				t.Errorf("%s: %q is let through", c.name, s)
			}
		}
	}
	loop := &Rule{}
	loop.Body = Alt(Seq(Call(loop), Lit("a")), Lit("b"))
	if _, err := Compile(Call(loop), v); err == nil {
		t.Error("a rule that begins with itself was taken")
	}
}
