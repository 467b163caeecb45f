package selftest

import (
	"strings"
	"testing"
	"time"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
)

func ptr(v float64) *float64 { return &v }

// The whole way, with a server process: what does not depend on how busy the
// machine is must hold exactly, the rest roughly.
func TestRun(t *testing.T) {
	o := ownServer(t)
	o.Levels = []Level{{1, 200}, {3, 100}}
	o.Window, o.TTFT = 500*time.Millisecond, 100*time.Millisecond
	o.Limits = Limits{DecodeErrorPct: 100, TTFTErrorMS: 1000}
	var told []string
	o.Tell = func(line string) { told = append(told, line) }
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Crossed) > 0 {
		t.Errorf("crossed: %q", rep.Crossed)
	}
	if len(rep.Late) > 0 {
		t.Logf("not judged: %q", rep.Late)
	}
	if len(rep.Hostile) != len(plays) || !strings.Contains(strings.Join(told, "\n"), "3 stream(s) of 100 tokens a second, window 1 of 1") {
		t.Errorf("%d hostile streams, want %d; told %q", len(rep.Hostile), len(plays), told)
	}
	if len(rep.Levels) != 2 {
		t.Fatalf("%d levels", len(rep.Levels))
	}
	for i, l := range rep.Levels {
		want := o.Levels[i]
		tokens := int(want.TokS/2) + 1
		if l.Level != want || l.Runs != want.Streams || l.Tokens != tokens || l.ReceivedTokens != tokens*l.Runs || len(l.Failed) > 0 {
			t.Errorf("%v: runs %d, tokens %d, received %d, failed %q", l.Level, l.Runs, l.Tokens, l.ReceivedTokens, l.Failed)
		}
		if l.StampsOutOfLine != 0 {
			t.Errorf("%v: %d frames came before they were sent", l.Level, l.StampsOutOfLine)
		}
		if l.DelayMS.N != l.ReceivedTokens || *l.DelayMS.P50 <= 0 || *l.DelayMS.P50 > 50 {
			t.Errorf("%v: frame delay %+v of %d", l.Level, l.DelayMS, l.ReceivedTokens)
		}
		if l.LagMS.N == 0 || *l.LagMS.P50 > *l.DelayMS.Max {
			t.Errorf("%v: lag %+v, frame delay %+v", l.Level, l.LagMS, l.DelayMS)
		}
		if s := l.TTFTErrorMS; s.N > 0 && *s.P50 <= 0 {
			t.Errorf("%v: TTFT error %+v: no answer comes in no time", l.Level, s)
		}
		if *l.CPUPerTokenUS <= 0 || *l.ReadPerTokenUS <= 0 {
			t.Errorf("%v: CPU %v, %v", l.Level, *l.CPUPerTokenUS, *l.ReadPerTokenUS)
		}
	}
}

func TestRunTellsWhyTheServerDoesNotStart(t *testing.T) {
	o := ownServer(t)
	o.Levels, o.Window = []Level{{1, 200}}, time.Second
	o.Argv = []string{"/no/such/server"}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the self-test's server: ") {
		t.Errorf("error %v", err)
	}
}

func TestJudge(t *testing.T) {
	good := func(l Level) LevelReport {
		return LevelReport{
			Level: l, Runs: 100, Reported: 95,
			TTFTErrorMS:   Stat{P50: ptr(0.5), Max: ptr(9)},
			DecodeErrPct:  Stat{P50: ptr(0.01), Max: ptr(0.09)},
			ServerLateMS:  Stat{P50: ptr(0.03), Max: ptr(20)},
			ServerRatePct: ptr(99.9),
		}
	}
	one, ten, many := Level{1, 50}, Level{10, 2000}, Level{100, 100}
	for _, c := range []struct {
		name          string
		level         Level
		change        func(l *LevelReport)
		crossed, late string
	}{
		{"good", one, func(*LevelReport) {}, "", ""},
		{"TTFT", one, func(l *LevelReport) { l.TTFTErrorMS.P50 = ptr(1) }, "1@50: the median TTFT error is 1.000 ms, the limit is 1", ""},
		{"TTFT of many", ten, func(l *LevelReport) { l.TTFTErrorMS.P50 = ptr(50) }, "", ""},
		{"decode", ten, func(l *LevelReport) { l.DecodeErrPct.Max = ptr(0.1) }, "10@2000: the worst decode error is 0.1000 %, the limit is 0.1", ""},
		{"decode of many", many, func(l *LevelReport) { l.DecodeErrPct.Max = ptr(5) }, "", ""},
		{"reported", many, func(l *LevelReport) { l.Reported = 94 }, "100@100: 94 of 100 runs are reported, the limit is 95 %", ""},
		{"nothing reported", one, func(l *LevelReport) { l.Reported, l.TTFTErrorMS, l.DecodeErrPct = 0, Stat{}, Stat{} }, "0 of 100 runs", ""},
		{"late", ten, func(l *LevelReport) { l.ServerLateMS.P50 = ptr(0.6) }, "", "half of the server's frames were more than 0.600 ms late, with 0.500 ms between two"},
		{"slow", ten, func(l *LevelReport) { l.ServerRatePct = ptr(97) }, "", "the server sent 97.0 %"},
		{"late and crossed", ten, func(l *LevelReport) { l.ServerRatePct = ptr(97); l.DecodeErrPct.Max = ptr(3) }, "", "97.0 %"},
		{"clocks", one, func(l *LevelReport) { l.StampsOutOfLine = 3 }, "", "do not share a clock"},
	} {
		l := good(c.level)
		c.change(&l)
		r := Report{Levels: []LevelReport{l}, Options: ReportOptions{Limits: Limits{0.1, 1, 95}}}
		r.judge()
		for _, g := range []struct {
			got  []string
			want string
		}{{r.Crossed, c.crossed}, {r.Late, c.late}} {
			if (len(g.got) == 0) != (g.want == "") || !strings.Contains(strings.Join(g.got, "; "), g.want) {
				t.Errorf("%s: crossed %q, late %q", c.name, r.Crossed, r.Late)
			}
		}
	}
}

// The checks of hostile streams see readings that are wrong.
func TestHostileChecksCanFail(t *testing.T) {
	const gap, n = int64(3e6), 200
	right := func() *run {
		r := &run{verdict: count.AgreeIndependent, figures: &figure.Figures{}}
		for k := range int64(n) {
			r.stamps = append(r.stamps, stamps{Arrived: 0, Due: 2e8 + k*gap, Sent: 2e8 + k*gap, at: 2e8 + k*gap + 1e5})
		}
		r.figures.TTFT.Value, r.figures.Decode.Value = ptr(200.5), ptr(333.3)
		return r
	}
	for _, c := range []struct {
		play  string
		spoil func(r *run)
		want  string
	}{
		{"plain", func(*run) {}, ""},
		{"plain", func(r *run) { r.figures.TTFT.Value = ptr(100) }, "TTFT 100.0 ms, the server's is 200.0 ms"},
		{"plain", func(r *run) { r.figures.TTFT.Value = nil }, "there is no TTFT"},
		{"plain", func(r *run) { r.figures.Decode.Value = ptr(180) }, "decode rate 180.0 tok/s, the server's is 333.3 tok/s"},
		{"plain", func(r *run) { r.figures.Decode.Value, r.figures.Decode.Withheld = nil, ptr(180) }, "decode rate 180.0"},
		{"plain", func(r *run) { r.verdict = count.Mismatch }, "verdict is count-mismatch, want agree-independent"},
		{"plain", func(r *run) { r.figures.Failed = true }, "failed: true, want false"},
		{"plain", func(r *run) { r.figures.Withheld = []figure.Reason{{Code: figure.ClientLag}} }, ""},
		{"plain", func(r *run) { r.figures.Withheld = []figure.Reason{{Code: figure.Clumped}} }, "withheld as clumped"},
		{"clumped", func(*run) {}, "not withheld as clumped"},
		{"half-first", func(r *run) { r.figures.Withheld = []figure.Reason{{Code: figure.Clumped}} }, "the server's is 167.5 tok/s"},
		{"no-token", func(r *run) {
			r.verdict, r.figures.Failed = count.Unchecked, true
			r.figures.Withheld = []figure.Reason{{Code: figure.StreamError}, {Code: figure.Short}}
		}, "there is a TTFT or a rate"},
	} {
		r := right()
		c.spoil(r)
		h := expectations[c.play].check(c.play, r)
		if (h.Why == "") != (c.want == "") || !strings.Contains(h.Why, c.want) || h.Busy {
			t.Errorf("%s: %q, busy %v, want %q", c.play, h.Why, h.Busy, c.want)
		}
	}
	r := right()
	r.figures.Decode.Value = ptr(180)
	r.stamps[100].at = r.stamps[100].Due + 2e7
	if h := expectations["plain"].check("plain", r); h.Why == "" || !h.Busy {
		t.Errorf("%+v: want it to be put down to the machine", h)
	}
}
