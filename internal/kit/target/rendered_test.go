package target_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
)

// events answers with a stream.
func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
	}
}

// The tokens of a rendered prompt are asked of whoever tells them.
func TestChatTokens(t *testing.T) {
	template := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"prompt":"<s> user: one two"}`) }
	tokenize := func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Content string
			Special bool `json:"parse_special"`
		}
		data, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(data, &q); err != nil || !q.Special {
			t.Errorf("a prompt's own marks must be read as such: %s", data)
		}
		ids, _ := json.Marshal(map[string]any{"tokens": make([]int, len(strings.Fields(q.Content)))})
		_, _ = w.Write(ids)
	}
	for _, c := range []struct {
		name, how, err string
		want           int
		routes         map[string]http.HandlerFunc
	}{
		{"the endpoint", "the server's /v1/chat/completions/input_tokens", "", 17, map[string]http.HandlerFunc{
			"POST /v1/chat/completions/input_tokens": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"input_tokens":17}`) },
		}},
		{"template and tokenizer", "the server's template and tokenizer", "", 4, map[string]http.HandlerFunc{"POST /apply-template": template, "POST /tokenize": tokenize}},
		{"neither", "", "POST /apply-template: status 404", 0, nil},
		{"nonsense", "", "the answer has no input_tokens: {}", 0, map[string]http.HandlerFunc{
			"POST /v1/chat/completions/input_tokens": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tg, err := target.Attach(t.Context(), openAIServer(t, c.routes), target.Options{Adapters: adapters.All, Adapter: "llama-server"})
			if err != nil {
				t.Fatal(err)
			}
			n, how, err := tg.ChatTokens(t.Context(), []byte(`{"messages":[{"role":"user","content":"one two"}]}`))
			if n != c.want || how != c.how || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d, %q, %v; want %d, %q, %q", n, how, err, c.want, c.how, c.err)
			}
		})
	}
}

// A server that tells the length of a prompt only in the usage of a completion.
func TestUsageTokens(t *testing.T) {
	for _, c := range []struct {
		name, err string
		want      int
		frames    []string
	}{
		{"told", "", 23, []string{`{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`, `{"choices":[],"usage":{"prompt_tokens":23,"completion_tokens":1}}`, "[DONE]"}},
		{"not told", "the stream tells no number of prompt tokens", 0, []string{`{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`, "[DONE]"}},
		{"an error", "too long", 0, []string{`{"error":{"message":"too long"}}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tg, err := target.Attach(t.Context(), openAIServer(t, map[string]http.HandlerFunc{
				"POST " + target.ChatPath: func(w http.ResponseWriter, r *http.Request) {
					if data, _ := io.ReadAll(r.Body); !strings.Contains(string(data), `"max_tokens":1,`) {
						t.Errorf("request: %s", data)
					}
					events(w, c.frames...)
				},
			}), target.Options{Adapters: adapters.All, Adapter: "llama-server"})
			if err != nil {
				t.Fatal(err)
			}
			n, err := tg.UsageTokens(t.Context(), target.Ask{Prompt: "x", MaxTokens: 128})
			if n != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d, %v; want %d, %q", n, err, c.want, c.err)
			}
		})
	}
}

// A llama-server without a model is ready at once and measures nothing.
func TestRouterIsRefused(t *testing.T) {
	for _, c := range []struct{ models, model, want string }{
		{`{"data":[],"object":"list"}`, "", "as a router without a model of its own (it was started without -m; it lists none): start it with -m FILE"},
		{`{"data":[{"id":"a"},{"id":"b"}]}`, "", "it lists a, b"},
		{`{"data":[{"id":"a"},{"id":"b"}]}`, "b", "a model runs in a process of its own"},
	} {
		url := serve(t, map[string]string{"/v1/models": c.models, "/props": `{"role":"router","max_instances":4}`})
		_, err := target.Attach(t.Context(), url, target.Options{Adapters: adapters.All, Model: c.model})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
