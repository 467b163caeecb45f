package strata

import (
	"fmt"

	"assay/internal/kit/target"
)

// identities are the equations that hold between the engine's own numbers, each
// within what their printing has rounded away. What is not known is not checked.
type identities struct {
	account *target.Account
	lines   *lines
	block   *block
	reading *reading // nil: /metrics told of no such request
	out     []string
}

func (c *identities) failed() []string {
	c.out = []string{}
	c.hits()
	c.drafts()
	c.prompt()
	c.tokens()
	c.logAgainstMetrics()
	c.clock()
	return c.out
}

func (c *identities) fail(format string, args ...any) {
	c.out = append(c.out, fmt.Sprintf(format, args...))
}

// hits: routed = lookups + offloaded, hit rate = hits/lookups, share =
// offloaded/routed.
func (c *identities) hits() {
	for _, g := range c.lines.hit {
		hits, lookups, offloaded, routed := g.Int(3), g.Int(4), g.Int(5), g.Int(7)
		if hits == nil || lookups == nil {
			continue
		}
		if rate, ok := parse(g.Text(2)); ok && *lookups > 0 {
			if v := 100 * float64(*hits) / float64(*lookups); !rate.is(v, 0) {
				c.fail("hit rate %s %%, but %d hits of %d lookups are %.3f %%", g.Text(2), *hits, *lookups, v)
			}
		}
		if *hits > *lookups {
			c.fail("%d hits, but %d lookups", *hits, *lookups)
		}
		if offloaded == nil || routed == nil {
			continue
		}
		if *lookups+*offloaded != *routed {
			c.fail("%d lookups and %d offloaded, but %d routed", *lookups, *offloaded, *routed)
		}
		if share, ok := parse(g.Text(6)); ok && *routed > 0 {
			if v := 100 * float64(*offloaded) / float64(*routed); !share.is(v, 0) {
				c.fail("PCIe share %s %%, but %d offloaded of %d routed are %.3f %%", g.Text(6), *offloaded, *routed, v)
			}
		}
	}
	b := c.block
	switch {
	case c.reading == nil:
	case b.HitRateLine != nil && *b.HitRateLine == "absent" && b.Metrics.HitRate != nil:
		c.fail("hit rate %v in /metrics, but the log has no line of it", *b.Metrics.HitRate)
	case len(c.lines.hit) == 1 && b.Metrics.HitRate == nil:
		c.fail("the log prints a hit rate, but /metrics has none")
	}
}

// drafts: stream, log and /metrics tell of the same drafts, and of no more accepted
// than offered or than there are tokens beside one a round.
func (c *identities) drafts() {
	b := c.block
	if b.DraftsAccepted != nil && b.DraftsOffered != nil && *b.DraftsAccepted > *b.DraftsOffered {
		c.fail("drafts accepted %d of %d", *b.DraftsAccepted, *b.DraftsOffered)
	}
	if b.DraftsAccepted != nil && b.EngineGenerated != nil && *b.EngineGenerated > 0 && *b.DraftsAccepted >= *b.EngineGenerated {
		c.fail("%d drafts accepted, but %d tokens generated, one of each round", *b.DraftsAccepted, *b.EngineGenerated)
	}
	if t := c.account.Stream.Timings; t != nil {
		c.same("draft_n", t.DraftN, "the log's drafts", b.DraftsOffered)
		c.same("draft_n_accepted", t.DraftAccepted, "the log's accepted drafts", b.DraftsAccepted)
	}
	if c.reading != nil {
		e := c.reading.request
		c.same("drafts_offered in /metrics", e.count("drafts_offered"), "the log's drafts", b.DraftsOffered)
		c.same("drafts_accepted in /metrics", e.count("drafts_accepted"), "the log's accepted drafts", b.DraftsAccepted)
	}
}

func (c *identities) same(aName string, a *int, bName string, b *int) {
	if a != nil && b != nil && *a != *b {
		c.fail("%s %d, but %s %d", aName, *a, bName, *b)
	}
}

// prompt: prompt_n = prompt_tokens - reused, cache_n = cached_tokens = reused.
func (c *identities) prompt() {
	t, u := c.account.Stream.Timings, c.account.Stream.Usage
	if t == nil || u == nil {
		return
	}
	c.same("cache_n", t.CacheN, "cached_tokens", u.Cached)
	c.same("cache_n", t.CacheN, "the log's reused tokens", c.block.Reused)
	if t.PromptN != nil && t.CacheN != nil && u.Prompt != nil && *t.PromptN != *u.Prompt-*t.CacheN {
		c.fail("prompt_n %d, but %d prompt tokens less %d reused are %d", *t.PromptN, *u.Prompt, *t.CacheN, *u.Prompt-*t.CacheN)
	}
	if !c.lines.cancelled() {
		c.same("prompt_tokens", u.Prompt, "the log's prompt", c.block.PromptTotal)
	}
	if c.reading != nil {
		e := c.reading.request
		c.same("prompt_tokens", u.Prompt, "prompt_tokens in /metrics", e.count("prompt_tokens"))
		c.same("cache_n", t.CacheN, "reused in /metrics", e.count("reused"))
	}
}

// tokens: completion_tokens = predicted_n = output_tokens, the rate is the engine's
// count over its time, and the totals grew by the request.
func (c *identities) tokens() {
	t, u := c.account.Stream.Timings, c.account.Stream.Usage
	if t != nil && u != nil {
		c.same("completion_tokens", u.Completion, "predicted_n", t.PredictedN)
	}
	if c.reading == nil {
		return
	}
	e := c.reading.request
	if u != nil {
		c.same("completion_tokens", u.Completion, "output_tokens in /metrics", e.count("output_tokens"))
	}
	c.same("engine_generated in /metrics", e.count("engine_generated"), "the log's generated tokens", c.block.EngineGenerated)
	n := e.count("engine_generated")
	ms, haveMS := e.number("decode_ms")
	rate, haveRate := e.number("decode_tok_s")
	if n != nil && haveMS && haveRate && ms.v > 0 {
		if v := float64(*n) / ms.v * 1e3; !rate.is(v, v*ms.half/ms.v) {
			c.fail("decode_tok_s %v, but %d tokens in %v ms are %.3f", rate.v, *n, ms.v, v)
		}
	}
	for _, name := range []string{"prompt_tokens", "reused", "output_tokens", "drafts_offered", "drafts_accepted"} {
		x, y, own := c.reading.before.Totals.count(name), c.reading.after.Totals.count(name), e.count(name)
		if x != nil && y != nil && own != nil && *y-*x != *own {
			c.fail("totals.%s in /metrics grew by %d, but the request has %d", name, *y-*x, *own)
		}
	}
}

// logAgainstMetrics: the log's times and rates are those of /metrics.
func (c *identities) logAgainstMetrics() {
	if c.reading == nil || len(c.lines.read) != 1 || c.lines.cancelled() {
		return
	}
	e, g := c.reading.request, c.lines.read[0]
	pair := func(name string, group int) {
		l, ok := parse(g.Text(group))
		m, there := e.number(name)
		if ok && there && !l.equals(m) {
			c.fail("%s %v in /metrics, but %s in the log", name, m.v, g.Text(group))
		}
	}
	pair("prompt_ms", 6)
	pair("decode_ms", 9)
	pair("decode_tok_s", 10)
	share := func(name, text string) {
		l, ok := parse(text)
		m, there := e.number(name)
		if ok && there && !l.equals(m.times(100)) {
			c.fail("%s %v in /metrics, but %s %% in the log", name, m.v, text)
		}
	}
	if len(c.lines.hit) == 1 {
		share("hit_rate", c.lines.hit[0].Text(2))
		share("pcie_share", c.lines.hit[0].Text(6))
	}
}

// clock: the client waited for the prompt, and for prompt and decode, at least as
// long as the engine needed.
func (c *identities) clock() {
	t := c.account.Stream.Timings
	if t == nil || t.PromptMS == nil || t.PredictedMS == nil {
		return
	}
	const half = 0.05 // the server prints a tenth of a millisecond
	if ttft := c.account.TTFTMS; ttft != nil && *ttft < *t.PromptMS-half {
		c.fail("prompt_ms %v, but the first token came after %.3f ms", *t.PromptMS, *ttft)
	}
	at := c.account.Stream.FinishAt
	if at < 0 {
		return
	}
	if all := float64(at) / 1e6; all < *t.PromptMS+*t.PredictedMS-2*half {
		c.fail("prompt_ms %v and predicted_ms %v, but all was over after %.3f ms", *t.PromptMS, *t.PredictedMS, all)
	}
}
