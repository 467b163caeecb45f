package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
)

// Run starts the server, measures all levels, and plays all hostile streams.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	c, err := newClock()
	if err != nil {
		return nil, err
	}
	rep := &Report{
		Rule:    figure.Rule,
		Options: ReportOptions{o.Window.Seconds(), ms(int64(o.TTFT)), o.Runs, o.Limits},
		Load1:   load1(), Crossed: []string{}, Late: []string{},
	}
	dir, err := os.MkdirTemp("", "assay-selftest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tg, err := target.Start(ctx, target.Launch{
		Argv: o.Argv, Env: o.Env, Log: filepath.Join(dir, "server.log"), Wait: 30 * time.Second,
	}, target.Options{Adapters: adapters.All, Adapter: "openai"})
	if err != nil {
		return nil, fmt.Errorf("the self-test's server: %w", err)
	}
	m := &meter{o: &o, clock: c, url: tg.URL + target.ChatPath, header: tg.Header()}
	err = m.all(ctx, rep)
	if how, ended := tg.Process.Ended(); ended {
		return nil, errors.Join(fmt.Errorf("the self-test's server ended: %s", how), err)
	}
	if err := errors.Join(err, tg.Process.Stop(5*time.Second)); err != nil {
		return nil, err
	}
	rep.judge()
	return rep, nil
}

// meter is the client.
type meter struct {
	o      *Options
	clock  clock
	url    string
	header http.Header
}

func (m *meter) all(ctx context.Context, rep *Report) error {
	var err error
	if rep.Hostile, err = m.hostile(ctx); err != nil {
		return err
	}
	for _, l := range m.o.Levels {
		for r := range l.rounds(m.o.Runs) {
			m.tell(fmt.Sprintf("%d stream(s) of %g tokens a second, window %d of %d", l.Streams, l.TokS, r+1, l.rounds(m.o.Runs)))
			if err := m.round(ctx, rep, l); err != nil {
				return err
			}
		}
	}
	for i := range rep.Levels {
		rep.Levels[i].sum()
	}
	return nil
}

func (m *meter) tell(line string) {
	if m.o.Tell != nil {
		m.o.Tell(line)
	}
}

// taken is one stream as it was received.
type taken struct {
	rec    *stream.Recording
	err    error
	ofWall int64 // from the wall clock to the shared one, before the request
	drift  int64 // by how much that had changed after it
}

// request asks for a schedule.
func (m *meter) request(s schedule) (stream.Request, error) {
	body, err := json.Marshal(map[string]any{
		"model": s.model(), "max_tokens": s.tokens, "stream": true,
		"messages": []map[string]string{{"role": "user", "content": "Play."}},
	})
	return stream.Request{URL: m.url, Header: m.header, Body: body}, err
}

// take gets one stream.
func (m *meter) take(ctx context.Context, req stream.Request) taken {
	t := taken{ofWall: m.clock.ofWall()}
	t.rec, t.err = stream.Do(ctx, stream.Options{DialTimeout: 30 * time.Second}, req)
	t.drift = m.clock.ofWall() - t.ofWall
	return t
}

// round runs all streams of a level at once and adds what they show.
func (m *meter) round(ctx context.Context, rep *Report, l Level) error {
	s := schedule{
		ttft: m.o.TTFT, gap: time.Duration(1e9 / l.TokS),
		tokens: l.tokens(m.o.Window), perFrame: 1, play: "plain",
	}
	req, err := m.request(s)
	if err != nil {
		return err
	}
	// A server that hangs is not waited for.
	ctx, cancel := context.WithTimeout(ctx, 3*(m.o.Window+m.o.TTFT)+30*time.Second)
	defer cancel()
	runtime.GC() // what earlier levels left behind is not this one's burden
	streams := make([]taken, l.Streams)
	before, err := cpuTime()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() { streams[i] = m.take(ctx, req) })
	}
	all.Wait()
	received, err := cpuTime()
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return err
	}
	lv := rep.level(l, s.tokens)
	for i := range streams {
		lv.add(&streams[i], s.tokens)
		streams[i].rec = nil
	}
	done, err := cpuTime()
	if err != nil {
		return err
	}
	lv.cpu += received - before
	lv.readCPU += done - received
	return nil
}

// run is what one stream shows beside the server's stamps.
type run struct {
	completion *stream.Completion
	verdict    count.Verdict
	figures    *figure.Figures
	t0         int64    // on the shared clock
	stamps     []stamps // of the token frames
	err        error    // it can't be held against them
}

// stamps are what the server put into a frame, on the shared clock.
type stamps struct {
	Arrived int64 `json:"arrived_ns"`
	Due     int64 `json:"due_ns"`
	Sent    int64 `json:"sent_ns"`
	at      int64 // ours
}

// read computes the figures of a stream as a run does, and finds the stamps.
func (t *taken) read(asked int) run {
	failed := ""
	if t.err != nil {
		failed = t.err.Error()
	}
	frames, err := t.frames()
	if err != nil && failed == "" {
		failed = err.Error()
	}
	c := stream.Decode(frames)
	in := figure.Read(c)
	in.StreamErr, in.Asked = failed, asked
	in.Count, in.TokenEnds = counted(c)
	out := run{completion: c, verdict: in.Count.Verdict, figures: figure.Compute(in)}
	if t.rec == nil {
		out.err = t.err
		return out
	}
	if t.drift < -int64(time.Millisecond) || t.drift > int64(time.Millisecond) {
		out.err = fmt.Errorf("the wall clock was set by %.3f ms during the run", ms(t.drift))
		return out
	}
	out.t0 = t.rec.T0 + t.ofWall
	for i := range c.Tokens {
		st := stamps{at: out.t0 + c.Tokens[i].At}
		if err := json.Unmarshal([]byte(frames[c.Tokens[i].Frame].Data), &st); err != nil || st.Sent == 0 {
			out.err = fmt.Errorf("frame %d has no stamp", c.Tokens[i].Frame)
			return out
		}
		out.stamps = append(out.stamps, st)
	}
	return out
}

func (t *taken) frames() ([]stream.Frame, error) {
	if t.rec == nil {
		return nil, nil
	}
	kind, err := t.rec.KindOf()
	if err != nil {
		return nil, err
	}
	return stream.Frames(t.rec, kind)
}

// counted judges the count of tokens, with the text cut by the server's own rule
// as the second source.
func counted(c *stream.Completion) (count.Result, []int) {
	const name = "text by the self-test's words"
	sources := count.FromStream(c)
	if ok, why := c.WholeText(); !ok {
		return count.Judge(append(sources, count.Read(name, count.Text, nil, why))), nil
	}
	ends := tokenEnds(c.Joined)
	n := len(ends)
	return count.Judge(append(sources, count.Read(name, count.Text, &n, ""))), ends
}

// trueRate is the decode rate by the server's stamps; tokens are those of the
// stream and of its first token frame.
func trueRate(st []stamps, tokens, first int) float64 {
	return float64(tokens-first) / (float64(st[len(st)-1].Sent-st[0].Sent) / 1e9)
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// offPct is how far v lies from want, in percent, without sign.
func offPct(v, want float64) float64 { return 100 * math.Abs(v/want-1) }
