package ollama

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// What Ollama's log has of a request: one line of its web framework when it is
// over; and, where something went wrong before, lines that say so.
var (
	servedLine = regexp.MustCompile(`(?m)^[^\n]*?(\[GIN\] \S+ - \S+ \|\s*(\d+) \|\s*(\S+) \|\s*\S+ \|\s*POST\s+"(/api/chat|/api/generate|/v1/chat/completions|/v1/completions)")`)
	cutLine    = regexp.MustCompile(`(?m)^[^\n]*truncating input[^\n]*$`)
	cachedLine = regexp.MustCompile(`cached n_tokens = (\d+), memory_seq_rm`)
	loadLine   = regexp.MustCompile(`(?m)^[^\n]*msg="starting (?:runner|llama-server)[^\n]*$`)
)

// whole drops a last line that may still be written.
func whole(segment []byte) []byte { return segment[:bytes.LastIndexByte(segment, '\n')+1] }

// firstLine is what a pattern finds first, as text; nil: nothing.
func firstLine(re *regexp.Regexp, log []byte) *string {
	m := re.Find(whole(log))
	if m == nil {
		return nil
	}
	return new(strings.TrimSpace(string(m)))
}

// ReadLog reads the line of the one request. From 0.30 on Ollama runs a llama-server
// and has that one's lines among its own: with counts, and with what came from the
// cache, which the stream does not tell.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	segment = whole(segment)
	served := servedLine.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(served), "[GIN] ... POST"); err != nil {
		return target.LogRecord{}, err
	}
	line := target.Groups(served[0]).Text(1)
	if !bytes.Contains(segment, []byte("prompt eval time =")) {
		return target.LogRecord{Line: line}, nil
	}
	rec, err := llamaserver.ReadLog(segment)
	if err != nil {
		return target.LogRecord{}, err
	}
	if m := cachedLine.FindSubmatch(segment); m != nil {
		rec.Cached = target.Groups(m).Int(1)
	}
	rec.Line += " | " + line
	return rec, nil
}

// servedMS is how long the request took by the log, with half a unit of the last
// digit that was printed; nil: the log does not say it.
func servedMS(segment []byte) (ms *float64, half float64) {
	m := servedLine.FindSubmatch(whole(segment))
	if m == nil {
		return nil, 0
	}
	text := string(m[3])
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, 0
	}
	return new(d.Seconds() * 1e3), lastDigit(text) / 2
}

// lastDigit is the worth of a printed duration's last digit, in ms.
func lastDigit(text string) float64 {
	number := strings.TrimRight(text, "nµusmh")
	worth := map[string]float64{"ns": 1e-6, "µs": 1e-3, "us": 1e-3, "ms": 1, "s": 1e3}[text[len(number):]]
	if worth == 0 {
		return 1e3 // minutes: "1m2.5s" ends in seconds
	}
	if i := strings.LastIndexByte(number, '.'); i >= 0 {
		for range number[i+1:] {
			worth /= 10
		}
	}
	return worth
}

// number is a whole number beside its name in a line of the log; nil: none.
func number(line, name string) *int {
	_, after, ok := strings.Cut(line, " "+name+"=")
	if !ok {
		return nil
	}
	digits, _, _ := strings.Cut(after, " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return nil
	}
	return &n
}
