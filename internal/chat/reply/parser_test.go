package reply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// whole is an answer as a client puts it together from its pieces.
type whole struct {
	Reasoning, Content string
	Calls              []call
}

type call struct{ Name, Arguments string }

func (w *whole) add(t testing.TB, deltas []Delta) {
	t.Helper()
	for _, d := range deltas {
		set := 0
		for _, is := range []bool{d.Reasoning != "", d.Content != "", d.Call != nil} {
			if is {
				set++
			}
		}
		if set != 1 {
			t.Fatalf("a delta says %d things: %+v", set, d)
		}
		w.Reasoning += d.Reasoning
		w.Content += d.Content
		c := d.Call
		switch {
		case c == nil:
		case c.Name != "":
			if c.Index != len(w.Calls) || !strings.HasPrefix(c.ID, "call_") {
				t.Fatalf("call %d begins with %+v", len(w.Calls), *c)
			}
			w.Calls = append(w.Calls, call{c.Name, c.Arguments})
		case c.Index != len(w.Calls)-1 || c.ID != "":
			t.Fatalf("call %d goes on with %+v", len(w.Calls)-1, *c)
		default:
			w.Calls[c.Index].Arguments += c.Arguments
		}
	}
}

func read(t testing.TB, f Format, o Options, pieces ...string) whole {
	p := NewParser(f, o)
	var w whole
	for _, s := range pieces {
		w.add(t, p.Push(s))
	}
	w.add(t, p.Close())
	return w
}

var weather = []Tool{{Name: "get_weather", Strings: []string{"city", "note"}}, {Name: "stop"}}

var (
	qwen    = Format{Style: Hermes, ThinkOpen: "<think>", ThinkClose: "</think>"}
	coder   = Format{Style: XML}
	glm     = Format{Style: GLM, ThinkOpen: "<think>", ThinkClose: "</think>"}
	gptOSS  = Format{Style: Harmony}
	llama   = Format{Style: Bare}
	mistral = Format{Style: Bare, Mark: "[TOOL_CALLS]"}
	seek    = Format{Style: Bare, ThinkOpen: "<think>", ThinkClose: "</think>", Mark: "<｜tool▁calls▁begin｜>"}
	kimi    = Format{Style: Bare, Mark: "<|tool_calls_section_begin|>"}
	lfm     = Format{Style: Bare, Mark: "<|tool_call_start|>"}
	olmo    = Format{Style: Bare, Mark: "<function_calls>"}
	all     = Options{Reasoning: true, Tools: weather}
	replies = []struct {
		name string
		f    Format
		o    Options
		text string
		want whole
	}{
		{"text", qwen, all, "Hello,\n world \n", whole{Content: "Hello,\n world \n"}},
		{"nothing", qwen, all, "", whole{}},
		{"reasoning, then text", qwen, all, "<think>\nhm, <b>\n</think>\n\nYes.", whole{Reasoning: "hm, <b>", Content: "Yes."}},
		{"the prompt has begun the reasoning", qwen, Options{Thinking: ThinkBegun, Reasoning: true}, "hm\n\nmore </think> Yes", whole{Reasoning: "hm\n\nmore", Content: "Yes"}},
		{"the prompt has ended it", qwen, Options{Thinking: ThinkOver, Reasoning: true}, "<think> is a tag", whole{Content: "<think> is a tag"}},
		{"reasoning that is cut off", qwen, all, "<think>so long", whole{Reasoning: "so long"}},
		{"tags in the middle are text", qwen, all, "use <think>this</think>", whole{Content: "use <think>this</think>"}},
		{"not told apart", qwen, Options{}, "<think>a</think>b", whole{Content: "<think>a</think>b"}},
		{"other tags", Format{Style: Bare, ThinkOpen: "<seed:think>", ThinkClose: "</seed:think>"}, all, "<seed:think>a</seed:think>b", whole{Reasoning: "a", Content: "b"}},
		{"empty reasoning", qwen, all, "<think>\n\n</think>\n\nx", whole{Content: "x"}},

		{"a call", qwen, all, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a } \\\" b\", \"n\": [1, {}]}}\n</tool_call>", whole{Calls: []call{{"get_weather", `{"city": "a } \" b", "n": [1, {}]}`}}}},
		{"all three", qwen, all, "<think>a</think>\n\nLet me see.\n<tool_call>\n{\"name\":\"stop\",\"arguments\":{}}\n</tool_call>\n", whole{Reasoning: "a", Content: "Let me see.", Calls: []call{{"stop", "{}"}}}},
		{"two calls", qwen, all, "<tool_call>{\"name\":\"stop\",\"arguments\":{}}</tool_call>\n<tool_call>{\"arguments\":{\"a\":1},\"name\":\"x\"}</tool_call>", whole{Calls: []call{{"stop", "{}"}, {"x", `{"a":1}`}}}},
		{"arguments in a string, and none", qwen, all, "<tool_call>{\"name\":\"x\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call><tool_call>{\"name\":\"y\"}</tool_call>", whole{Calls: []call{{"x", `{"a":1}`}, {"y", "{}"}}}},
		{"text after a call", qwen, all, "<tool_call>{\"name\":\"x\",\"arguments\":{}}</tool_call>\nDone.", whole{Content: "Done.", Calls: []call{{"x", "{}"}}}},
		{"no call after all", qwen, all, "<tool_call>nonsense</tool_call>", whole{Content: "<tool_call>nonsense</tool_call>"}},
		{"a call that is cut off", qwen, all, "<tool_call>{\"name\":\"x\",\"arguments\":{\"a\":", whole{Calls: []call{{"x", `{"a":`}}}},
		{"cut off before its name", qwen, all, "<tool_call>{\"na", whole{Content: "<tool_call>{\"na"}},
		{"no tools in the request", qwen, Options{Reasoning: true}, "<tool_call>{\"name\":\"x\"}</tool_call>", whole{Content: "<tool_call>{\"name\":\"x\"}</tool_call>"}},

		{"tags for values", coder, all, "Sure.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=free>\nnot json\n</parameter>\n</function>\n</tool_call>", whole{Content: "Sure.", Calls: []call{{"get_weather", `{"city": "New \"York\"", "days": 3, "free": "not json"}`}}}},
		{"lines within a value", coder, all, "<tool_call>\n<function=get_weather>\n<parameter=note>\n\na\n</para\n\n</parameter>\n</function>\n</tool_call>", whole{Calls: []call{{"get_weather", `{"note": "\na\n</para\n"}`}}}},
		{"without the outer tag", coder, all, "<function=stop>\n</function>\n</tool_call>", whole{Calls: []call{{"stop", "{}"}}}},
		{"two in tags", coder, all, "<tool_call>\n<function=stop>\n</function>\n</tool_call>\n<tool_call>\n<function=stop>\n</function>\n</tool_call>", whole{Calls: []call{{"stop", "{}"}, {"stop", "{}"}}}},

		{"keys and values", glm, all, "<think>a</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n<arg_key>days</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>", whole{Reasoning: "a", Calls: []call{{"get_weather", `{"city": "12", "days": [1, 2]}`}}}},
		{"a name only", glm, all, "\n<tool_call>stop\n</tool_call>\n<tool_call>stop</tool_call>", whole{Calls: []call{{"stop", "{}"}, {"stop", "{}"}}}},

		{"channels", gptOSS, all, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.", whole{Reasoning: "hm", Content: "Yes."}},
		{"a channel's call", gptOSS, all, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Bonn\"}", whole{Reasoning: "hm", Calls: []call{{"get_weather", `{"city":"Bonn"}`}}}},
		{"the recipient before the channel", gptOSS, all, "<|start|>assistant to=functions.stop<|channel|>commentary json<|message|>{}", whole{Calls: []call{{"stop", "{}"}}}},
		{"a preamble is text", gptOSS, all, "<|channel|>commentary<|message|>I will.<|end|>", whole{Content: "I will."}},

		{"an object", llama, all, `{"name": "get_weather", "parameters": {"city": "x"}}`, whole{Calls: []call{{"get_weather", `{"city": "x"}`}}}},
		{"with a type", llama, all, `{"type": "function", "name": "stop", "parameters": {}}`, whole{Calls: []call{{"stop", "{}"}}}},
		{"several objects", llama, all, `{"name":"stop","parameters":{}}; {"name":"stop","parameters":{}}`, whole{Calls: []call{{"stop", "{}"}, {"stop", "{}"}}}},
		{"an object that is no call", llama, all, `{"name": "Bob", "age": 3} and so on`, whole{Content: `{"name": "Bob", "age": 3} and so on`}},
		{"Llama's tag", llama, all, `<|python_tag|>{"name": "stop", "parameters": {}}`, whole{Calls: []call{{"stop", "{}"}}}},
		{"Llama's own tools", llama, all, `<|python_tag|>brave_search.call(query="a, b", n=3)`, whole{Calls: []call{{"brave_search", `{"query": "a, b", "n": 3}`}}}},
		{"code is no call", llama, all, `<|python_tag|>print(1)`, whole{Content: `<|python_tag|>print(1)`}},
		{"code behind text", llama, all, "Look:\n <|python_tag|>print(1)", whole{Content: "Look:\n <|python_tag|>print(1)"}},
		{"a list of calls", mistral, all, `Sure. [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "New York", "days": 3}, "id": "abcde1234"}, {"name": "stop"}]`, whole{Content: "Sure.", Calls: []call{{"get_weather", `{"city": "New York", "days": 3}`}, {"stop", "{}"}}}},
		{"names with arguments", mistral, all, `[TOOL_CALLS]get_weather[CALL_ID]abc12[ARGS]{"city": "[ARGS]"}[TOOL_CALLS]stop[ARGS]{}`, whole{Calls: []call{{"get_weather", `{"city": "[ARGS]"}`}, {"stop", "{}"}}}},
		{"a mark and no call", mistral, all, "Say \n[TOOL_CALLS] twice", whole{Content: "Say \n[TOOL_CALLS] twice"}},
		{"a list that is cut off", mistral, all, `[TOOL_CALLS][{"name": "stop"`, whole{Content: `[TOOL_CALLS][{"name": "stop"`}},
		{"an object without the mark", mistral, all, `{"name": "stop", "parameters": {}}`, whole{Calls: []call{{"stop", "{}"}}}},
		{"DeepSeek's fences", seek, all, "<think>a</think>One.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"x\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", whole{Reasoning: "a", Content: "One.", Calls: []call{{"get_weather", `{"city": "x"}`}, {"stop", "{}"}}}},
		{"DeepSeek's of V3.1", seek, all, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"x\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", whole{Calls: []call{{"get_weather", `{"city": "x"}`}, {"stop", "{}"}}}},
		{"Kimi's section", kimi, all, `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "x"}<|tool_call_end|><|tool_call_begin|>functions.stop:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`, whole{Calls: []call{{"get_weather", `{"city": "x"}`}, {"stop", "{}"}}}},
		{"as in Python", lfm, all, `<|tool_call_start|>[get_weather(city='New "York"', days=3, all=True, at=None, list=['a', 1], note="it's, (so)"), stop()]<|tool_call_end|>Done`, whole{Calls: []call{{"get_weather", `{"city": "New \"York\"", "days": 3, "all": true, "at": null, "list": ["a", 1], "note": "it's, (so)"}`}, {"stop", "{}"}}}},
		{"in a fence", lfm, all, "<|tool_call_start|>\n```python\nget_weather(city=\"x\",days=3)\n```\n<|tool_call_end|>\n", whole{Calls: []call{{"get_weather", `{"city": "x", "days": 3}`}}}},
		{"a line each", olmo, all, "<function_calls>get_weather(city=\"New York\", days=3)\nstop()</function_calls>", whole{Calls: []call{{"get_weather", `{"city": "New York", "days": 3}`}, {"stop", "{}"}}}},
		{"no Python", olmo, all, "<function_calls>get_weather(x, 3)", whole{Content: "<function_calls>get_weather(x, 3)"}},
		{"an object later on", llama, all, `See {"name":"stop"}`, whole{Content: `See {"name":"stop"}`}},
	}
)

func TestReplies(t *testing.T) {
	for _, r := range replies {
		t.Run(r.name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, read(t, r.f, r.o, r.text)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// However an answer is cut into pieces, it is read the same.
func TestPiecesDoNotMatter(t *testing.T) {
	for _, r := range replies {
		t.Run(r.name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, read(t, r.f, r.o, strings.Split(r.text, "")...)); diff != "" {
				t.Errorf("one character at a time, -want +got:\n%s", diff)
			}
			rapid.Check(t, func(t *rapid.T) {
				var pieces []string
				for rest := r.text; rest != ""; {
					n := rapid.IntRange(1, min(12, len(rest))).Draw(t, "length")
					pieces, rest = append(pieces, rest[:n]), rest[n:]
				}
				if diff := cmp.Diff(r.want, read(&ignore{t: t}, r.f, r.o, pieces...)); diff != "" {
					t.Fatalf("%q: -want +got:\n%s", pieces, diff)
				}
			})
		})
	}
}

// ignore lets rapid's t be used where a testing.TB is asked for.
type ignore struct {
	testing.TB
	t *rapid.T
}

func (i *ignore) Helper()                           {}
func (i *ignore) Fatalf(format string, args ...any) { i.t.Fatalf(format, args...) }

// Arguments go out before the call is over.
func TestArgumentsAreStreamed(t *testing.T) {
	for _, c := range []struct {
		f    Format
		text string
	}{
		{qwen, `<tool_call>{"name":"get_weather","arguments":{"city":"New Yo`},
		{coder, "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew Yo"},
		{glm, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>New Yo"},
		{gptOSS, `<|channel|>commentary to=functions.get_weather<|message|>{"city":"New Yo`},
		{llama, `{"name":"get_weather","parameters":{"city":"New Yo`},
	} {
		p := NewParser(c.f, all)
		var w whole
		w.add(t, p.Push(c.text))
		if len(w.Calls) != 1 || strings.ReplaceAll(w.Calls[0].Arguments, ": ", ":") != `{"city":"New Yo` {
			t.Errorf("%s: so far %+v", c.f.Style, w)
		}
	}
}

func TestDetect(t *testing.T) {
	think := func(s Style) Format { return Format{Style: s, ThinkOpen: "<think>", ThinkClose: "</think>"} }
	for template, want := range map[string]Format{
		"{{ messages }}": {Style: Bare},
		"<tool_call>\n{\"name\": <function-name>}\n</tool_call>":     {Style: Hermes},
		"content.split('</think>') <tool_call>":                      think(Hermes),
		"<tool_call>\n<function=example>\n<parameter=x>":             {Style: XML},
		"<tool_call>{name}\n<arg_key>{k}</arg_key> <think>":          think(GLM),
		"<|start|>assistant<|channel|>analysis":                      {Style: Harmony},
		"<|start_header_id|>assistant {\"name\": .., \"parameters\"": {Style: Bare},
		"[THINK]":                         {Style: Bare, ThinkOpen: "[THINK]", ThinkClose: "[/THINK]"},
		"[THINK] [TOOL_CALLS]":            {Style: Bare, ThinkOpen: "[THINK]", ThinkClose: "[/THINK]", Mark: "[TOOL_CALLS]"},
		"<tool_call> <function_calls>":    {Style: Hermes},
		"<function_calls>{{ functions }}": {Style: Bare, Mark: "<function_calls>"},
	} {
		if got := Detect(template); got != want {
			t.Errorf("%q: %+v, want %+v", template, got, want)
		}
	}
	for prompt, want := range map[string]Thinking{
		"<|im_start|>assistant\n": ThinkMaybe, "assistant\n<think>\n": ThinkBegun, "assistant\n<think>\n\n</think>\n\n": ThinkOver,
	} {
		if got := qwen.After(prompt); got != want {
			t.Errorf("%q: %d, want %d", prompt, got, want)
		}
	}
}

// FuzzParser: no text makes it fail, hang or lose text where there is nothing
// to be read.
func FuzzParser(f *testing.F) {
	for _, r := range replies {
		f.Add(r.text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		text = strings.ToValidUTF8(text, "")
		for _, format := range []Format{qwen, coder, glm, gptOSS, llama, mistral, seek, kimi, lfm, olmo} {
			one := read(t, format, all, text)
			runes := strings.Split(text, "")
			if diff := cmp.Diff(one, read(t, format, all, runes...)); diff != "" {
				t.Fatalf("%s: whole and in pieces differ:\n%s", format.Style, diff)
			}
			if got := read(t, format, Options{}, text); got.Content != text {
				t.Fatalf("%s: %q became %+v", format.Style, text, got)
			}
		}
	})
}
