package selftest

import (
	"maps"
	"slices"
	"time"
)

// plays are the streams that the server knows, by name: plain, and the ways in
// which streams of real servers and proxies mislead a client. What a client must
// make of each is in expectations.
var plays = map[string]func(w *writer){
	"plain": (*writer).whole,

	// Frames without text come long before the first token: an empty one, a null
	// one, one without choices. The first token is none of them.
	"empty-first": func(w *writer) {
		w.role()
		w.event(w.s.ttft/4, 0, delta("content", ""))
		w.event(w.s.ttft/2, 0, `{"index":0,"delta":{"content":null},"finish_reason":null}]`)
		w.usage(w.s.ttft*3/4, 0)
		w.tokens("content", 0, w.s.tokens)
		w.tail(w.s.tokens, 0)
	},

	// Comments keep the connection alive, before the first token and between.
	"pings": func(w *writer) {
		w.role()
		for due := time.Duration(0); due < w.s.ttft; due += w.s.ttft / 8 {
			w.raw(due, ":\n\n")
		}
		for k := 0; k < w.s.tokens; k += w.s.perFrame {
			w.tokens("content", k, min(k+w.s.perFrame, w.s.tokens))
			w.raw(w.at(k), ": ping\n\n")
		}
		w.tail(w.s.tokens, 0)
	},

	// Half of the tokens are in the first frame.
	"half-first": func(w *writer) {
		half := w.s.tokens / 2
		w.role()
		w.event(w.at(0), half, delta("content", text(0, half)))
		for k := half; k < w.s.tokens; k++ {
			w.event(w.at(k-half+1), 1, delta("content", words[k%len(words)]))
		}
		w.tail(w.s.tokens, 0)
	},

	// Frames of five tokens, as drafts make them.
	"five-a-frame": func(w *writer) {
		w.s.perFrame = 5
		w.whole()
	},

	// The usage frame and [DONE] come half a second after the last token.
	"late-usage": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens)
		w.tail(w.s.tokens, 500*time.Millisecond)
	},

	// The first half is reasoning.
	"reasoning": func(w *writer) {
		w.role()
		w.tokens("reasoning_content", 0, w.s.tokens/2)
		w.tokens("content", w.s.tokens/2, w.s.tokens)
		w.tail(w.s.tokens, 0)
	},

	// The engine made a token that it never shows.
	"hidden": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens)
		w.tail(w.s.tokens+1, 0)
	},

	// CRLF ends lines, events are cut anywhere: between CR and LF, within a
	// character.
	"crlf-cut": func(w *writer) {
		w.out.wire = wire{prefix: "event: message\r\ndata:", suffix: "\r\n\r\n", cut: true}
		w.whole()
	},

	// A CR alone ends lines; a byte order mark comes first; an event's JSON spans
	// two data lines; the last one has no blank line after it.
	"cr-lines": func(w *writer) {
		w.out.wire = wire{prefix: "id: 1\rdata: \rdata: ", suffix: "\r\r"}
		w.raw(0, "\ufeffretry: 1000\r\r")
		w.role()
		w.tokens("content", 0, w.s.tokens)
		w.event(w.last(), 0, finish)
		w.usage(w.last(), w.s.tokens)
		w.raw(w.last(), "data: [DONE]")
	},

	// Neither [DONE] nor usage, which older servers leave out.
	"no-usage": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens)
		w.event(w.last(), 0, finish)
	},

	// A proxy holds the bytes back until it has 16 KB.
	"clumped": func(w *writer) {
		w.out.clump = 16 << 10
		w.whole()
	},

	// The server's count is not that of the text.
	"wrong-count": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens)
		w.tail(2*w.s.tokens, 0)
	},

	// An error object after status 200 and half of the tokens.
	"error": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens/2)
		w.raw(w.at(w.s.tokens/2), `data: {"error":{"message":"out of memory","type":"server_error","code":500}}`+"\n\n")
		w.raw(w.at(w.s.tokens/2), "data: [DONE]\n\n")
	},

	// The body ends as it should, but after half of the tokens.
	"truncated": func(w *writer) {
		w.role()
		w.tokens("content", 0, w.s.tokens/2)
	},

	// The connection breaks within an event.
	"broken": func(w *writer) {
		w.out.hangUp = true
		w.role()
		w.tokens("content", 0, w.s.tokens/2)
		w.raw(w.at(w.s.tokens/2), `data: {"choices":[{"index":0,"del`)
	},

	// No token at all.
	"no-token": func(w *writer) {
		w.role()
		w.tail(0, 0)
	},
}

func playNames() []string { return slices.Sorted(maps.Keys(plays)) }

// write makes the script of a schedule, whose play is known.
func (s schedule) write() *script {
	const extra = 8 // steps beside the tokens' in most plays
	w := &writer{s: s, out: &script{wire: plainWire, steps: make([]step, 0, s.tokens/s.perFrame+extra)}}
	plays[s.play](w)
	return w.out
}
