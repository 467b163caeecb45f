package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"assay/internal/chat/reply"
	"assay/internal/engine"
	"assay/internal/engine/grammar"
	"assay/internal/engine/sample"
	"assay/internal/tokenizer"
)

const weatherTool = `{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
	"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":14},
	"tags":{"type":"array","items":{"type":"string","maxLength":6},"maxItems":2}},"required":["city","days"],"additionalProperties":false}}}`

const nowTool = `{"type":"function","function":{"name":"now"}}`

const hello = `"messages":[{"role":"user","content":"Alice was tired"}]`

// jsonOf asks for an answer and unpacks its content.
func jsonOf(t *testing.T, url, more string) (value any, finish string) {
	t.Helper()
	r := ask[received](t, url+"/v1/chat/completions", "{"+hello+","+more+"}")
	if err := json.Unmarshal([]byte(r.Choices[0].Message.Content), &value); err != nil {
		t.Fatalf("%v in %q", err, r.Choices[0].Message.Content)
	}
	return value, *r.Choices[0].FinishReason
}

func TestResponseFormat(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	schema := `{"type":"object","properties":{"who":{"type":"string"},"n":{"type":"integer","minimum":3}},"required":["who","n"],"additionalProperties":false}`
	for _, more := range []string{
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema + `}}`,
		`"response_format":{"type":"json_object","schema":` + schema + `}`,
		`"json_schema":` + schema,
	} {
		for seed := range 3 {
			v, finish := jsonOf(t, s.url, fmt.Sprintf(`"max_tokens":40,"temperature":1,"seed":%d,%s`, seed, more))
			o, _ := v.(map[string]any)
			_, isText := o["who"].(string)
			if n, _ := o["n"].(float64); len(o) != 2 || !isText || n < 3 || finish != "stop" {
				t.Errorf("%s: %v, finish %s", more, v, finish)
			}
		}
	}
	if v, _ := jsonOf(t, s.url, `"max_tokens":30,"response_format":{"type":"json_object"}`); fmt.Sprintf("%T", v) != "map[string]interface {}" {
		t.Errorf("json_object gave %v", v)
	}
	// Too few tokens for any answer: it is cut, and says so.
	r := ask[received](t, s.url+"/v1/chat/completions", `{`+hello+`,"max_tokens":3,"json_schema":`+schema+`}`)
	if *r.Choices[0].FinishReason != "length" || r.Usage.CompletionTokens != 3 {
		t.Errorf("%+v", r)
	}
	if r := ask[received](t, s.url+"/v1/completions", `{"prompt":"It was","temperature":0,"json_schema":{"enum":["red","blue"]}}`); r.Choices[0].Text != `"red"` && r.Choices[0].Text != `"blue"` {
		t.Errorf("a text completion gave %q", r.Choices[0].Text)
	}
	// What can't be obeyed is refused by its name, all of it.
	_, _, body := do(t, s.url+"/v1/chat/completions", `{`+hello+`,"json_schema":{"not":{},"properties":{"a":{"contains":{}}}}}`)
	for _, want := range []string{`#: the keyword \"not\"`, `#/properties/a: the keyword \"contains\"`, `"param":"json_schema"`, `"code":400`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s has no %s", body, want)
		}
	}
}

func TestToolCalls(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	tools := `"tools":[` + weatherTool + `,` + nowTool + `]`
	for choice, want := range map[string]string{
		`"required"`: "", `{"type":"function","function":{"name":"get_weather"}}`: "get_weather", `{"type":"function","function":{"name":"now"}}`: "now",
	} {
		body := `{` + hello + `,"temperature":1,"seed":5,"max_tokens":90,` + tools + `,"tool_choice":` + choice
		r := ask[received](t, s.url+"/v1/chat/completions", body+"}").Choices[0]
		if len(r.Message.Calls) != 1 || *r.FinishReason != "tool_calls" || r.Message.Content != "" {
			t.Fatalf("%s: %+v", choice, r)
		}
		call := r.Message.Calls[0]
		if want != "" && call.Function.Name != want || !strings.HasPrefix(call.ID, "call_") || call.Type != "function" || !json.Valid([]byte(call.Function.Arguments)) {
			t.Errorf("%s: %+v", choice, call)
		}
		frames, done := stream(t, s.url+"/v1/chat/completions", body+`,"stream":true,"return_token_ids":true}`)
		var name, arguments string
		tokens := 0
		for i, f := range frames {
			c := f.Choices[0]
			tokens += len(c.TokenIDs)
			for _, d := range c.Delta.Calls {
				if (d.ID != "") != (name == "") || d.Index != 0 {
					t.Errorf("frame %d: %+v", i, d)
				}
				name += d.Function.Name
				arguments += d.Function.Arguments
			}
		}
		last := frames[len(frames)-1]
		if !done || name != call.Function.Name || arguments != call.Function.Arguments || *last.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("%s: streamed %s(%s), whole %s(%s)", choice, name, arguments, call.Function.Name, call.Function.Arguments)
		}
		if tokens != last.Timings.PredictedN {
			t.Errorf("%s: frames carry %d tokens of %d", choice, tokens, last.Timings.PredictedN)
		}
	}
	for _, choice := range []string{`"none"`, `"auto"`} {
		r := ask[received](t, s.url+"/v1/chat/completions", `{`+hello+`,"temperature":0,"max_tokens":8,`+tools+`,"tool_choice":`+choice+`}`).Choices[0]
		if r.Message.Content == "" || r.Message.Calls != nil {
			t.Errorf("%s: %+v", choice, r)
		}
	}
	// What calls and their results look like in a request.
	ask[received](t, s.url+"/v1/chat/completions", `{"max_tokens":1,`+tools+`,"messages":[{"role":"user","content":"a"},
		{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"now","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"1","content":"12"}]}`)
	_, _, body := do(t, s.url+"/v1/chat/completions", `{`+hello+`,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"not":{}}}}]}`)
	if !strings.Contains(body, `tools: f: parameters: #: the keyword \"not\" is not supported`) {
		t.Error(body)
	}
}

// In every format, what the grammar lets a model write is read as calls whose
// arguments satisfy the tools' schemas.
func TestWhatTheGrammarWritesIsRead(t *testing.T) {
	alone(t)
	e := sharedEngine(t)
	v := grammar.NewVocabulary(e.Tokenizer())
	f, fErr := parseFields([]byte(`{"tools":[` + weatherTool + `,` + nowTool + `]}`))
	if fErr != nil {
		t.Fatal(fErr)
	}
	var all form
	if all.readTools(f); f.err != nil {
		t.Fatal(f.err)
	}
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range all.tools {
		var s jsonschema.Schema
		if err := json.Unmarshal(tool.parameters, &s); err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		schemas[tool.name] = r
	}
	for _, format := range []reply.Format{
		{Style: reply.Bare},
		{Style: reply.Hermes},
		{Style: reply.Hermes, ThinkOpen: "<think>", ThinkClose: "</think>"},
		{Style: reply.XML},
		{Style: reply.GLM},
		{Style: reply.Harmony},
	} {
		for _, after := range []reply.Thinking{reply.ThinkMaybe, reply.ThinkBegun, reply.ThinkOver} {
			o := all
			o.must = true
			expr, bad := formExpr(&o, format, after)
			if bad != nil {
				t.Fatal(bad)
			}
			g, err := grammar.Compile(expr, v)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range 4 {
				text := write(t, e, g, seed)
				p := reply.NewParser(format, reply.Options{Thinking: after, Reasoning: true, Tools: reply.ReadTools(o.rawTools)})
				m := newChatMessage(append(p.Push(text), p.Close()...)).Message
				what := fmt.Sprintf("%s, %d, seed %d: %q", format.Style, after, seed, text)
				if len(m.Calls) == 0 || m.Content != nil {
					t.Errorf("%s: read as %+v", what, m)
				}
				if after == reply.ThinkBegun && format.ThinkOpen != "" && !strings.Contains(text, format.ThinkClose) {
					t.Errorf("%s: the reasoning has no end", what)
				}
				for _, c := range m.Calls {
					var arguments map[string]any
					if err := json.Unmarshal([]byte(c.Function.Arguments), &arguments); err != nil {
						t.Errorf("%s: arguments %q: %v", what, c.Function.Arguments, err)
					} else if err := schemas[c.Function.Name].Validate(arguments); err != nil {
						t.Errorf("%s: arguments %q: %v", what, c.Function.Arguments, err)
					}
				}
			}
			// Left to itself a model may write anything, calls in their form.
			o.must = false
			if expr, bad = formExpr(&o, format, after); bad != nil || expr == nil {
				continue
			}
			if g, err = grammar.Compile(expr, v); err != nil {
				t.Fatal(err)
			}
			begun := ""
			if after == reply.ThinkBegun && format.ThinkOpen != "" {
				begun = "so</think>"
			}
			call := map[reply.Style]string{
				reply.Hermes: "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
				reply.XML:    "<tool_call>\n<function=now>\n</function>\n</tool_call>",
				reply.GLM:    "<tool_call>now\n</tool_call>",
			}[format.Style]
			for text, want := range map[string]bool{
				"Well, a <tool and more": true, call: true, "Well.\n" + call + "\n" + call: true, "<tool_call>nonsense": false,
			} {
				if got := g.Match(begun + text); got != want {
					t.Errorf("%s, left to itself: %q: %v, want %v", format.Style, text, got, want)
				}
			}
		}
	}
}

// write lets the model write under a grammar.
func write(t *testing.T, e *engine.Engine, g *grammar.Grammar, seed int) string {
	t.Helper()
	var ids []int32
	prompt := e.Tokenizer().Encode("Alice", tokenizer.Options{})
	_, err := e.Generate(t.Context(), engine.Request{
		Prompt: prompt, MaxTokens: 250, Logprobs: -1, Constraint: g.Matcher(),
		Sampling: sample.Params{Seed: uint64(seed), Temperature: 1, TopP: 1, RepeatPenalty: 1},
	}, func(tk engine.Token) error {
		if !tk.End {
			ids = append(ids, tk.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Tokenizer().Decode(ids, false)
}
