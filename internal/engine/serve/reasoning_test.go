package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// thinkingTemplate begins reasoning, unless it is told not to. It has the length
// of the built-in model's template, whose place it takes.
const thinkingTemplate = `{% for m in messages %}<|im_start|>{{m.role}}
{{m.content}}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking == false %}<think></think>{% else %}<think>{% endif %}`

// thinkingServer runs the built-in model with thinkingTemplate.
func thinkingServer(t *testing.T) string {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	old, err := f.String("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	if len(thinkingTemplate) > len(old) || bytes.Count(seedling.GGUF, []byte(old)) != 1 {
		t.Fatalf("the templates have %d and %d bytes", len(thinkingTemplate), len(old))
	}
	padded := "{#" + strings.Repeat("-", len(old)-len(thinkingTemplate)-4) + "#}" + thinkingTemplate
	if f, err = gguf.Parse("thinking", bytes.Replace(seedling.GGUF, []byte(old), []byte(padded), 1)); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Load(context.Background(), f, engine.Options{Threads: 1, Context: 512, Slots: 1}, func(done, total int64) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := New(Config{ModelPath: "thinking", Log: &lockedBuffer{}})
	s.SetEngine(e)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL + "/v1/chat/completions"
}

// Reasoning that the prompt has begun goes to reasoning_content, whole and
// streamed; a form binds what comes behind it.
func TestReasoning(t *testing.T) {
	alone(t)
	url := thinkingServer(t)
	schema := `"json_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`
	for _, c := range []struct {
		name, more     string
		thinks, inText bool
	}{
		{"free", `"max_tokens":12`, true, false},
		{"told not to", `"max_tokens":12,"chat_template_kwargs":{"enable_thinking":false}`, false, false},
		{"by its effort", `"max_tokens":12,"reasoning_effort":"none"`, false, false},
		{"left in the text", `"max_tokens":60,"reasoning_format":"none",` + schema, false, true},
		{"then a form", `"max_tokens":60,` + schema, true, false},
		{"a form only", `"max_tokens":60,"reasoning_effort":"none",` + schema, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"messages":[{"role":"user","content":"Alice"}],"temperature":1,"seed":3,` + c.more
			m := ask[received](t, url, body+"}").Choices[0].Message
			frames, done := stream(t, url, body+`,"stream":true,"return_token_ids":true}`)
			content, reasoning, tokens := "", "", 0
			for _, f := range frames {
				content += f.content()
				reasoning += f.Choices[0].Delta.Reasoning
				tokens += len(f.Choices[0].TokenIDs)
			}
			if !done || content != m.Content || reasoning != m.Reasoning {
				t.Errorf("streamed %q and %q, whole %q and %q", reasoning, content, m.Reasoning, m.Content)
			}
			if n := frames[len(frames)-1].Timings.PredictedN; tokens != n {
				t.Errorf("the frames carry %d tokens of %d", tokens, n)
			}
			if (m.Reasoning != "") != c.thinks || strings.Contains(m.Content, "</think>") != c.inText {
				t.Errorf("reasoning %q, content %q", m.Reasoning, m.Content)
			}
			if strings.Contains(c.more, "json_schema") && !c.inText {
				var v struct{ A *int }
				if err := json.Unmarshal([]byte(m.Content), &v); err != nil || v.A == nil {
					t.Errorf("%q does not have the form: %v", m.Content, err)
				}
			}
		})
	}
	_, _, answer := do(t, url, `{"messages":[{"role":"user","content":"a"}],"reasoning_format":"deep"}`)
	if !strings.Contains(answer, "reasoning_format: ") {
		t.Error(answer)
	}
}
