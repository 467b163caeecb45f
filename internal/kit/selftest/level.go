package selftest

import "time"

// gathered are a level's samples before they are summed up.
type gathered struct {
	ttft, request, first []float64 // ms
	decode, rate         []float64 // %
	lag, delay, late     []float64 // ms
	cpu, readCPU         time.Duration
}

// level finds or adds the report of a level.
func (r *Report) level(l Level, tokens int) *LevelReport {
	if n := len(r.Levels); n > 0 && r.Levels[n-1].Level == l {
		return &r.Levels[n-1]
	}
	r.Levels = append(r.Levels, LevelReport{Level: l, Tokens: tokens, Withheld: map[string]int{}, Failed: []string{}})
	return &r.Levels[len(r.Levels)-1]
}

// add takes in one stream.
func (lv *LevelReport) add(t *taken, asked int) {
	lv.Runs++
	r := t.read(asked)
	f := r.figures
	var withheld []string
	for _, reason := range f.Withheld {
		withheld = append(withheld, string(reason.Code))
	}
	codes(lv.Withheld, withheld)
	if f.TTFT.Value != nil && f.Decode.Value != nil {
		lv.Reported++
	}
	err := t.err
	if err == nil {
		err = r.err
	}
	if err != nil {
		const most = 5
		if len(lv.Failed) < most {
			lv.Failed = append(lv.Failed, err.Error())
		}
		return
	}
	if len(r.stamps) == 0 {
		return
	}
	lv.ReceivedTokens += len(r.stamps)
	lv.compare(&r)
}

// compare holds what the client says against the server's stamps.
func (lv *LevelReport) compare(r *run) {
	first := r.stamps[0]
	// Errors are those of what the user sees; what is withheld counts against the
	// share that is reported instead.
	if v := r.figures.TTFT.Value; v != nil {
		lv.ttft = append(lv.ttft, *v-ms(first.Sent-first.Arrived))
		lv.request = append(lv.request, ms(first.Arrived-r.t0))
		lv.first = append(lv.first, ms(first.at-first.Sent))
	}
	// Each frame of these streams is one token.
	want := trueRate(r.stamps, len(r.stamps), 1)
	if v := r.figures.Decode.Value; v != nil {
		lv.decode = append(lv.decode, offPct(*v, want))
	}
	lv.rate = append(lv.rate, 100*want/lv.TokS)
	for i, s := range r.stamps {
		lv.delay = append(lv.delay, ms(s.at-s.Sent))
		lv.late = append(lv.late, ms(s.Sent-s.Due))
		if s.at < s.Sent {
			lv.StampsOutOfLine++
		}
		tok := &r.completion.Tokens[i]
		if tok.Kernel >= 0 && (i == 0 || r.completion.Tokens[i-1].Read != tok.Read) {
			lv.lag = append(lv.lag, ms(tok.At-tok.Kernel))
		}
	}
}

// sum turns the samples into figures.
func (lv *LevelReport) sum() {
	g := &lv.gathered
	lv.TTFTErrorMS, lv.RequestWayMS, lv.FirstWayMS = statOf(g.ttft), statOf(g.request), statOf(g.first)
	lv.DecodeErrPct = statOf(g.decode)
	lv.LagMS, lv.DelayMS, lv.ServerLateMS = statOf(g.lag), statOf(g.delay), statOf(g.late)
	lv.ServerRatePct = statOf(g.rate).P50
	if n := float64(lv.ReceivedTokens); n > 0 {
		per := func(d time.Duration) *float64 {
			v := float64(d.Microseconds()) / n
			return &v
		}
		lv.CPUPerTokenUS, lv.ReadPerTokenUS = per(g.cpu), per(g.readCPU)
	}
	lv.gathered = gathered{}
}
