package serve

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/engine"
	"assay/internal/engine/sample"
)

const testVocabulary = 100

func TestReadJob(t *testing.T) {
	defaults := func(change func(*job)) job {
		j := job{Request: engine.Request{MaxTokens: -1, Sampling: sample.Defaults(), Logprobs: -1}}
		j.Sampling.Seed = 1
		change(&j)
		return j
	}
	tests := []struct {
		name, body string
		want       job
	}{
		{"nothing", `{"seed":1}`, defaults(func(*job) {})},
		{"nulls are as good as nothing", `{"seed":1,"temperature":null,"stop":null,"max_tokens":null,"stream_options":null,"logit_bias":null,"n":null}`, defaults(func(*job) {})},
		{"what clients send and we don't need", `{"seed":1,"model":"any","user":"u","metadata":{"a":1},"store":false}`, defaults(func(*job) {})},
		{
			"all sampling", `{"seed":7,"temperature":0,"top_k":5,"top_p":0.5,"min_p":0.25,"repeat_penalty":1.5,"repeat_last_n":-1,"presence_penalty":-2,"frequency_penalty":2}`,
			defaults(func(j *job) {
				j.Sampling = sample.Params{Seed: 7, TopK: 5, TopP: 0.5, MinP: 0.25, RepeatPenalty: 1.5, RepeatLastN: -1, PresencePenalty: -2, FrequencyPenalty: 2}
			}),
		},
		{"top_k below 0 is all, as in llama-server", `{"seed":1,"top_k":-1}`, defaults(func(j *job) { j.Sampling.TopK = 0 })},
		{"the largest seed", `{"seed":18446744073709551615}`, defaults(func(j *job) { j.Sampling.Seed = math.MaxUint64 })},
		{"a seed below -1 is one like any other", `{"seed":-2}`, defaults(func(j *job) { j.Sampling.Seed = math.MaxUint64 - 1 })},
		{"one stop string", `{"seed":1,"stop":"\n"}`, defaults(func(j *job) { j.stops = []string{"\n"} })},
		{"several", `{"seed":1,"stop":["a","b"]}`, defaults(func(j *job) { j.stops = []string{"a", "b"} })},
		{"none", `{"seed":1,"stop":[]}`, defaults(func(j *job) { j.stops = []string{} })},
		{"max_tokens", `{"seed":1,"max_tokens":16}`, defaults(func(j *job) { j.MaxTokens = 16 })},
		{"as a float", `{"seed":1,"max_tokens":16.0}`, defaults(func(j *job) { j.MaxTokens = 16 })},
		{"max_completion_tokens", `{"seed":1,"max_completion_tokens":16}`, defaults(func(j *job) { j.MaxTokens = 16 })},
		{"n_predict", `{"seed":1,"n_predict":16}`, defaults(func(j *job) { j.MaxTokens = 16 })},
		{"two names that agree", `{"seed":1,"max_tokens":16,"n_predict":16}`, defaults(func(j *job) { j.MaxTokens = 16 })},
		{"biases by id", `{"seed":1,"logit_bias":{"5":-100,"99":0.5}}`, defaults(func(j *job) { j.Sampling.LogitBias = map[int32]float32{5: -100, 99: 0.5} })},
		{"biases in pairs", `{"seed":1,"logit_bias":[[5,1],[6,false]]}`, defaults(func(j *job) {
			j.Sampling.LogitBias = map[int32]float32{5: 1, 6: float32(math.Inf(-1))}
		})},
		{
			"a stream", `{"seed":1,"stream":true,"stream_options":{"include_usage":true},"timings_per_token":true,"return_token_ids":true,"ignore_eos":true}`,
			defaults(func(j *job) {
				j.stream, j.includeUsage, j.timingsPerToken, j.tokenIDs, j.IgnoreEOS = true, true, true, true, true
			}),
		},
		{"settings that ask for nothing", `{"seed":1,"n":1,"best_of":1,"echo":false,"suffix":"","response_format":{"type":"text"},"grammar":"","tool_choice":"auto","typical_p":1.0,"mirostat":0,"top_n_sigma":-1,"dry_multiplier":0.0}`, defaults(func(*job) {})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parseFields([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := readJob(f, testVocabulary)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(job{}, form{}, tool{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASeedIsDrawnWhereNoneIsGiven(t *testing.T) {
	for _, body := range []string{`{}`, `{"seed":-1}`} {
		seeds := map[uint64]bool{}
		for range 3 {
			f, _ := parseFields([]byte(body))
			seeds[readSeed(f)] = true
		}
		if len(seeds) != 3 {
			t.Errorf("%s: three requests had the seeds %v", body, seeds)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		body, param, message string
	}{
		{``, "", "the request's body is empty (want a JSON object)"},
		{`[1]`, "", "the request's body must be a JSON object, not an array"},
		{`null`, "", "the request's body must be a JSON object, not null"},
		{`{"a":1,}`, "", "the request's body is not valid JSON: at byte 8: invalid character '}' looking for beginning of object key string"},
		{`{"a":1} x`, "", "the request's body is not valid JSON: at byte 9: invalid character 'x' after top-level value"},
		{`{"temperature":"hot"}`, "temperature", "temperature: a string is not a number"},
		{`{"temperature":-0.5}`, "temperature", "temperature: -0.5 is not a number of at least 0"},
		{`{"temperature":1e39}`, "temperature", "temperature: +Inf is not a number of at least 0"},
		{`{"temperature":1e999}`, "temperature", "temperature: 1e999 is not a number"},
		{`{"top_k":1.5}`, "top_k", "top_k: 1.5 is not a whole number"},
		{`{"top_p":1.5}`, "top_p", "top_p: 1.5 is not between 0 and 1"},
		{`{"min_p":-1}`, "min_p", "min_p: -1 is not between 0 and 1"},
		{`{"repeat_penalty":0}`, "repeat_penalty", "repeat_penalty: 0 is not a number above 0"},
		{`{"repeat_last_n":-2}`, "repeat_last_n", "repeat_last_n: -2 is not -1, 0 or more"},
		{`{"presence_penalty":3}`, "presence_penalty", "presence_penalty: 3 is not between -2 and 2"},
		{`{"seed":1.5}`, "seed", "seed: 1.5 is not a whole number of 64 bits"},
		{`{"seed":"x"}`, "seed", "seed: a string is not a whole number of 64 bits"},
		{`{"max_tokens":0}`, "max_tokens", "max_tokens: 0 is not a number of tokens to generate (want at least 1, or -1 for as many as fit)"},
		{`{"max_tokens":-7}`, "max_tokens", "max_tokens: -7 is not a whole number of at least -1"},
		{`{"max_tokens":"many"}`, "max_tokens", "max_tokens: a string is not a whole number"},
		{`{"max_tokens":8,"n_predict":9}`, "n_predict", "n_predict: 9 disagrees with max_tokens: 8, which is the same setting"},
		{`{"stream":"yes"}`, "stream", "stream: a string is not true or false"},
		{`{"stream_options":true}`, "stream_options", "stream_options: a boolean is not an object"},
		{`{"stream_options":{"include_usage":1}}`, "stream_options", "stream_options: include_usage: a number is not true or false"},
		{`{"stop":5}`, "stop", "stop: a number is not a string (want a string or an array of strings)"},
		{`{"stop":["a",""]}`, "stop", "stop: string 1 is empty, which would match at once"},
		{`{"stop":["` + strings.Repeat("x", 5000) + `"]}`, "stop", "stop: string 0 has 5000 bytes, more than the limit of 4096"},
		{`{"logit_bias":{"100":1}}`, "logit_bias", `logit_bias: "100": "100" is not a token id (want 0 to 99)`},
		{`{"logit_bias":{"5":"x"}}`, "logit_bias", `logit_bias: "5": a string is not a number`},
		{`{"logit_bias":[[5]]}`, "logit_bias", `logit_bias: [0] is not a pair of token id and bias`},
		{`{"logit_bias":7}`, "logit_bias", `logit_bias: a number is neither an object nor an array of pairs`},
		{`{"n":2}`, "n", "n: 2 is not supported here"},
		{`{"response_format":{"type":"xml"}}`, "response_format", `response_format: the type "xml" is not known (want text, json_object or json_schema)`},
		{`{"response_format":{"type":"json_schema"}}`, "response_format", `response_format: json_schema.schema is missing`},
		{`{"response_format":{"type":"json_object"},"json_schema":{"type":"null"}}`, "json_schema", `json_schema: can't be used beside response_format`},
		{`{"grammar":"root ::= x"}`, "grammar", `grammar: "root ::= x" is not supported here`},
		{`{"echo":true}`, "echo", "echo: true is not supported here"},
		{`{"mirostat":2}`, "mirostat", "mirostat: 2 is not supported here"},
	}
	for _, tt := range tests {
		f, err := parseFields([]byte(tt.body))
		if err == nil {
			_, err = readJob(f, testVocabulary)
		}
		if err == nil {
			t.Errorf("%.60s: taken, want the error %q", tt.body, tt.message)
			continue
		}
		param := ""
		if err.Param != nil {
			param = *err.Param
		}
		if err.Message != tt.message || param != tt.param || err.Code != 400 || err.Type != "invalid_request_error" {
			t.Errorf("%.60s:\n got %d %s, param %q: %s\nwant 400, param %q: %s", tt.body, err.Code, err.Type, param, err.Message, tt.param, tt.message)
		}
	}
}

func TestReadMessages(t *testing.T) {
	tests := []struct{ name, messages, want string }{
		{"stay as they are, order and unknown keys too", `[{"content":"b","role":"user","name":"x", "extra":{"z":1,"a":2}}]`, `[{"content":"b","role":"user","name":"x","extra":{"z":1,"a":2}}]`},
		{"text parts are joined", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b\"c"}]}]`, `[{"role":"user","content":"a\nb\"c"}]`},
		{"no content beside tool calls", `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[]}]`, `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[]}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parseFields([]byte(`{"messages":` + tt.messages + `}`))
			if err != nil {
				t.Fatal(err)
			}
			got := readMessages(f)
			if f.err != nil {
				t.Fatal(f.err)
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRefusedMessages(t *testing.T) {
	tests := []struct{ body, message string }{
		{`{}`, "messages: missing (want an array of messages)"},
		{`{"messages":"oops"}`, "messages: a string is not an array of messages"},
		{`{"messages":[]}`, "messages: empty (want at least one message)"},
		{`{"messages":["hi"]}`, "messages: message 0: a string is not an object with role and content"},
		{`{"messages":[{"content":"hi"}]}`, "messages: message 0: role: nothing is not the name of a role"},
		{`{"messages":[{"role":7,"content":"hi"}]}`, "messages: message 0: role: a number is not the name of a role"},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"user"}]}`, "messages: message 1: content: missing (want a string, or a list of text parts)"},
		{`{"messages":[{"role":"user","content":7}]}`, "messages: message 0: content: a number is neither a string nor a list of text parts"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, `messages: message 0: content: part 0 has the type "image_url", but only text is supported`},
		{`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, `messages: message 0: content: part 0 has no text`},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":{}}`, "tools: an object is not an array"},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":[1]}`, "tools: element 0 is a number, not an object"},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search"}]}`, `tools: element 0 is not of the form {"type":"function","function":{"name":...,"parameters":{...}}}`},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"a b"}}]}`, `tools: element 0: function.name: "a b" is not a name of letters, digits, _, - and . (at most 128)`},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"a"}},{"function":{"name":"a"}}]}`, `tools: element 1: there are two tools with the name "a"`},
		{`{"messages":[{"role":"user","content":"hi"}],"tool_choice":"required"}`, "tool_choice: asks for a call, but there are no tools"},
		{`{"messages":[{"role":"user","content":"hi"}],"tool_choice":"maybe"}`, `tool_choice: "maybe" is not known (want "none", "auto", "required" or {"type":"function",...})`},
		{`{"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"b"}}}`, `tool_choice: {"type":"function","function":{"name":"b"}} names none of the tools (want {"type":"function","function":{"name":...}})`},
		{`{"messages":[{"role":"user","content":"hi"}],"reasoning_effort":3}`, "reasoning_effort: a number is not a string"},
		{`{"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":[]}`, "chat_template_kwargs: an array is not an object"},
		{`{"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":1}`, "add_generation_prompt: a number is not true or false"},
	}
	for _, tt := range tests {
		f, err := parseFields([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = readChat(f, &form{}); err == nil || err.Message != tt.message {
			t.Errorf("%s:\n got %v\nwant %s", tt.body, err, tt.message)
		}
	}
}

// FuzzRequests: whatever is sent is refused with an error of the right shape, or
// gives a job that the engine can be asked for.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[{}],"chat_template_kwargs":{"a":1}}`,
		`{"seed":-1,"temperature":1e-3,"stop":["a"],"logit_bias":[[5,false]],"max_tokens":3,"n":1,"stream_options":{"include_usage":true}}`,
		`{"logit_bias":{"5":-100},"prompt":[1,2,3]}`, `[`, `{"a":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fs, err := parseFields(body)
		if err != nil {
			if err.Code != 400 || err.Message == "" {
				t.Fatalf("%+v", err)
			}
			return
		}
		if j, err := readJob(fs, testVocabulary); err == nil {
			if vErr := j.Sampling.Validate(); vErr != nil {
				t.Fatalf("taken with %v", vErr)
			}
			if j.MaxTokens == 0 || j.MaxTokens < -1 {
				t.Fatalf("taken with max_tokens %d", j.MaxTokens)
			}
			for id := range j.Sampling.LogitBias {
				if id < 0 || id >= testVocabulary {
					t.Fatalf("taken with a bias on token %d", id)
				}
			}
			for _, s := range j.stops {
				if s == "" {
					t.Fatal("taken with an empty stop string")
				}
			}
		}
		fs, _ = parseFields(body)
		if in, err := readChat(fs, &form{}); err == nil {
			var list []map[string]any
			if err := json.Unmarshal(in.Messages, &list); err != nil {
				t.Fatalf("the template would get %s: %v", in.Messages, err)
			}
		}
		fs, _ = parseFields(body)
		for _, id := range readTokens(fs, "prompt", fs.get("prompt"), testVocabulary) {
			if id < 0 || id >= testVocabulary {
				t.Fatalf("taken with token %d", id)
			}
		}
	})
}
