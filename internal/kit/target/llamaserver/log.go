package llamaserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"assay/internal/kit/target"
)

// The lines of one request, in any of the log's forms: the names and units have
// stayed, prefixes and spacing have not.
var (
	llamaPrompt = regexp.MustCompile(`prompt eval time =\s*` + target.Decimal + ` ms /\s*(\d+) tokens \(\s*` + target.Decimal + ` ms per token,\s*` + target.Decimal + ` tokens per second\)`)
	llamaEval   = regexp.MustCompile(`(?m)(?:^ *|[^t ] +)(eval time =\s*` + target.Decimal + ` ms /\s*(\d+) (?:tokens|runs) +\(\s*` + target.Decimal + ` ms per token,\s*` + target.Decimal + ` tokens per second\))`)
	llamaDraft  = regexp.MustCompile(`draft acceptance(?: rate)? =\s*` + target.Decimal + ` \(\s*(\d+) accepted /\s*(\d+) generated\)(?:, mean len =\s*` + target.Decimal + `)?`)
	llamaTotal  = regexp.MustCompile(`total time =\s*` + target.Decimal + ` ms /\s*(\d+) tokens`)
	llamaGraphs = regexp.MustCompile(`graphs reused =\s*(\d+)`)
	llamaEnd    = regexp.MustCompile(`stop processing: n_(?:tokens|past) = (\d+), truncated = ([01])`)
	llamaCache  = regexp.MustCompile(`(?m)^.*(?:prompt cache update took|updating prompt cache|saving prompt with length|found better prompt|restored context checkpoint).*$`)
)

// Text is a log as plain lines: of a log in JSON (--log-jsonl) the messages, and
// all else as it is.
func Text(log []byte) []byte {
	if !bytes.Contains(log, []byte(`{"type":"log"`)) {
		return log
	}
	var out bytes.Buffer
	for line := range bytes.Lines(log) {
		var entry struct {
			Type string  `json:"type"`
			Msg  *string `json:"msg"`
		}
		if json.Unmarshal(line, &entry) != nil || entry.Type != "log" || entry.Msg == nil {
			out.Write(line)
			continue
		}
		out.WriteString(strings.TrimSuffix(*entry.Msg, "\n"))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// ReadLog reads the lines of one request.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) { return ReadLog(segment) }

// ReadLog is the adapter's, for what else logs in the same form.
func ReadLog(segment []byte) (target.LogRecord, error) {
	segment = Text(segment)
	prompt := llamaPrompt.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(prompt), "prompt eval time"); err != nil {
		return target.LogRecord{}, err
	}
	eval := llamaEval.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(eval), "eval time"); err != nil {
		return target.LogRecord{}, err
	}
	p, e := target.Groups(prompt[0]), target.Groups(eval[0])
	rec := target.LogRecord{
		Line:       p.Text(0) + " | " + e.Text(1),
		PromptMS:   p.Float(1),
		PromptN:    p.Int(2),
		PromptRate: p.Float(4),
		DecodeMS:   e.Float(2),
		Generated:  e.Int(3),
		DecodeRate: e.Float(5),
	}
	if d := llamaDraft.FindSubmatch(segment); d != nil {
		g := target.Groups(d)
		rec.DraftAccepted, rec.DraftN = g.Int(2), g.Int(3)
		rec.Line += " | " + g.Text(0)
	}
	return rec, nil
}

// more is what the lines of one request hold beside the record. A nil field was
// not in them.
type more struct {
	totalMS   *float64
	total     *int // tokens: prompt and answer
	graphs    *int
	meanLen   *float64
	positions *int // of the context in use at the end
	truncated *bool
	cache     *string // a line that tells of the prompt cache at work
}

func readMore(segment []byte) more {
	segment = Text(segment)
	var m more
	if g := target.Groups(llamaTotal.FindSubmatch(segment)); g != nil {
		m.totalMS, m.total = g.Float(1), g.Int(2)
	}
	if g := target.Groups(llamaGraphs.FindSubmatch(segment)); g != nil {
		m.graphs = g.Int(1)
	}
	if g := target.Groups(llamaDraft.FindSubmatch(segment)); g != nil {
		m.meanLen = g.Float(4)
	}
	if g := target.Groups(llamaEnd.FindSubmatch(segment)); g != nil {
		m.positions, m.truncated = g.Int(1), new(g.Text(2) == "1")
	}
	if line := llamaCache.Find(segment); line != nil {
		m.cache = new(strings.ToValidUTF8(strings.TrimSpace(string(line)), "?"))
	}
	return m
}

var llamaThreads = regexp.MustCompile(`(?m)^.*n_threads = (\d+).*$`)

// ReadThreads reads n_threads.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) { return ReadThreads(log) }

// ReadThreads is the adapter's, for what else logs in the same form.
func ReadThreads(log []byte) (target.Threads, error) {
	m := llamaThreads.FindSubmatch(Text(log))
	if m == nil {
		return target.Threads{}, errors.New("no n_threads in the log")
	}
	// The thread that calls is one of them.
	g := target.Groups(m)
	t := target.Threads{HostThread: new(true), Line: strings.ToValidUTF8(strings.TrimSpace(g.Text(0)), "?")}
	if n := g.Int(1); n != nil && *n > 0 {
		t.Workers = new(*n - 1)
	}
	return t, nil
}

// ramCacheOff is what the server says at its start when its cache of prompts in
// memory is off.
var ramCacheOff = regexp.MustCompile(`(?m)^.*(?:--cache-idle-slots requires --cache-ram, disabling|prompt cache is disabled).*$`)

var ramCacheOn = regexp.MustCompile(`(?m)^.*prompt cache is enabled.*$`)
