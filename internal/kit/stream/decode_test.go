package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeLines decodes one frame a line; the frames arrive 1 ms apart.
func decodeLines(lines ...string) *Completion {
	var frames []Frame
	for i, l := range lines {
		f := Frame{At: int64(i+1) * 1e6, Kernel: -1, Read: i, Data: l}
		if rest, ok := strings.CutPrefix(l, "event: error "); ok {
			f.Event, f.Data = "error", rest
		}
		if rest, ok := strings.CutPrefix(l, ": "); ok {
			f.Comment, f.Data = true, rest
		}
		frames = append(frames, f)
	}
	return Decode(frames)
}

// summary writes what a completion says, a line each, leaving out what is
// absent.
func summary(c *Completion) []string {
	var out []string
	put := func(name string, v any) { out = append(out, fmt.Sprintf("%s %v", name, v)) }
	number := func(p *int) string {
		if p == nil {
			return "?"
		}
		return fmt.Sprint(*p)
	}
	put("frames", fmt.Sprintf("%d data, %d comments, %d roles", c.DataFrames, c.Comments, c.RoleFrames))
	for _, t := range c.Tokens {
		kinds := ""
		for _, k := range []struct {
			is   bool
			name string
		}{{t.Content, "content"}, {t.Reasoning, "reasoning"}, {t.Tool, "tool"}} {
			if k.is {
				kinds += " " + k.name
			}
		}
		s := fmt.Sprintf("%d%s to byte %d", t.Frame, kinds, t.End)
		if t.Running != nil {
			s += fmt.Sprintf(", running %d", *t.Running)
		}
		if t.IDs > 0 {
			s += fmt.Sprintf(", ids %d", t.IDs)
		}
		put("token", s)
	}
	for _, s := range []struct{ name, v string }{{"joined", c.Joined}, {"text", c.Text}, {"reasoning", c.Reasoning}, {"tools", c.Tools}} {
		if s.v != "" && (s.name == "joined" || s.v != c.Joined) {
			put(s.name, fmt.Sprintf("%q", s.v))
		}
	}
	if c.FinishFrame >= 0 {
		put("finish", fmt.Sprintf("%s in frame %d at %.0f ms", c.FinishReason, c.FinishFrame, float64(c.FinishAt)/1e6))
	}
	if c.Done {
		put("done", "seen")
	}
	if u := c.Usage; u != nil {
		put("usage", fmt.Sprintf("prompt %s, completion %s, cached %s, reasoning %s", number(u.Prompt), number(u.Completion), number(u.Cached), number(u.Reasoning)))
	}
	if t := c.Timings; t != nil {
		s := fmt.Sprintf("cache_n %s, prompt_n %s, predicted_n %s", number(t.CacheN), number(t.PromptN), number(t.PredictedN))
		if t.PredictedMS != nil {
			s += fmt.Sprintf(", predicted_ms %g", *t.PredictedMS)
		}
		if t.DraftN != nil {
			s += fmt.Sprintf(", drafts %s of %s", number(t.DraftAccepted), number(t.DraftN))
		}
		put("timings", s)
	}
	if c.TokenIDs != nil {
		put("ids", c.TokenIDs)
	}
	for _, e := range c.Errors {
		put("error", e)
	}
	if c.Unknown > 0 {
		put("unknown", fmt.Sprintf("%d, first %s", c.Unknown, c.UnknownFirst))
	}
	for _, b := range c.BadFrames {
		put("bad", b)
	}
	return out
}

// chat is an OpenAI chat frame with this delta.
func chat(d string) string {
	return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		name   string
		frames []string
		want   []string
	}{
		{
			"role, empty and null deltas, progress, pings and usage carry no token",
			[]string{
				chat(`{"role":"assistant","content":null}`), chat(`{"role":"assistant","content":""}`), chat(`{"content":""}`), chat(`{}`),
				`: ping`, `{"choices":[],"prompt_progress":{"total":5,"processed":1}}`,
				chat(`{"content":"a"}`), `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}`,
			},
			[]string{"frames 7 data, 1 comments, 2 roles", "token 6 content to byte 1", `joined "a"`, "usage prompt 5, completion 1, cached ?, reasoning ?"},
		},
		{
			"role and first text in one frame",
			[]string{chat(`{"role":"assistant","content":"a"}`)},
			[]string{"frames 1 data, 0 comments, 0 roles", "token 0 content to byte 1", `joined "a"`},
		},
		{
			"the three names of reasoning, then content",
			[]string{
				chat(`{"reasoning_content":"a"}`), chat(`{"reasoning":"b"}`), chat(`{"thinking":"c"}`),
				chat(`{"reasoning":"d","reasoning_content":"d"}`), chat(`{"reasoning_content":"e","content":"f"}`),
			},
			[]string{
				"frames 5 data, 0 comments, 0 roles", "token 0 reasoning to byte 1", "token 1 reasoning to byte 2", "token 2 reasoning to byte 3",
				"token 3 reasoning to byte 4", "token 4 content reasoning to byte 6", `joined "abcdef"`, `text "f"`, `reasoning "abcde"`,
			},
		},
		{
			"tool calls",
			[]string{chat(`{"tool_calls":[{"function":{"name":"f","arguments":""}}]}`), chat(`{"tool_calls":[{"function":{"arguments":"{}"}}]}`), chat(`{"tool_calls":[]}`)},
			[]string{"frames 3 data, 0 comments, 0 roles", "token 0 tool to byte 1", "token 1 tool to byte 3", `joined "f{}"`},
		},
		{
			"finish, usage and [DONE]",
			[]string{chat(`{"content":"a"}`), `{"choices":[{"delta":{},"finish_reason":"length"}]}`, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`, `[DONE]`},
			[]string{"frames 3 data, 0 comments, 0 roles", "token 0 content to byte 1", `joined "a"`, "finish length in frame 1 at 2 ms", "done seen", "usage prompt 9, completion 2, cached 3, reasoning 1"},
		},
		{
			"a running usage",
			[]string{
				`{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":2}}`,
				`{"choices":[{"delta":{"content":"b"}}],"usage":{"completion_tokens":5}}`,
				`{"choices":[{"delta":{"content":"c"}}],"usage":null}`,
			},
			[]string{"frames 3 data, 0 comments, 0 roles", "token 0 content to byte 1, running 2", "token 1 content to byte 2, running 5", "token 2 content to byte 3", `joined "abc"`, "usage prompt ?, completion 5, cached ?, reasoning ?"},
		},
		{
			"a zeroed usage beside text is a placeholder",
			[]string{`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, `{"choices":[{"text":"b","finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":3}}`},
			[]string{"frames 2 data, 0 comments, 0 roles", "token 0 content to byte 1", "token 1 content to byte 2, running 3", `joined "ab"`, "finish stop in frame 1 at 2 ms", "usage prompt 4, completion 3, cached ?, reasoning ?"},
		},
		{
			"timings per token, drafts among them",
			[]string{
				`{"choices":[{"delta":{"content":"a"}}],"timings":{"cache_n":0,"prompt_n":7,"predicted_n":1,"predicted_ms":0.001}}`,
				`{"choices":[{"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":0,"prompt_n":7,"predicted_n":2,"predicted_ms":4.5,"draft_n":3,"draft_n_accepted":1}}`,
			},
			[]string{"frames 2 data, 0 comments, 0 roles", "token 0 content to byte 1, running 1", `joined "a"`, "finish stop in frame 1 at 2 ms", "timings cache_n 0, prompt_n 7, predicted_n 2, predicted_ms 4.5, drafts 1 of 3"},
		},
		{
			"token ids, a frame without text among them",
			[]string{`{"choices":[{"delta":{"content":"ab"},"token_ids":[5,6]}]}`, `{"choices":[{"delta":{"content":""},"token_ids":[7]}]}`, `{"choices":[{"delta":{"content":"c"},"token_ids":[8]}]}`},
			[]string{"frames 3 data, 0 comments, 0 roles", "token 0 content to byte 2, ids 2", "token 2 content to byte 3, ids 4", `joined "abc"`, "ids [5 6 7 8]"},
		},
		{
			"llama-server's own completion",
			[]string{
				`{"index":0,"content":"a","tokens":[11],"stop":false,"tokens_predicted":1,"tokens_evaluated":5}`,
				`{"index":0,"content":"b","tokens":[12],"stop":false,"tokens_predicted":3,"tokens_evaluated":5}`,
				`{"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":3,"tokens_evaluated":5,"timings":{"predicted_n":3,"predicted_ms":2}}`,
			},
			[]string{
				"frames 3 data, 0 comments, 0 roles", "token 0 content to byte 1, running 1, ids 1", "token 1 content to byte 2, running 3, ids 2", `joined "ab"`,
				"finish length in frame 2 at 3 ms", "done seen", "usage prompt 5, completion 3, cached ?, reasoning ?", "timings cache_n ?, prompt_n ?, predicted_n 3, predicted_ms 2", "ids [11 12]",
			},
		},
		{
			"Ollama's chat: durations in ns, what is zero left out",
			[]string{
				`{"model":"m","message":{"role":"assistant","content":"","thinking":"x"},"done":false}`,
				`{"model":"m","message":{"role":"assistant","content":"y"},"done":false}`,
				`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","eval_count":2,"eval_duration":5000000}`,
			},
			[]string{
				"frames 3 data, 0 comments, 1 roles", "token 0 reasoning to byte 1", "token 1 content to byte 2", `joined "xy"`, `text "y"`, `reasoning "x"`,
				"finish length in frame 2 at 3 ms", "done seen", "usage prompt ?, completion 2, cached ?, reasoning ?", "timings cache_n ?, prompt_n ?, predicted_n 2, predicted_ms 5",
			},
		},
		{
			"a reply that was not streamed",
			[]string{`{"choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`},
			[]string{"frames 1 data, 0 comments, 0 roles", "token 0 content to byte 1, running 1", `joined "a"`, "finish stop in frame 0 at 1 ms", "usage prompt ?, completion 1, cached ?, reasoning ?"},
		},
		{
			"errors in the stream, in all their forms",
			[]string{`{"error":{"message":"out of memory","type":"server_error"}}`, `{"error":"no"}`, `{"object":"error","message":"bad"}`, `event: error {"message":"worse"}`, `event: error plain`, `{"error":{"code":7}}`, `[DONE]`},
			[]string{
				"frames 6 data, 0 comments, 0 roles", "done seen", "error out of memory (server_error)", "error no", "error bad", "error worse", "error plain", `error {"code":7}`,
			},
		},
		{
			"an error of null is none, nor is an empty one",
			[]string{`{"error":null,"choices":[{"delta":{"content":"a"}}]}`, `{"error":"","choices":[{"delta":{"content":"b"}}]}`},
			[]string{"frames 2 data, 0 comments, 0 roles", "token 0 content to byte 1", "token 1 content to byte 2", `joined "ab"`},
		},
		{
			"finish_reason once more beside the usage: the first one ended the reply",
			[]string{chat(`{"content":"a"}`), `{"choices":[{"delta":{},"finish_reason":"length"}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`},
			[]string{"frames 3 data, 0 comments, 0 roles", "token 0 content to byte 1", `joined "a"`, "finish length in frame 1 at 2 ms", "usage prompt ?, completion 1, cached ?, reasoning ?"},
		},
		{
			"finish_reason with every text frame: the last one ended it",
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}`},
			[]string{"frames 2 data, 0 comments, 0 roles", "token 0 content to byte 1", "token 1 content to byte 2", `joined "ab"`, "finish length in frame 1 at 2 ms"},
		},
		{
			"unknown shapes, broken JSON, fields of odd types",
			[]string{`{"type":"message_start"}`, `{"choi`, `[1]`, `{"choices":[{"index":0,"delta":{"content":["x"]}}],"usage":{"completion_tokens":"Indeterminate","prompt_tokens":-1}}`, `{"choices":7}`},
			[]string{
				"frames 5 data, 0 comments, 0 roles", "usage prompt ?, completion ?, cached ?, reasoning ?", `unknown 2, first {"type":"message_start"}`,
				"bad frame 1 (read 1, 2.000 ms): unexpected end of JSON input", "bad frame 2 (read 2, 3.000 ms): json: cannot unmarshal array into Go value of type stream.shape",
			},
		},
		{
			"only the first choice is the completion",
			[]string{`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"a"}}]}`},
			[]string{"frames 1 data, 0 comments, 0 roles", "token 0 content to byte 1", `joined "a"`},
		},
		{"nothing", nil, []string{"frames 0 data, 0 comments, 0 roles"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, summary(decodeLines(tc.frames...))); d != "" {
				t.Errorf("completion (-want +got):\n%s", d)
			}
		})
	}
}

func TestLabelsAndOtherChoices(t *testing.T) {
	c := decodeLines(`{"id":"x","model":"m","system_fingerprint":"b1","choices":[{"index":1,"delta":{"content":"no"}}]}`)
	if c.ID != "x" || c.Model != "m" || c.Fingerprint != "b1" || c.OtherChoices != 1 || c.Joined != "" {
		t.Errorf("%+v", c)
	}
}

// A stream of garbage is not kept twice.
func TestBadFramesAreBounded(t *testing.T) {
	c := decodeLines(strings.Split(strings.Repeat("{\n", 50), "\n")[:50]...)
	if len(c.BadFrames) != 8 || c.DataFrames != 50 {
		t.Errorf("%d of %d kept", len(c.BadFrames), c.DataFrames)
	}
}

// A recount of text that does not hold every token would accuse an honest
// engine.
func TestWholeText(t *testing.T) {
	for _, tc := range []struct {
		frames []string
		why    string
	}{
		{[]string{chat(`{"content":"a é"}`)}, ""},
		{nil, "no text"},
		{[]string{chat(`{"content":"a\ufffd"}`)}, "the text holds U+FFFD: some bytes did not arrive"},
		{[]string{chat("{\"content\":\"\xc3\"}")}, "the text holds U+FFFD: some bytes did not arrive"},
		{[]string{chat(`{"tool_calls":[{"function":{"name":"f"}}]}`)}, "tool calls: the tokens that mark them are never shown"},
		{[]string{chat(`{"reasoning":"a"}`), chat(`{"content":"b"}`)}, "reasoning: the tokens that mark it are never shown"},
	} {
		ok, why := decodeLines(tc.frames...).WholeText()
		if ok != (tc.why == "") || why != tc.why {
			t.Errorf("%q: %v, %q; want %q", tc.frames, ok, why, tc.why)
		}
	}
}
