package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/kit/row"
)

// messages are what a request said, its texts cut to their first words.
func messages(q map[string]any) string {
	var out []string
	for _, m := range q["messages"].([]any) {
		m := m.(map[string]any)
		text := m["content"].(string)
		out = append(out, fmt.Sprintf("%s(%s)", m["role"], strings.Join(strings.Fields(text)[:2], " ")))
	}
	return strings.Join(out, " ")
}

func content(q map[string]any, i int) string {
	return q["messages"].([]any)[i].(map[string]any)["content"].(string)
}

// Each turn of a conversation holds all that was said before, and adds a text of its
// own. Only the first begins with a nonce.
func TestConversation(t *testing.T) {
	c := started(t, `
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {REQUESTS: $DIR/asked}}]
contexts: [64]
max_tokens: 20
repeats: 1
turns: 3
turn_tokens: 16
`)
	if sum, err := Run(t.Context(), c); err != nil || sum.OK != 6 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	qs := asked(t, &c, "asked")
	third := qs[5]
	got := messages(third)
	if strings.Count(got, "user(Ticket") != 1 || !strings.HasPrefix(got, "user(Ticket ") || strings.Count(got, "assistant(was a)") != 2 || strings.Count(got, "user(") != 3 {
		t.Errorf("turn 3 says %s", got)
	}
	if content(third, 0) != content(qs[3], 0) || content(third, 2) != content(qs[4], 2) {
		t.Error("turn 3 does not hold what was said before")
	}
	if r := all[5]; r.Cell != "a/64/turn-3" || *r.SliceSHA256 == *all[4].SliceSHA256 || *r.Nonce != *all[3].Nonce || !strings.HasPrefix(content(third, 0), *r.Nonce) {
		t.Errorf("row of turn 3: cell %s, nonce %s", r.Cell, *r.Nonce)
	}
	if n := *all[5].PromptTokensExpected; n <= *all[4].PromptTokensExpected+16 {
		t.Errorf("turn 3 has %d prompt tokens by our count, turn 2 %d", n, *all[4].PromptTokensExpected)
	}
}

// A turn that fails ends its conversation: the later ones have rows that say so, and
// are had again with it.
func TestTurnThatFails(t *testing.T) {
	c := started(t, `
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {REFUSE: "2"}}]
contexts: [64]
max_tokens: 20
warm_ups: 0
repeats: 2
turns: 3
turn_tokens: 16
`)
	sum, err := Run(t.Context(), c)
	if err != nil || sum.OK != 4 || sum.Failed != 2 || sum.Left != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := rows(t, c.Dir)
	if r := all[1]; *r.FailKind != "stream-error" || !strings.Contains(*r.Error, "not this one") {
		t.Errorf("turn 2: %s, %s", *r.FailKind, *r.Error)
	}
	if r := all[2]; *r.FailKind != "turn-failed" || !strings.Contains(*r.Error, "an earlier turn of the conversation failed: ") || r.Evidence.Dir == nil {
		t.Errorf("turn 3: %s, %s", *r.FailKind, *r.Error)
	}
	c.Resume = true
	c.Plan.Arms[0].Env["REFUSE"] = "2"
	if sum, err = Run(t.Context(), c); err != nil || sum.Failed != 2 {
		t.Fatalf("%+v, %v", sum, err) // the same request fails once more
	}
	if got := ids(rows(t, c.Dir))[6]; got != "a/measure/a2/run-001" {
		t.Errorf("the conversation begins again as %s", got)
	}
	clean(t, c.Dir)
}

// A file that is read whole is a cell of its own, named after it.
func TestOwnPrompts(t *testing.T) {
	dir := t.TempDir()
	text := "Why is the sky blue?\nAnd the sea?\n"
	for _, name := range []string{"sky.txt", "Sea 2.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := started(t, fmt.Sprintf(`
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {REQUESTS: $DIR/asked}}]
prompts: [%s/sky.txt, "%s/Sea 2.md"]
max_tokens: 20
repeats: 1
`, dir, dir))
	if sum, err := Run(t.Context(), c); err != nil || sum.OK != 4 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	if r := all[3]; r.Cell != "a/Sea-2" || r.Ctx != "Sea-2" || r.Requested.Ctx != nil || r.Why["requested.ctx"] != "the prompt is a file, read whole" {
		t.Errorf("cell %s, ctx %s, requested %v", r.Cell, r.Ctx, r.Requested.Ctx)
	}
	nonce := *all[1].Nonce
	if got := content(asked(t, &c, "asked")[1], 0); got != nonce+"\n\n"+text {
		t.Errorf("asked %q", got)
	}
}

// With a warm cache the measured runs repeat the prompt of their warm-up, within a
// start. Their time to the first token is shown, their prompt rate is not.
func TestWarmCache(t *testing.T) {
	c := started(t, `
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {REQUESTS: $DIR/asked}}]
contexts: [64]
max_tokens: 40
repeats: 4
blocks: 2
cache: warm
`)
	if sum, err := Run(t.Context(), c); err != nil || sum.OK != 6 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	var nonces []string
	for i, r := range all {
		nonces = append(nonces, *r.Nonce)
		if *r.Requested.Cache != "warm" {
			t.Errorf("row %d asked for a %s cache", i, *r.Requested.Cache)
		}
		if r.Phase == row.Warmup {
			continue
		}
		if *r.CachedTokens != 60 || r.PromptTokSClient != nil || r.CacheFlag == nil {
			t.Errorf("row %d: %d cached, prompt rate %v", i, *r.CachedTokens, r.PromptTokSClient)
		}
		for _, w := range r.Withheld {
			if w.Figure == "ttft_ms" && strings.Contains(strings.Join(w.Codes, " "), "cached-prompt") {
				t.Errorf("row %d: TTFT is withheld: %s", i, w.Why)
			}
		}
		if note := r.Notes["ttft_ms"]; r.TTFTMS != nil && note != "60 of 80 prompt tokens came from a cache" {
			t.Errorf("row %d: TTFT is marked %q", i, note)
		}
	}
	a, b := nonces[0], nonces[3]
	if got, want := fmt.Sprint(nonces), fmt.Sprint([]string{a, a, a, b, b, b}); got != want || a == b {
		t.Errorf("nonces %s", got)
	}
}

// The first warm-up at a size says how many tokens take min_seconds, for all arms and
// for all later runs, those of another try too.
func TestMinSeconds(t *testing.T) {
	c := started(t, two+"warm_ups: 1\nmin_seconds: 0.2\ntokens_at_most: 60\norder: interleaved\n")
	ctx, finish := t.Context(), make(chan struct{})
	c.Finish = finish
	n := 0
	c.Progress = func(e Event) {
		if e.Kind == RunEnded {
			if n++; n == 4 {
				close(finish)
			}
		}
	}
	if _, err := Run(ctx, c); err == nil {
		t.Fatal("it was not interrupted")
	}
	c.Finish, c.Progress, c.Resume = nil, nil, true
	if sum, err := Run(ctx, c); err != nil || sum.Left != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	rate := all[0].DecodeTokS
	if rate == nil {
		rate = all[0].DecodeTokSWithheld
	}
	if rate == nil || *rate < 120 { // 20 tokens take 1 ms each
		t.Skipf("the machine is too busy: a rate of %v", rate)
	}
	for i, r := range all {
		want := c.Plan.TokensFor(*rate)
		if i == 0 {
			want = 20
		}
		if *r.Requested.MaxTokens != want {
			t.Errorf("row %d, %s, asks for %d tokens, want %d", i, r.RowID, *r.Requested.MaxTokens, want)
		}
	}
}

// What the plan says of sampling and reasoning is in the request, under the names
// that the server has for it, and in the row under one name.
func TestSamplingAndReasoning(t *testing.T) {
	c := started(t, `
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {REQUESTS: $DIR/asked}}]
contexts: [64]
max_tokens: 20
warm_ups: 0
repeats: 1
reasoning: off
sampling: {temperature: 0.5, seed: 7, top_k: 40, top_p: 0.9, min_p: 0.05, repeat_penalty: 1.1, presence_penalty: 0.2, frequency_penalty: -0.2}
`)
	if sum, err := Run(t.Context(), c); err != nil || sum.OK != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	q := asked(t, &c, "asked")[0]
	for name, want := range map[string]any{
		"temperature": 0.5, "seed": 7.0, "top_k": 40.0, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1,
		"presence_penalty": 0.2, "frequency_penalty": -0.2, "ignore_eos": true,
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
	} {
		if fmt.Sprint(q[name]) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, q[name], want)
		}
	}
	r := whole(t, &c)[0].Requested
	if s := r.Sampling; *s.Temperature != 0.5 || *s.Seed != 7 || *s.TopK != 40 || *s.TopP != 0.9 || *s.MinP != 0.05 || *s.RepeatPenalty != 1.1 || *s.PresencePenalty != 0.2 || *s.FrequencyPenalty != -0.2 || *r.Reasoning != "off" {
		t.Errorf("the row says %+v, reasoning %s", s, *r.Reasoning)
	}
}
