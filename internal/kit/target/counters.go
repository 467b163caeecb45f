package target

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// CounterNames are the names of an engine's totals in /metrics; empty where it
// has none.
type CounterNames struct {
	Prompt           string // prompt tokens computed
	Cached           string // prompt tokens reused
	PromptSeconds    string
	Predicted        string // tokens generated
	PredictedSeconds string
	// Digits is how many significant digits the engine prints of a number; 0: all.
	// The share of one run in a large total is then not exact.
	Digits int
}

// Counters are totals since the server's start; after Since, the difference of
// two readings. A nil field was not there.
type Counters struct {
	Prompt, Cached, Predicted       *float64
	PromptSeconds, PredictedSeconds *float64
	// Why says why a total that was there gave no difference; empty: none.
	Why string

	digits int
}

// ReadCounters finds the named totals in Prometheus' text format. Series of one
// name that differ by labels are added up.
func ReadCounters(text []byte, names CounterNames) (Counters, error) {
	if names.Predicted == "" && names.Prompt == "" {
		return Counters{}, fmt.Errorf("the adapter knows no counters of this engine")
	}
	series, err := ReadSeries(text)
	if err != nil {
		return Counters{}, err
	}
	sums := map[string]float64{}
	for _, labelled := range slices.Sorted(maps.Keys(series)) { // in one order: sums of floats depend on it
		name, _, _ := strings.Cut(labelled, "{")
		sums[name] += series[labelled]
	}
	get := func(name string) *float64 {
		v, ok := sums[name]
		if !ok || name == "" || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	c := Counters{
		Prompt: get(names.Prompt), Cached: get(names.Cached), Predicted: get(names.Predicted),
		PromptSeconds: get(names.PromptSeconds), PredictedSeconds: get(names.PredictedSeconds),
	}
	if c == (Counters{}) {
		return c, fmt.Errorf("/metrics: none of the engine's counters is there (looked for %s)", names.Predicted)
	}
	c.digits = names.Digits
	return c, nil
}

// ReadSeries reads Prometheus' text format: the value of each series by its name
// and labels as they stand, "name{label=\"value\"}". Of a series that is there
// twice the values are added up.
func ReadSeries(text []byte) (map[string]float64, error) {
	out := map[string]float64{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, err := cutSeries(line)
		if err != nil {
			return nil, fmt.Errorf("/metrics, line %d: %w", number, err)
		}
		value, _, _ := strings.Cut(rest, " ") // a timestamp may follow
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics, line %d: %q is not a number", number, clip(value))
		}
		out[name] += v
	}
	return out, nil
}

// cutSeries splits "name{labels} value" at the end of the series. Labels may
// hold any character, quoted.
func cutSeries(line string) (name, value string, err error) {
	i := strings.IndexAny(line, "{ \t")
	if i <= 0 {
		return "", "", fmt.Errorf("%q has no value", clip(line))
	}
	end := i
	if line[i] == '{' {
		quoted := false
		for i++; i < len(line) && (quoted || line[i] != '}'); i++ {
			switch line[i] {
			case '\\':
				if quoted {
					i++
				}
			case '"':
				quoted = !quoted
			}
		}
		if i >= len(line) {
			return "", "", fmt.Errorf("%q: the labels do not end", clip(line))
		}
		i++
		end = i
	}
	return line[:end], strings.TrimSpace(line[i:]), nil
}

// ErrRestarted marks counters that went back.
var ErrRestarted = errors.New("the server was started anew")

// Since is what was added between two readings. It fails when a total went
// down: the server was started anew in between.
func (c Counters) Since(before Counters) (Counters, error) {
	var restarted error
	why := ""
	diff := func(after, before *float64, name string) *float64 {
		if after == nil || before == nil {
			return nil
		}
		d := *after - *before
		if d < 0 && restarted == nil {
			restarted = fmt.Errorf("%w: the server's count of %s fell from %v to %v", ErrRestarted, name, *before, *after)
		}
		// A count must be exact, a time within a part in two hundred.
		off := Rounding(*after, c.digits) + Rounding(*before, c.digits)
		limit := 0.5
		if strings.HasSuffix(name, "seconds") {
			limit = d / 200
		}
		if off > max(limit, 0) && d >= 0 {
			why = fmt.Sprintf("the server prints %d digits of its total of %s, %v: what one run added is not exact", c.digits, name, *after)
			return nil
		}
		return &d
	}
	d := Counters{
		Prompt:           diff(c.Prompt, before.Prompt, "prompt tokens"),
		Cached:           diff(c.Cached, before.Cached, "cached tokens"),
		Predicted:        diff(c.Predicted, before.Predicted, "generated tokens"),
		PromptSeconds:    diff(c.PromptSeconds, before.PromptSeconds, "prompt seconds"),
		PredictedSeconds: diff(c.PredictedSeconds, before.PredictedSeconds, "decode seconds"),
	}
	d.Why = why
	return d, restarted
}

// Rounding is how far a number that was printed with so many significant digits
// may be from what it was: half a unit of the last of them. Whole numbers of fewer
// digits are exact. digits 0: nothing was rounded.
func Rounding(v float64, digits int) float64 {
	if digits <= 0 || v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	first := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	if first <= digits && v == math.Trunc(v) {
		return 0
	}
	return 0.5 * math.Pow10(first-digits)
}

// Whole turns a counter's difference into a number of tokens; nil for what can't
// be one.
func Whole(v *float64) *int {
	if v == nil || *v < 0 || *v > math.MaxInt32 {
		return nil
	}
	return new(int(math.Round(*v)))
}

// Milliseconds turns seconds into them; nil for what no clock shows.
func Milliseconds(seconds *float64) *float64 {
	const longest = 1e9 // s, over 30 years
	if seconds == nil || *seconds > longest {
		return nil
	}
	return new(*seconds * 1e3)
}
