// Package selftest measures the measuring client. A server in a process of its
// own plays streams by a schedule that the request gives and stamps every frame
// with the time at which it sends it; the client takes them in as it does in a
// run (stream.Do, Frames, Decode, figure.Compute), and what it then says is
// held against the stamps.
//
// Both processes read CLOCK_MONOTONIC, which is one clock for all of them, so
// that the stamps can be compared. What the client is charged with:
//
//   - TTFT error: ttft_ms less (first token frame sent - request arrived), both
//     by the server's stamps. It is the sum of the request's way (t0 to the
//     moment at which the server had read the request, its accept and its
//     parsing included) and of the first frame's way back (its stamp to ours).
//     The client's own part can only be smaller. Since it needs no clock that is
//     shared, other clients can be judged by it too.
//   - decode error: decode_tok_s against (tokens after the first frame)/(last
//     token frame sent - first token frame sent).
//   - lag: our stamp less the kernel's receive time of the read.
//   - frame delay: our stamp less the frame's own.
//
// A server that does not keep its schedule does not spoil these, for its stamps
// say what it did; but a load that was not played was not tested, so a level at
// which it was too late is marked as not judged.
package selftest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/stats"
)

// Level is one load: so many streams at once, each of so many tokens a second.
type Level struct {
	Streams int     `json:"streams"`
	TokS    float64 `json:"tok_s"` // of each stream
}

func (l Level) String() string { return fmt.Sprintf("%d@%g", l.Streams, l.TokS) }

// Options say what to measure.
type Options struct {
	Argv   []string      // starts the server: it calls Serve
	Env    []string      // the server's environment
	Levels []Level       //
	Window time.Duration // from the first to the last token of a stream
	TTFT   time.Duration // that the server plays
	Runs   int           // least runs of a level: a level of fewer streams is repeated
	Limits Limits
	Tell   func(string) // progress, one line each; nil: nobody listens
}

// Limits are what the client must keep. Those of decoding hold for levels of up
// to ten streams, that of TTFT for one stream.
type Limits struct {
	DecodeErrorPct float64 `json:"decode_error_pct"` // of the worst run, below
	TTFTErrorMS    float64 `json:"ttft_error_ms"`    // of the median run, below
	ReportedPct    float64 `json:"reported_pct"`     // at least; TTFT and decode rate both shown
}

// limitedStreams is the largest level whose decode error is limited: above it
// two processors may be too few for both processes.
const limitedStreams = 10

// Report is the outcome.
type Report struct {
	Rule    string         `json:"rule"` // of timing
	Options ReportOptions  `json:"options"`
	Load1   *float64       `json:"load1_before"` // the machine's load average before the first level; null: not known
	Levels  []LevelReport  `json:"levels"`
	Hostile []HostileCheck `json:"hostile"`
	Crossed []string       `json:"crossed"`    // limits that were not kept, in words
	Late    []string       `json:"not_judged"` // levels at which the server was too late, in words
}

// ReportOptions repeats what was asked for.
type ReportOptions struct {
	WindowS float64 `json:"window_s"`
	TTFTMS  float64 `json:"ttft_ms"`
	Runs    int     `json:"runs"`
	Limits  Limits  `json:"limits"`
}

// LevelReport is what one level showed.
type LevelReport struct {
	Level
	Tokens   int            `json:"tokens"` // of each run
	Runs     int            `json:"runs"`
	Reported int            `json:"reported"` // runs with TTFT and decode rate shown
	Withheld map[string]int `json:"withheld"` // runs by the code that kept a figure from being shown
	Failed   []string       `json:"failed"`   // why runs failed; at most 5

	TTFTErrorMS  Stat `json:"ttft_error_ms"`
	RequestWayMS Stat `json:"request_way_ms"`
	FirstWayMS   Stat `json:"first_frame_way_ms"`
	DecodeErrPct Stat `json:"decode_error_pct"` // without sign
	LagMS        Stat `json:"lag_ms"`           // of reads
	DelayMS      Stat `json:"frame_delay_ms"`   // of frames

	ServerLateMS  Stat     `json:"server_late_ms"`  // frames against the schedule
	ServerRatePct *float64 `json:"server_rate_pct"` // tokens a second sent, of those asked for; median run

	CPUPerTokenUS   *float64 `json:"cpu_per_token_us"`   // of this process while it received
	ReadPerTokenUS  *float64 `json:"read_per_token_us"`  // of this process for frames and figures, afterwards
	ReceivedTokens  int      `json:"received_tokens"`    //
	StampsOutOfLine int      `json:"stamps_out_of_line"` // frames that came before they were sent: the clocks are not one

	gathered
}

// Stat describes a sample. P99 is null when the sample is too small to carry it.
type Stat struct {
	N   int      `json:"n"`
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
	Max *float64 `json:"max"`
}

func statOf(v []float64) Stat {
	s := Stat{N: len(v)}
	if sum, ok := stats.Summarize(v); ok {
		s.P50, s.Max = &sum.Median, &sum.Max
	}
	if p99, err := stats.Quantile(v, 0.99); err == nil {
		s.P99 = &p99
	}
	return s
}

// judge holds the levels against the limits.
func (r *Report) judge() {
	l := r.Options.Limits
	for i := range r.Levels {
		lv := &r.Levels[i]
		if why := lv.tooLate(); why != "" {
			r.Late = append(r.Late, fmt.Sprintf("%v: %s", lv.Level, why))
			continue
		}
		cross := func(format string, args ...any) {
			r.Crossed = append(r.Crossed, fmt.Sprintf("%v: ", lv.Level)+fmt.Sprintf(format, args...))
		}
		if got := 100 * float64(lv.Reported) / float64(lv.Runs); got < l.ReportedPct {
			cross("%d of %d runs are reported, the limit is %g %%", lv.Reported, lv.Runs, l.ReportedPct)
		}
		if v := lv.DecodeErrPct.Max; v != nil && lv.Streams <= limitedStreams && *v >= l.DecodeErrorPct {
			cross("the worst decode error is %.4f %%, the limit is %g", *v, l.DecodeErrorPct)
		}
		if v := lv.TTFTErrorMS.P50; v != nil && lv.Streams == 1 && *v >= l.TTFTErrorMS {
			cross("the median TTFT error is %.3f ms, the limit is %g", *v, l.TTFTErrorMS)
		}
	}
	for _, h := range r.Hostile {
		switch {
		case h.Busy:
			r.Late = append(r.Late, fmt.Sprintf("stream %s: frames came more than %g ms after they were due, or the request after it was sent", h.Play, busyMS))
		case h.Why != "":
			r.Crossed = append(r.Crossed, fmt.Sprintf("stream %s: %s", h.Play, h.Why))
		}
	}
}

// tooLate says why the server did not play what was asked for: half of the frames
// came after their successor was due, or the rate is off by more than 2 %.
func (lv *LevelReport) tooLate() string {
	if lv.StampsOutOfLine > 0 {
		return fmt.Sprintf("%d frames came before they were sent: server and client do not share a clock", lv.StampsOutOfLine)
	}
	gap := 1e3 / lv.TokS
	if v := lv.ServerLateMS.P50; v != nil && *v > gap {
		return fmt.Sprintf("half of the server's frames were more than %.3f ms late, with %.3f ms between two", *v, gap)
	}
	if v := lv.ServerRatePct; v != nil && math.Abs(*v-100) > 2 {
		return fmt.Sprintf("the server sent %.1f %% of the tokens a second that were asked for", *v)
	}
	return ""
}

// ParseLevels reads "1@50,10@2000": streams@tokens a second of each.
func ParseLevels(s string) ([]Level, error) {
	var out []Level
	for part := range strings.SplitSeq(s, ",") {
		var l Level
		n, err := fmt.Sscanf(strings.TrimSpace(part)+"\n", "%d@%g\n", &l.Streams, &l.TokS)
		if err != nil || n != 2 || l.Streams < 1 || l.Streams > maxStreams || !(l.TokS >= 1 && l.TokS <= maxTokS) {
			return nil, fmt.Errorf("%q is not a level (want streams@tokens a second, as in 10@2000; at most %d and %d)", part, maxStreams, maxTokS)
		}
		out = append(out, l)
	}
	return out, nil
}

// The largest level.
const (
	maxStreams = 10_000
	maxTokS    = 20_000
)

// Check refuses what can't be played.
func (o *Options) Check() error {
	if len(o.Levels) == 0 {
		return errors.New("no level is given")
	}
	for _, l := range o.Levels {
		if n := l.tokens(o.Window); n < leastTokens || n > maxTokens {
			return fmt.Errorf("level %v has %d tokens in a window of %v (want %d to %d)", l, n, o.Window, leastTokens, maxTokens)
		}
	}
	return nil
}

// leastTokens: a decode rate of fewer intervals is never shown.
const leastTokens = 20

// tokens of one stream, whose first and last lie a window apart.
func (l Level) tokens(window time.Duration) int {
	return int(math.Round(l.TokS*window.Seconds())) + 1
}

// rounds is how often a level is repeated to have enough runs.
func (l Level) rounds(runs int) int { return max(1, (runs+l.Streams-1)/l.Streams) }

// codes counts the runs that each code kept a figure from.
func codes(into map[string]int, of []string) {
	slices.Sort(of)
	for _, c := range slices.Compact(of) {
		into[c]++
	}
}
