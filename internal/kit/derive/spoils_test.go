package derive

import (
	"strings"
	"testing"

	"assay/internal/kit/row"
)

func reasonsOf(withheld []row.Withheld) []string {
	var out []string
	for _, w := range withheld {
		out = append(out, w.Codes...)
	}
	return out
}

// A server that counts fewer prompt tokens than the prompt's text has did not read
// all of it. A template may make the count larger or smaller by a little, and where
// a cache may answer a count says nothing.
func TestPromptCut(t *testing.T) {
	for name, c := range map[string]struct {
		tokens string // by the server; ours are 88, of which 64 are the slice's
		change func(f *Facts)
		cut    bool
	}{
		"all":                      {"88", nil, false},
		"a shorter template":       {"64", nil, false},
		"less than the slice":      {"63", nil, true},
		"no count":                 {"null", nil, false},
		"no count of ours":         {"3", func(f *Facts) { f.Prompt.Total, f.Prompt.Why = nil, "no tokenizer" }, false},
		"a warm cache":             {"3", func(f *Facts) { f.Plan.Cache = "warm" }, false},
		"a file, within template":  {"88", func(f *Facts) { f.Plan.Ctx, f.Plan.File, f.Prompt.Total = 0, "essay", new(300) }, false},
		"a file, more than that":   {"88", func(f *Facts) { f.Plan.Ctx, f.Plan.File, f.Prompt.Total = 0, "essay", new(400) }, true},
		"a context that is larger": {"88", func(f *Facts) { f.Plan.Ctx = 500 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			rec, f := sample()
			rec.Recording = timed(words, finish, strings.Replace(usage, `"prompt_tokens":88`, `"prompt_tokens":`+c.tokens, 1), "[DONE]")
			if c.change != nil {
				c.change(f)
			}
			r := derived(t, rec, f)
			cut := strings.Contains(strings.Join(reasonsOf(r.Withheld), " "), "prompt-cut")
			if cut != c.cut || (r.DecodeTokS == nil) != c.cut {
				t.Errorf("cut %v, decode %v: %+v", cut, r.DecodeTokS, r.Withheld)
			}
		})
	}
}

// Ollama's requests have their own form; a row tells them like any other.
func TestRequestOfOllama(t *testing.T) {
	q, err := readRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"think":"high","options":{"num_predict":48,"num_ctx":4096,"temperature":0.5,"seed":7,"top_k":3,"top_p":0.5,"min_p":0.1,"repeat_penalty":1.1,"presence_penalty":0.2,"frequency_penalty":0.3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if *q.MaxTokens != 48 || *q.Temperature != 0.5 || *q.Seed != 7 || *q.TopK != 3 || *q.TopP != 0.5 || *q.MinP != 0.1 || *q.RepeatPenalty != 1.1 || *q.PresencePenalty != 0.2 || *q.FrequencyPenalty != 0.3 || *q.Reasoning != "high" || q.Messages[0].Content != "Hi" {
		t.Errorf("%+v", q)
	}
	for think, want := range map[string]string{"true": "on", "false": "off"} {
		if q, err := readRequest([]byte(`{"think":` + think + `,"options":{}}`)); err != nil || *q.Reasoning != want || q.MaxTokens != nil {
			t.Errorf("think %s: %+v, %v", think, q, err)
		}
	}
}
