package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Same requests, same answers as llama-server: exactly where no figure or name
// of the server is in them.
func TestAnswersEqualLlamaServers(t *testing.T) {
	s := newTestServer(t, Config{})
	for name, path := range map[string]string{
		"health-ready":   "/health",
		"slots":          "/slots",
		"tokenize":       "/tokenize",
		"apply-template": "/apply-template",
	} {
		t.Run(name, func(t *testing.T) {
			body := ""
			if strings.HasPrefix(path, "/tokenize") || strings.HasPrefix(path, "/apply") {
				body = requestOf(t, name, "")
			}
			var got, want any
			_, _, answer := do(t, s.url+path, body)
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%v in %s", err, answer)
			}
			if err := json.Unmarshal([]byte(recorded(t, name)), &want); err != nil {
				t.Fatal(err)
			}
			if name == "slots" { // two slots of 2048 here, one of 8192 there
				want = []any{want.([]any)[0], want.([]any)[0]}
				for i, w := range want.([]any) {
					w := cloneObject(w)
					w["id"], w["n_ctx"] = float64(i), 2048.0
					want.([]any)[i] = w
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-llama-server +assay:\n%s", diff)
			}
		})
	}
}

func cloneObject(v any) map[string]any {
	out := map[string]any{}
	for k, x := range v.(map[string]any) {
		out[k] = x
	}
	return out
}

// Every member that llama-server's answer has, ours has too, of the same JSON
// type, but for those that say what llama-server alone can do.
func TestAnswersHaveLlamaServersShape(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	left := map[string][]string{ // paths, [] for any element
		"models": {"models", "data[].tags", "data[].meta.vocab_type"},
		"props": {
			"media_marker", "ui", "ui_settings", "chat_template_caps", "is_sleeping", "cors_proxy_enabled",
		},
		"error-bad-request": nil, "error-too-long": nil, "chat-nonstream": nil,
	}
	// Samplers that the engine lacks.
	for _, p := range []string{
		"dynatemp_range", "dynatemp_exponent", "top_n_sigma", "xtc_probability", "xtc_threshold", "typical_p", "dry_multiplier", "dry_base",
		"dry_allowed_length", "dry_penalty_last_n", "mirostat", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay", "n_keep",
		"n_discard", "n_probs", "min_keep", "chat_format", "reasoning_format", "reasoning_in_content", "generation_prompt", "samplers",
		"post_sampling_probs", "backend_sampling", "lora",
	} {
		left["props"] = append(left["props"], "default_generation_settings.params."+p)
	}
	for name, path := range map[string]string{
		"models": "/v1/models", "props": "/props", "chat-nonstream": "/v1/chat/completions",
		"error-bad-request": "/v1/chat/completions", "error-too-long": "/v1/chat/completions",
	} {
		t.Run(name, func(t *testing.T) {
			body := ""
			switch name {
			case "error-too-long": // the recording abridges it
				body = fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"stream":true}`, strings.Repeat("word ", 9000))
			case "error-bad-request", "chat-nonstream":
				body = requestOf(t, name, "")
			}
			_, _, answer := do(t, s.url+path, body)
			var got, want any
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%v in %s", err, answer)
			}
			if err := json.Unmarshal([]byte(recorded(t, name)), &want); err != nil {
				t.Fatal(err)
			}
			sameShape(t, "", want, got, left[name])
		})
	}
}

// sameShape reports members of want that got lacks or has of another type.
func sameShape(t *testing.T, path string, want, got any, left []string) {
	t.Helper()
	if slices.Contains(left, strings.TrimPrefix(path, ".")) {
		return
	}
	if g, w := fmt.Sprintf("%T", got), fmt.Sprintf("%T", want); g != w {
		t.Errorf("%s: %s here, %s in llama-server's answer", path, g, w)
		return
	}
	switch want := want.(type) {
	case map[string]any:
		for k, v := range want {
			member := path + "." + k
			g, ok := got.(map[string]any)[k]
			if !ok && !slices.Contains(left, strings.TrimPrefix(member, ".")) {
				t.Errorf("%s: missing", member)
			} else if ok {
				sameShape(t, member, v, g, left)
			}
		}
	case []any:
		if len(want) > 0 && len(got.([]any)) > 0 {
			sameShape(t, path+"[]", want[0], got.([]any)[0], left)
		}
	}
}

// --alias names the model in answers; the file stays in model_path.
func TestAlias(t *testing.T) {
	s := newTestServer(t, Config{Alias: "team/mine", ModelPath: "/models/x.gguf"})
	list := ask[struct{ Data []model }](t, s.url+"/v1/models", "")
	if len(list.Data) != 1 || list.Data[0].ID != "team/mine" {
		t.Errorf("models: %+v", list)
	}
	if m := ask[model](t, s.url+"/v1/models/team/mine", ""); m.ID != "team/mine" || m.Meta.Context != 2048 || m.Meta.Vocabulary != 4096 {
		t.Errorf("model: %+v", m)
	}
	if p := ask[props](t, s.url+"/props", ""); p.Alias != "team/mine" || p.Path != "/models/x.gguf" || p.EOS != "<|im_end|>" {
		t.Errorf("props: %+v", p)
	}
	if r := ask[received](t, s.url+"/v1/completions", `{"prompt":"x","max_tokens":1,"model":"another"}`); r.Model != "team/mine" {
		t.Errorf("an answer's model is %q", r.Model)
	}
}

func TestTokens(t *testing.T) {
	s := newTestServer(t, Config{})
	tests := []struct{ path, body, want string }{
		{"/tokenize", `{"content":"Once upon a time"}`, `{"tokens":[2996,331,548,258,575]}`},
		{"/tokenize", `{"content":""}`, `{"tokens":[]}`},
		{"/tokenize", `{"content":"<|im_end|>"}`, `{"tokens":[4095]}`},
		{"/tokenize", `{"content":"x<|im_end|>","parse_special":false,"with_pieces":true}`, ``},
		{"/detokenize", `{"tokens":[2996,331,548,4095]}`, `{"content":"Once upon<|im_end|>"}`},
		{"/detokenize", `{"tokens":[]}`, `{"content":""}`},
	}
	for _, tt := range tests {
		status, _, got := do(t, s.url+tt.path, tt.body)
		if status != 200 || tt.want != "" && strings.TrimSpace(got) != tt.want {
			t.Errorf("%s %s: %d %s, want %s", tt.path, tt.body, status, got, tt.want)
		}
		if tt.want == "" && strings.Contains(got, "4095") {
			t.Errorf("%s %s: %s has the special token", tt.path, tt.body, got)
		}
	}
}

func TestErrorsOverHTTP(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	tests := []struct {
		method, path, body string
		status             int
		typ, message       string // message: a part of it
	}{
		{"GET", "/nope", "", 404, "not_found_error", "/nope"},
		{"GET", "/v1/models/gpt-9", "", 404, "not_found_error", `"gpt-9" is not here`},
		{"GET", "/v1/chat/completions", "", 405, "invalid_request_error", "takes POST, not GET"},
		{"POST", "/v1/models", "{}", 405, "invalid_request_error", "takes GET, not POST"},
		{"DELETE", "/health", "", 405, "invalid_request_error", "takes GET, not DELETE"},
		{"POST", "/v1/chat/completions", `{"messages":`, 400, "invalid_request_error", "at byte 12"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"top_logprobs":3}`, 400, "invalid_request_error", "top_logprobs: needs logprobs: true"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":21}`, 400, "invalid_request_error", "top_logprobs: 21 is not a whole number between 0 and 20"},
		{"POST", "/v1/completions", `{}`, 400, "invalid_request_error", "prompt: missing"},
		{"POST", "/v1/completions", `{"prompt":""}`, 400, "invalid_request_error", "prompt: empty"},
		{"POST", "/v1/completions", `{"prompt":[]}`, 400, "invalid_request_error", "prompt: empty"},
		{"POST", "/v1/completions", `{"prompt":{}}`, 400, "invalid_request_error", "prompt: an object is neither"},
		{"POST", "/v1/completions", `{"prompt":["a","b"]}`, 400, "invalid_request_error", "prompt: 2 prompts (want one a request)"},
		{"POST", "/v1/completions", `{"prompt":[1,4096]}`, 400, "invalid_request_error", "prompt: element 1, 4096, is not a token id (want 0 to 4095)"},
		{"POST", "/v1/completions", `{"prompt":"x","logprobs":true}`, 400, "invalid_request_error", "logprobs: a boolean is not a whole number"},
		{"POST", "/v1/completions", `{"prompt":"` + strings.Repeat("word ", 3000) + `"}`, 400, "exceed_context_size_error", "2048"},
		{"POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", maxBody) + `"}`, 413, "invalid_request_error", "larger than the limit of 33554432 bytes"},
		{"POST", "/tokenize", `{}`, 400, "invalid_request_error", "content: missing"},
		{"POST", "/detokenize", `{}`, 400, "invalid_request_error", "tokens: missing"},
		{"POST", "/detokenize", `{"tokens":["a"]}`, 400, "invalid_request_error", "tokens: element 0, a string, is not a token id"},
		{"POST", "/apply-template", `{"messages":5}`, 400, "invalid_request_error", "messages: a number is not an array"},
	}
	for _, tt := range tests {
		status, _, body := send(t, tt.method, s.url+tt.path, tt.body)
		var got struct{ Error apiError }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s %s: %v in %q", tt.method, tt.path, err, body)
			continue
		}
		e := got.Error
		if status != tt.status || e.Code != status || e.Type != tt.typ || !strings.Contains(e.Message, tt.message) {
			t.Errorf("%s %s %.60s: status %d, %+v; want %d %s ... %s", tt.method, tt.path, tt.body, status, e, tt.status, tt.typ, tt.message)
		}
		if tt.typ == typeTooLong && (e.PromptTokens < 3000 || e.Context != 2048) {
			t.Errorf("too long a prompt: %+v, want its tokens and the context's", e)
		}
	}
}

func TestAPIKey(t *testing.T) {
	s := newTestServer(t, Config{APIKey: "secret"})
	tests := []struct {
		path   string
		header []string
		status int
	}{
		{"/health", nil, 200},
		{"/v1/models", nil, 401},
		{"/metrics", nil, 401},
		{"/v1/models", []string{"Authorization", "Bearer wrong"}, 401},
		{"/v1/models", []string{"Authorization", "secret"}, 401},
		{"/v1/models", []string{"Authorization", "Bearer secret2"}, 401},
		{"/v1/models", []string{"Authorization", "Bearer secret"}, 200},
		{"/v1/models", []string{"Authorization", "bearer secret"}, 200},
		{"/v1/models", []string{"X-Api-Key", "secret"}, 200},
		{"/nope", nil, 404},
	}
	for _, tt := range tests {
		status, _, body := do(t, s.url+tt.path, "", tt.header...)
		if status != tt.status {
			t.Errorf("%s with %q: status %d, want %d", tt.path, tt.header, status, tt.status)
		}
		if status == 401 && (!strings.Contains(body, `"type":"authentication_error"`) || strings.Contains(body, "secret")) {
			t.Errorf("%s with %q: %s", tt.path, tt.header, body)
		}
	}
}

// While the model loads, every path of the API says so in llama-server's words.
func TestLoading(t *testing.T) {
	s := New(Config{Log: &lockedBuffer{}})
	var want, got any
	_ = json.Unmarshal([]byte(recorded(t, "health-loading-0")), &want)
	for _, path := range []string{"/health", "/v1/health", "/v1/models", "/v1/chat/completions", "/tokenize", "/metrics"} {
		method := http.MethodGet
		if path == "/v1/chat/completions" || path == "/tokenize" {
			method = http.MethodPost
		}
		w := httptest.NewRecorder()
		r, _ := http.NewRequest(method, path, strings.NewReader("{}"))
		s.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		delete(got.(map[string]any)["error"].(map[string]any), "param")
		if w.Code != 503 || !cmp.Equal(want, got) {
			t.Errorf("%s: %d %v, want 503 %v", path, w.Code, got, want)
		}
	}
}

// The metrics are llama-server's under another name, and have counted a request
// by the time that its last frame is there.
func TestMetrics(t *testing.T) {
	s := newTestServer(t, Config{})
	const body = `{"prompt":"Once upon a time","max_tokens":9,"ignore_eos":true,"stream":true}`
	var sum struct{ prompt, predicted, promptSeconds, predictedSeconds float64 }
	for range 3 {
		frames, _ := stream(t, s.url+"/v1/completions", body)
		got := frames[len(frames)-1].Timings
		sum.prompt += float64(got.PromptN)
		sum.predicted += float64(got.PredictedN)
		sum.promptSeconds += got.PromptMS / 1000
		sum.predictedSeconds += got.PredictedMS / 1000
		values := readMetrics(t, s.url)
		for name, want := range map[string]float64{
			"assay_prompt_tokens_total": sum.prompt, "assay_prompt_tokens_cached_total": 0, "assay_tokens_predicted_total": sum.predicted,
			"assay_prompt_seconds_total": sum.promptSeconds, "assay_tokens_predicted_seconds_total": sum.predictedSeconds,
			"assay_n_tokens_max": 14, "assay_requests_processing": 0, "assay_requests_deferred": 0,
			`assay_requests_total{finish="length"}`: sum.predicted / 9,
		} {
			if got, ok := values[name]; !ok || math.Abs(got-want) > 1e-9 {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	values := readMetrics(t, s.url)
	for _, m := range regexp.MustCompile(`(?m)^llamacpp:(\w+) `).FindAllStringSubmatch(recorded(t, "metrics-after"), -1) {
		if strings.HasPrefix(m[1], "spec_decode") {
			continue // what the engine does not count yet
		}
		if _, ok := values["assay_"+m[1]]; !ok {
			t.Errorf("assay_%s is missing", m[1])
		}
	}
}

func readMetrics(t *testing.T, url string) map[string]float64 {
	t.Helper()
	_, _, body := do(t, url+"/metrics", "")
	values := map[string]float64{}
	for line := range strings.Lines(body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			values[name] = v
		}
	}
	return values
}
