package selftest

import (
	"encoding/json"
	"fmt"
	"time"
)

// step is one event that the server sends, or a piece of raw bytes.
type step struct {
	due    time.Duration // after the request had arrived
	body   string        // a JSON object without its beginning, an id, and without its closing brace, before which the stamps go; or raw bytes
	raw    bool
	tokens int // that it carries
}

// wire is how events become bytes on the connection.
type wire struct {
	prefix string // before the JSON
	suffix string // after it
	cut    bool   // each event goes out in two writes, cut at a place that moves
	clump  int    // bytes are held back until there are so many; 0: not at all
	hangUp bool   // the connection ends without the body's end
}

var plainWire = wire{prefix: "data: ", suffix: "\n\n"}

// script is a stream, ready to be played, as often as is wanted.
type script struct {
	wire
	steps []step
}

const (
	head   = `,"object":"chat.completion.chunk","created":1700000000,"model":"selftest","choices":[`
	finish = `{"index":0,"delta":{},"finish_reason":"length"}]`
)

// writer builds a script.
type writer struct {
	s   schedule
	out *script
}

// event adds a JSON event; rest is what its choices hold and what follows them.
func (w *writer) event(due time.Duration, tokens int, rest string) {
	w.out.steps = append(w.out.steps, step{due: due, body: head + rest, tokens: tokens})
}

func (w *writer) raw(due time.Duration, bytes string) {
	w.out.steps = append(w.out.steps, step{due: due, body: bytes, raw: true})
}

func (w *writer) role() {
	w.event(0, 0, `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`)
}

// delta is a frame whose field holds text.
func delta(field, text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return `{"index":0,"delta":{"` + field + `":` + string(quoted) + `},"finish_reason":null}]`
}

// at is when token k, counted from 0, is due.
func (w *writer) at(k int) time.Duration { return w.s.ttft + time.Duration(k)*w.s.gap }

// tokens adds the frames of the tokens from..to.
func (w *writer) tokens(field string, from, to int) {
	shared := make([]string, len(words)) // frames of one token differ by their word alone
	for k := from; k < to; k += w.s.perFrame {
		next := min(k+w.s.perFrame, to)
		if next > k+1 {
			w.event(w.at(k), next-k, delta(field, text(k, next)))
			continue
		}
		i := k % len(words)
		if shared[i] == "" {
			shared[i] = head + delta(field, words[i])
		}
		w.out.steps = append(w.out.steps, step{due: w.at(k), body: shared[i], tokens: 1})
	}
}

// last is when the last token is due.
func (w *writer) last() time.Duration { return w.at(w.s.tokens - 1) }

// tail adds the finish frame, the usage frame after a pause, and [DONE].
func (w *writer) tail(count int, pause time.Duration) {
	w.event(w.last(), 0, finish)
	w.usage(w.last()+pause, count)
	w.raw(w.last()+pause, w.out.prefix+"[DONE]"+w.out.suffix)
}

func (w *writer) usage(due time.Duration, count int) {
	w.event(due, 0, fmt.Sprintf(`],"usage":{"prompt_tokens":8,"completion_tokens":%d,"total_tokens":%d}`, count, count+8))
}

// whole is a role frame, all tokens as content, and the tail.
func (w *writer) whole() {
	w.role()
	w.tokens("content", 0, w.s.tokens)
	w.tail(w.s.tokens, 0)
}
