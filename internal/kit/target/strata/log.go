package strata

import (
	"bytes"
	"regexp"
	"strings"

	"assay/internal/kit/target"
)

// decimal is a number of the log, or what C prints in its place when there is
// nothing to divide by.
const decimal = `(?:` + target.Decimal + `|-?nan|-?inf)`

// The lines of one request. Prefixes may stand before them.
var (
	readLine = regexp.MustCompile(`(?m)^[^\n]*?(strata serve: prompt (\d+) tokens = (\d+) reused \+ (\d+)(?: of (\d+))? read in ` + decimal + ` ms \(` + decimal + ` tok/s\)` +
		`(?:, (\d+) generated in ` + decimal + ` ms \(` + decimal + ` tok/s\))?(?:[^\n]*?, drafts accepted (\d+) of (\d+))?[^\n]*?( \(cancelled\))?)[ \t\r]*$`)
	hitLine = regexp.MustCompile(`(?m)^[^\n]*?(strata serve: decode expert cache hit rate: ` + target.Decimal + `% \((\d+) hits / (\d+) lookups\)` +
		`(?:; (\d+) more read by the GPU over PCIe or from another GPU \(` + target.Decimal + `% of all (\d+) routed\))?)`)
	suffixLine = regexp.MustCompile(`(?m)^[^\n]*?(strata serve: suffix drafts: (\d+) windows?, (\d+) of (\d+) drafts? accepted)`)
	kvLine     = regexp.MustCompile(`(?m)^[^\n]*?(strata serve: KV streaming: ` + target.Decimal + `% of (\d+) block reads hit VRAM, ` + target.Decimal + ` MiB read from RAM)`)
)

// lines are what a log segment holds of a request. A request has one line of each
// kind, or several where the server had the engine go on: it does so when a budget
// for reasoning is used up.
type lines struct {
	read, hit, suffix, kv []target.Groups
}

// readLines takes the whole lines of a segment; the last one may still be written.
func readLines(segment []byte) lines {
	segment = segment[:bytes.LastIndexByte(segment, '\n')+1]
	all := func(re *regexp.Regexp) []target.Groups {
		var out []target.Groups
		for _, m := range re.FindAllSubmatch(segment, -1) {
			out = append(out, target.Groups(m))
		}
		return out
	}
	return lines{all(readLine), all(hitLine), all(suffixLine), all(kvLine)}
}

// one checks that all lines belong to one request: the engine went on from what it
// had read before.
func (l *lines) one() error {
	for i := 1; i < len(l.read); i++ {
		before, reused := l.read[i-1].Int(2), l.read[i].Int(3)
		if before == nil || reused == nil || *reused < *before {
			return target.OnlyOne(len(l.read), "strata serve: prompt")
		}
	}
	return target.OnlyOne(min(len(l.read), 1), "strata serve: prompt")
}

// cancelled says whether the request was given up.
func (l *lines) cancelled() bool {
	n := len(l.read)
	return n > 0 && l.read[n-1].Text(13) != ""
}

// sum adds up a group of all lines of a kind; nil where one is not there.
func sum(all []target.Groups, group int) *int64 {
	if len(all) == 0 {
		return nil
	}
	total := int64(0)
	for _, g := range all {
		v := g.Int(group)
		if v == nil {
			return nil
		}
		total += int64(*v)
	}
	if total < 0 {
		return nil
	}
	return &total
}

func small(v *int64) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

// joined are the lines as they were printed.
func joined(all []target.Groups) string {
	out := make([]string, len(all))
	for i, g := range all {
		out[i] = strings.TrimRight(g.Text(1), " \t\r")
	}
	return strings.Join(out, " | ")
}

// ReadLog reads the lines that a request leaves. Where the engine was had to go on,
// its parts are added up: the prompt is that of the first.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	l := readLines(segment)
	if err := l.one(); err != nil {
		return target.LogRecord{}, err
	}
	first := l.read[0]
	rec := target.LogRecord{
		Line:      joined(l.read),
		Cached:    first.Int(3),
		PromptN:   first.Int(4),
		PromptMS:  first.Float(6),
		Generated: small(sum(l.read, 8)),
		DecodeMS:  first.Float(9),

		PromptRate: first.Float(7),
		DecodeRate: first.Float(10),

		DraftAccepted: small(sum(l.read, 11)),
		DraftN:        small(sum(l.read, 12)),
	}
	for _, g := range l.read[1:] {
		rec.DecodeRate = nil // no line states the rate of all
		ms := g.Float(9)
		if ms == nil || rec.DecodeMS == nil {
			rec.DecodeMS = nil
			break
		}
		rec.DecodeMS = new(*rec.DecodeMS + *ms)
	}
	if l.cancelled() {
		rec.Finish = new("cancelled")
	}
	return rec, nil
}
