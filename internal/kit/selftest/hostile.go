package selftest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
)

// HostileCheck is what the client made of one hostile stream.
type HostileCheck struct {
	Play   string   `json:"play"`
	Expect string   `json:"expect"` // in words
	TTFTMS *float64 `json:"ttft_ms"`
	TokS   *float64 `json:"decode_tok_s"`
	Codes  []string `json:"codes"` // of what is withheld
	Failed bool     `json:"failed"`
	Why    string   `json:"why,omitempty"`  // why it is wrong; empty: it is right
	Busy   bool     `json:"busy,omitempty"` // it is wrong, but the machine was too busy to play or to receive it in time
}

// hostileSchedule: wrong readings of these streams are off by far more than a
// busy machine is: the frames before the first token lie 50 ms and more before
// it, the half of the tokens in the first frame is half of the rate, and the
// late usage frame doubles the window.
var hostileSchedule = schedule{ttft: 200 * time.Millisecond, gap: 3 * time.Millisecond, tokens: 200, perFrame: 1}

// How far right readings may be off on a busy machine.
const (
	hostileTTFTMS    = 40.0
	hostileDecodePct = 10.0
)

// expectation is what must be made of a stream.
type expectation struct {
	words   string
	codes   []figure.Code // that must withhold figures
	failed  bool
	verdict count.Verdict
	// The true decode rate is that of tokens after so many of the first frame;
	// tokens 0: there is none to be compared.
	tokens, first int
	noTTFT        bool
	also          func(r *run) string // says what else is wrong
}

// expectations of all plays with the hostile schedule.
var expectations = map[string]expectation{
	"plain": {
		words: "TTFT and rate are the server's", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"empty-first": {
		words: "TTFT is that of the first token, not of the empty frames before it", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"pings": {
		words: "comments are not tokens", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"half-first": {
		// A read of more than a tenth of all tokens might as well be a proxy's clump.
		words: "clumped: nothing is shown, and the rate kept aside leaves out the first frame's tokens", verdict: count.AgreeIndependent,
		codes: []figure.Code{figure.Clumped}, tokens: 200, first: 100,
	},
	"five-a-frame": {
		words: "the rate counts tokens, not frames", verdict: count.AgreeIndependent, tokens: 200, first: 5,
	},
	"late-usage": {
		words: "the window ends with the last token", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"reasoning": {
		// The text can't be recounted: the tokens that mark reasoning are not shown.
		words: "the first token is the first of the reasoning", verdict: count.Unchecked, tokens: 200, first: 1,
		also: func(r *run) string {
			ttft, ttfv := shownOrKept(r.figures.TTFT), shownOrKept(r.figures.TTFV)
			if ttft == nil || ttfv == nil || *ttfv < *ttft+100 {
				return "the first visible token comes with the first one"
			}
			return ""
		},
	},
	"hidden": {
		words: "a token that is never shown widens the bounds, by less than 1 %", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"crlf-cut": {
		words: "lines end with CRLF, reads end anywhere", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"cr-lines": {
		words: "lines end with CR, after a byte order mark", verdict: count.AgreeIndependent, tokens: 200, first: 1,
	},
	"no-usage": {
		words: "the tokens are counted in the text", verdict: count.Unchecked, tokens: 200, first: 1,
	},
	"clumped": {
		words: "clumped: nothing is shown", verdict: count.AgreeIndependent, codes: []figure.Code{figure.Clumped},
	},
	"wrong-count": {
		words: "count-mismatch: no rate is shown", verdict: count.Mismatch, codes: []figure.Code{figure.CountMismatch, figure.NFirstUnknown},
	},
	"error": {
		words: "stream-error: failed, with the server's words", verdict: count.Unchecked, codes: []figure.Code{figure.StreamError}, failed: true,
		also: func(r *run) string {
			if !strings.Contains(strings.Join(r.completion.Errors, " "), "out of memory") {
				return "the server's words are lost"
			}
			return ""
		},
	},
	"truncated": {
		words: "truncated: failed", verdict: count.Unchecked, codes: []figure.Code{figure.Truncated}, failed: true,
	},
	"broken": {
		words: "stream-error and truncated: failed", verdict: count.Unchecked, codes: []figure.Code{figure.StreamError, figure.Truncated}, failed: true,
	},
	"no-token": {
		words: "failed; no TTFT and no rate, not zero", verdict: count.Unchecked,
		codes: []figure.Code{figure.StreamError, figure.Short}, failed: true, noTTFT: true,
	},
}

// Streams that a busy machine spoilt are played again.
const (
	hostileTries = 3
	busyMS       = 15.0 // a frame came so long after it was due, or the request so long after it was sent
)

// hostile plays all streams at once and judges what is made of them.
func (m *meter) hostile(ctx context.Context) ([]HostileCheck, error) {
	out := map[string]HostileCheck{}
	again := playNames()
	for try := 0; try < hostileTries && len(again) > 0; try++ {
		m.tell(fmt.Sprintf("%d hostile stream(s)", len(again)))
		played, err := m.playHostile(ctx, again)
		if err != nil {
			return nil, err
		}
		again = nil
		for _, h := range played {
			out[h.Play] = h
			if h.Busy {
				again = append(again, h.Play)
			}
		}
	}
	var list []HostileCheck
	for _, name := range playNames() {
		list = append(list, out[name])
	}
	return list, nil
}

func (m *meter) playHostile(ctx context.Context, names []string) ([]HostileCheck, error) {
	streams := make([]taken, len(names))
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		s := hostileSchedule
		s.play = name
		req, err := m.request(s)
		if err != nil {
			return nil, err
		}
		all.Go(func() { streams[i] = m.take(limited, req) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]HostileCheck, len(names))
	for i, name := range names {
		r := streams[i].read(hostileSchedule.tokens)
		out[i] = expectations[name].check(name, &r)
	}
	return out, nil
}

// check compares one stream with what is expected of it.
func (e expectation) check(name string, r *run) HostileCheck {
	f := r.figures
	h := HostileCheck{Play: name, Expect: e.words, TTFTMS: f.TTFT.Value, TokS: f.Decode.Value, Codes: []string{}, Failed: f.Failed}
	for _, reason := range f.Withheld {
		h.Codes = append(h.Codes, string(reason.Code))
	}
	h.Why = e.wrong(r, h.Codes)
	if h.Why == "" {
		return h
	}
	for _, st := range r.stamps {
		h.Busy = h.Busy || ms(st.at-st.Due) > busyMS || ms(st.Arrived-r.t0) > busyMS
	}
	return h
}

func (e expectation) wrong(r *run, codes []string) string {
	f := r.figures
	if r.err != nil {
		return r.err.Error()
	}
	if got := r.verdict; got != e.verdict {
		return fmt.Sprintf("the count's verdict is %s, want %s", got, e.verdict)
	}
	for _, c := range e.codes {
		if !slices.Contains(codes, string(c)) {
			return fmt.Sprintf("not withheld as %s", c)
		}
	}
	for _, c := range codes {
		// A client that is late says so itself.
		if c != string(figure.ClientLag) && !slices.Contains(e.codes, figure.Code(c)) {
			return fmt.Sprintf("withheld as %s", c)
		}
	}
	if f.Failed != e.failed {
		return fmt.Sprintf("failed: %v, want %v", f.Failed, e.failed)
	}
	if why := e.times(r); why != "" || e.also == nil {
		return why
	}
	return e.also(r)
}

// times holds TTFT and rate against the stamps, those that are withheld too.
func (e expectation) times(r *run) string {
	ttft, rate := shownOrKept(r.figures.TTFT), shownOrKept(r.figures.Decode)
	if e.noTTFT {
		if ttft != nil || rate != nil {
			return "there is a TTFT or a rate"
		}
		return ""
	}
	if e.tokens == 0 {
		return ""
	}
	if ttft == nil || rate == nil || len(r.stamps) == 0 {
		return "there is no TTFT or no rate"
	}
	if want := ms(r.stamps[0].Sent - r.stamps[0].Arrived); *ttft < want-1 || *ttft > want+hostileTTFTMS {
		return fmt.Sprintf("TTFT %.1f ms, the server's is %.1f ms", *ttft, want)
	}
	if want := trueRate(r.stamps, e.tokens, e.first); offPct(*rate, want) > hostileDecodePct {
		return fmt.Sprintf("decode rate %.1f tok/s, the server's is %.1f tok/s", *rate, want)
	}
	return ""
}

// shownOrKept is a figure's value, be it shown or withheld.
func shownOrKept(f figure.Figure) *float64 {
	if f.Value != nil {
		return f.Value
	}
	return f.Withheld
}
