package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/target"
	"assay/internal/kit/target/openai"
)

// server is a server with OpenAI's API and habits of its own.
type server struct {
	refuses []string // fields that it answers with status 400, naming the field or not
	unnamed bool
	stream  func(body map[string]json.RawMessage) string // what it streams
	asked   []string                                     // the fields of each request
}

func (s *server) start(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
	})
	mux.HandleFunc("POST "+target.ChatPath, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		var body map[string]json.RawMessage
		if err := json.Unmarshal(data, &body); err != nil {
			t.Error(err)
		}
		s.asked = append(s.asked, strings.Join(slices.Sorted(maps.Keys(body)), " "))
		for _, name := range s.refuses {
			outer, inner, nested := strings.Cut(name, ".")
			if _, ok := body[outer]; ok && (!nested || strings.Contains(string(body[outer]), inner)) {
				w.WriteHeader(http.StatusBadRequest)
				if s.unnamed {
					fmt.Fprint(w, `{"error":{"message":"extra inputs are not permitted"}}`)
				} else {
					fmt.Fprintf(w, `{"error":{"message":"unknown field %s"}}`, name[strings.LastIndexByte(name, '.')+1:])
				}
				return
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, s.stream(body))
	})
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h.URL
}

func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func constant(s string) func(map[string]json.RawMessage) string {
	return func(map[string]json.RawMessage) string { return s }
}

const (
	roleFrame   = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	textFrame   = `{"choices":[{"index":0,"delta":{"content":" one"},"finish_reason":null}]}`
	finishFrame = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	usageFrame  = `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":8}}`
)

// What servers of several kinds show in their first stream.
func TestLearn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server server
		found  map[string]string // of what was found, these
		body   string            // optional fields of later requests
		absent string            // a field that they must not have
	}{
		{
			"plain",
			server{stream: constant(events(roleFrame, textFrame, finishFrame, usageFrame, "[DONE]"))},
			map[string]string{
				"role": "in a frame without text", "reasoning": "none came", "usage": "in a frame of its own", "terminator": "[DONE]", "length": "8 of 8 tokens",
				"finish_reason": "length", "token_ids": "none came", "running_count": "none came", "timings": "none came", "comments": "0",
				"left_out.return_token_ids":                      "taken, but no token ids came",
				"left_out.stream_options.continuous_usage_stats": "taken, but no running count came",
			},
			"ignore_eos", "return_token_ids",
		},
		{
			"a running count",
			server{stream: constant(events(
				`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning":"Hm"}}],"usage":{"prompt_tokens":12,"completion_tokens":1}}`,
				`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning":" so"}}],"usage":{"prompt_tokens":12,"completion_tokens":2}}`,
				`{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":"length"}],"usage":{"prompt_tokens":12,"completion_tokens":8}}`,
				`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":8},"metrics":{"generation_time_ms":5}}`, "[DONE]",
			))},
			map[string]string{
				"role": "in every frame", "reasoning": "reasoning", "usage": "with every frame", "running_count": "with each frame of text",
				"metrics": "an object with generation_time_ms", "left_out.return_token_ids": "taken, but no token ids came",
			},
			"continuous_usage_stats", "return_token_ids",
		},
		{
			"token ids, no end",
			server{stream: constant(": ping\n\n" + events(
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":"one"},"token_ids":[5]}]}`,
				`{"choices":[{"index":0,"delta":{"content":" two"},"token_ids":[6,7]}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`,
			))},
			map[string]string{
				"role": "with the first text", "usage": "in the frame with finish_reason", "token_ids": "3 ids came", "terminator": "none", "comments": "1",
				"length": "3 of 8 tokens", "finish_reason": "stop",
			},
			"return_token_ids", "continuous_usage_stats",
		},
		{
			"refuses by name",
			server{refuses: []string{"return_token_ids", "ignore_eos"}, stream: constant(events(textFrame, finishFrame, usageFrame, "[DONE]"))},
			map[string]string{"role": "never", "left_out.ignore_eos": "refused: unknown field ignore_eos", "left_out.return_token_ids": "refused: unknown field return_token_ids"},
			"include_usage", "ignore_eos",
		},
		{
			"refuses without a name",
			server{refuses: []string{"stream_options.continuous_usage_stats"}, unnamed: true, stream: constant(events(textFrame, finishFrame, usageFrame, "[DONE]"))},
			map[string]string{"left_out.stream_options.continuous_usage_stats": "refused: extra inputs are not permitted"},
			"include_usage", "continuous_usage_stats",
		},
		{
			"other name for the limit",
			server{refuses: []string{"max_tokens"}, stream: constant(events(textFrame, finishFrame, usageFrame, "[DONE]"))},
			map[string]string{"limit": "max_completion_tokens"},
			"max_completion_tokens", "max_tokens",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := tc.server.start(t)
			if tc.server.refuses != nil && tc.server.refuses[0] == "max_tokens" {
				url = strictAboutLimit(t, tc.server.stream)
			}
			tg, err := target.Attach(t.Context(), url, target.Options{Adapters: []target.Adapter{openai.Adapter{}}})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tc.found {
				if got := tg.Identity.Found[name]; got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			body, err := tg.Body(target.Ask{Prompt: "x", MaxTokens: 4, IgnoreEOS: true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(body), tc.body) || strings.Contains(string(body), `"`+tc.absent+`"`) {
				t.Errorf("request: %s", body)
			}
		})
	}
}

// strictAboutLimit wants the newer name of max_tokens.
func strictAboutLimit(t *testing.T, stream func(map[string]json.RawMessage) string) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`) })
	mux.HandleFunc("POST "+target.ChatPath, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if strings.Contains(string(data), `"max_tokens"`) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, stream(nil))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A server that can't be used is told of, in its own words.
func TestLearnFails(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		server     server
	}{
		{"error in the stream", "status 200, and an error in the stream: out of memory", server{stream: constant(events(roleFrame, `{"error":{"message":"out of memory"}}`, "[DONE]"))}},
		{"refuses everything", "unknown field messages", server{refuses: []string{"messages"}, stream: constant("")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := target.Attach(t.Context(), tc.server.start(t), target.Options{Adapters: []target.Adapter{openai.Adapter{}}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestBlock(t *testing.T) {
	got := openai.Adapter{}.Block(&target.Account{Found: map[string]string{"role": "never"}})
	want := &target.Block{Name: "openai", Fields: &openai.Block{Found: map[string]string{"role": "never"}}, Why: map[string]string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if got := (openai.Adapter{}).Block(&target.Account{}); got.Why["found"] == "" {
		t.Error("no reason for what is null")
	}
}
