package serve

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// newDraftServer is a server whose engine drafts, beside one whose engine does not.
func newDraftServer(t *testing.T) (drafting, plain testServer) {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Load(context.Background(), f, engine.Options{Threads: 1, Context: 2048, Drafts: 8, DraftMinP: 0.1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	drafting = newTestServer(t, Config{})
	drafting.SetEngine(e)
	return drafting, newTestServer(t, Config{})
}

// What the built-in model repeats for ever.
const repeats = `"prompt":"The sun was shining brightly, and the sun was shining brightly, and the sun was shining brightly, and","temperature":0`

// Timings, log and /metrics tell of the same drafts, and of as many tokens as
// rounds and accepted drafts make; /props and /slots tell that there are some.
func TestDraftsAreToldOf(t *testing.T) {
	alone(t)
	s, plain := newDraftServer(t)
	offered, accepted, rounds := 0.0, 0.0, 0.0
	for i, body := range []string{
		`{` + repeats + `,"max_tokens":200,"ignore_eos":true,"stream":true,"timings_per_token":true}`,
		`{"prompt":"Once upon a time","seed":3,"max_tokens":64,"ignore_eos":true,"stream":true}`,
	} {
		frames, _ := stream(t, s.url+"/v1/completions", body)
		for _, f := range frames {
			if tm := f.Timings; tm != nil && tm.DraftN != nil && (*tm.DraftNAccepted > *tm.DraftN || tm.PredictedN != 1+*tm.Rounds+*tm.DraftNAccepted) {
				t.Fatalf("%d of %d drafts accepted in %d rounds, and %d tokens", *tm.DraftNAccepted, *tm.DraftN, *tm.Rounds, tm.PredictedN)
			}
		}
		last := frames[len(frames)-1].Timings
		log := strings.Split(strings.TrimSpace(s.log.String()), "\n")[i]
		m := regexp.MustCompile(`, drafts accepted (\d+) of (\d+) in (\d+) rounds, finish length$`).FindStringSubmatch(log)
		if last.DraftN == nil {
			if i == 0 {
				t.Fatal("nothing was drafted of a text that repeats itself")
			}
			if m != nil {
				t.Errorf("no drafts in the timings, but in the log: %s", log)
			}
			rounds += float64(last.PredictedN - 1)
		} else {
			if want := fmt.Sprint([]int{*last.DraftNAccepted, *last.DraftN, *last.Rounds}); m == nil || fmt.Sprint(numbers(m[1:])) != want {
				t.Errorf("the log has %q, the timings %s", log, want)
			}
			offered, accepted, rounds = offered+float64(*last.DraftN), accepted+float64(*last.DraftNAccepted), rounds+float64(*last.Rounds)
		}
		values := readMetrics(t, s.url)
		for name, want := range map[string]float64{
			`assay_drafts_offered_total{drafter="suffix"}`: offered, `assay_drafts_accepted_total{drafter="suffix"}`: accepted, "assay_rounds_total": rounds,
		} {
			if got, ok := values[name]; !ok || got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	p := ask[props](t, s.url+"/props", "").Defaults.Params
	if p.Drafter != "suffix" || p.Drafts != 8 || math.Abs(float64(p.DraftMinP)-0.1) > 1e-6 || !ask[[]slot](t, s.url+"/slots", "")[0].Speculates {
		t.Errorf("props %+v", p)
	}
	if p := ask[props](t, plain.url+"/props", "").Defaults.Params; p.Drafter != "none" || p.Drafts != 0 || ask[[]slot](t, plain.url+"/slots", "")[0].Speculates {
		t.Errorf("without drafts: props %+v", p)
	}
	for name := range readMetrics(t, plain.url) {
		if strings.HasPrefix(name, "assay_drafts") {
			t.Errorf("without drafts: %s", name)
		}
	}
}

func numbers(texts []string) []int {
	out := make([]int, len(texts))
	for i, s := range texts {
		out[i], _ = strconv.Atoi(s)
	}
	return out
}

// An answer is the same with and without drafts, however it ends: by a form, a stop
// string within a window, an end token, the limit, or the end of the context.
func TestDraftsChangeNoAnswer(t *testing.T) {
	alone(t)
	s, plain := newDraftServer(t)
	accepted := 0
	for _, body := range []string{
		repeats + `,"max_tokens":150,"logprobs":3`,
		repeats + `,"max_tokens":33`,
		repeats + `,"max_tokens":150,"stop":["brightly, and the sun was shining brightly, and the sun was bright"]`,
		repeats + `,"max_tokens":150,"stop":["ight"]`,
		repeats + `,"max_tokens":90,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{"enum":["the sun was shining","the moon"]},"minItems":4,"maxItems":12}}}`,
		repeats + `,"max_tokens":40,"response_format":{"type":"json_object"}`,
		`"prompt":"The sun was bright. The sun was bright. The sun was","seed":5,"temperature":0.4,"max_tokens":120,"repeat_penalty":1.05,"repeat_last_n":8`,
		`"prompt":"<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n","temperature":0,"max_tokens":200`,
		`"prompt":"<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n","temperature":0.3,"seed":11,"max_tokens":200`,
		repeats + `,"max_tokens":-1,"ignore_eos":true`,
	} {
		body = `{` + body + `,"return_token_ids":true}`
		got, want := ask[received](t, s.url+"/v1/completions", body), ask[received](t, plain.url+"/v1/completions", body)
		if diff := cmp.Diff(want.Choices, got.Choices); diff != "" {
			t.Errorf("%s: without drafts -, with +:\n%s", body, diff)
		}
		if diff := cmp.Diff(want.Usage, got.Usage); diff != "" {
			t.Errorf("%s: without drafts -, with +:\n%s", body, diff)
		}
		if n := got.Timings.DraftNAccepted; n != nil {
			accepted += *n
		}
	}
	if accepted == 0 {
		t.Error("no draft was accepted: the test proves nothing")
	}
}

// A client that hangs up in the middle of a window frees its slot, and the next
// one's answer is what it would have been.
func TestHangUpWithDrafts(t *testing.T) {
	alone(t)
	s, plain := newDraftServer(t)
	const body = `{` + repeats + `,"max_tokens":60,"ignore_eos":true}`
	want := ask[received](t, plain.url+"/v1/completions", body)
	for range 3 {
		_, resp := open(t, s.url)
		time.Sleep(20 * time.Millisecond)
		resp.Body.Close()
		eventually(t, "none in work", func() bool { return s.metrics.inFlight() == 0 })
		if got := ask[received](t, s.url+"/v1/completions", body); got.Choices[0].Text != want.Choices[0].Text {
			t.Errorf("%q, want %q", got.Choices[0].Text, want.Choices[0].Text)
		}
	}
	values := readMetrics(t, s.url)
	if g, r, a := values["assay_tokens_predicted_total"], values["assay_rounds_total"], values[`assay_drafts_accepted_total{drafter="suffix"}`]; g != 6+r+a {
		t.Errorf("%g tokens of 6 requests, but %g rounds and %g accepted drafts", g, r, a)
	}
}
