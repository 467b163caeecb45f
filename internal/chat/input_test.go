package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestBadInput shows what is refused, and that errors say where.
func TestBadInput(t *testing.T) {
	tmpl := must(t, "{{ messages | tojson }}", "", "")
	for _, c := range []struct {
		in    Input
		field string
		parts []string
	}{
		{Input{}, "messages", []string{"at least one message", "found nothing"}},
		{Input{Messages: json.RawMessage(`null`)}, "messages", []string{"found null"}},
		{Input{Messages: json.RawMessage(`[]`)}, "messages", []string{"found an empty array"}},
		{Input{Messages: json.RawMessage(`{"role":"user"}`)}, "messages", []string{"found an object"}},
		{Input{Messages: json.RawMessage(`[{"role":"user"`)}, "messages", []string{"ends too early"}},
		{Input{Messages: json.RawMessage(`[{"role":"user"}] x`)}, "messages", []string{"byte"}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":"a"},"b"]`)}, "messages[1]", []string{"an object", "found a string"}},
		{Input{Messages: json.RawMessage(`[{"content":"a"}]`)}, "messages[0].role", []string{"found nothing"}},
		{Input{Messages: json.RawMessage(`[{"role":7}]`)}, "messages[0].role", []string{"found a number"}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":true}]`)}, "messages[0].content", []string{"found a boolean"}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":["a"]}]`)}, "messages[0].content[0]", []string{"found a string"}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":[{"text":"a"}]}]`)}, "messages[0].content[0].type", []string{"found nothing"}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]`)}, "messages[0].content[1].type", []string{`"image_url" is not supported`}},
		{Input{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text"}]}]`)}, "messages[0].content[0].text", []string{"found nothing"}},
		{Input{Messages: user("a"), Tools: json.RawMessage(`{}`)}, "tools", []string{"found an object"}},
		{Input{Messages: user("a"), Tools: json.RawMessage(`[{},1e3]`)}, "tools[1]", []string{"found a number"}},
		{Input{Messages: user("a"), Kwargs: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}, "chat_template_kwargs.x", []string{"ends too early"}},
		{Input{Messages: user("a"), Kwargs: map[string]json.RawMessage{"tools": json.RawMessage(`[]`)}}, "chat_template_kwargs.tools", []string{"not allowed"}},
		{Input{Messages: json.RawMessage(strings.Repeat("[", 300))}, "messages", []string{"nested", "256"}},
	} {
		_, err := tmpl.Render(c.in)
		var wrong *InputError
		if !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s %s: got %v, want an error about %s", c.in.Messages, c.in.Tools, err, c.field)
			continue
		}
		wantError(t, err, c.parts...)
	}
}

// TestContent shows the forms of content, for a template that reads only strings
// and one that reads lists too.
func TestContent(t *testing.T) {
	strs := must(t, `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}`, "", "")
	lists := must(t, `{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}`, "", "")
	for _, c := range []struct{ content, strs, lists string }{
		{`"plain"`, "<user>plain", "<user>plain"},
		{`""`, "<user>", "<user>"},
		{`null`, "<user>", "<user>"},
		{`[{"type":"text","text":"one"},{"type":"text","text":"two"}]`, "<user>one\ntwo", "<user>onetwo"},
		{`[]`, "<user>", "<user>"},
	} {
		in := Input{Messages: json.RawMessage(`[{"role":"user","content":` + c.content + `}]`)}
		if got, err := strs.Render(in); got != c.strs || err != nil {
			t.Errorf("%s: strings: got %q, %v; want %q", c.content, got, err, c.strs)
		}
		if got, err := lists.Render(in); got != c.lists || err != nil {
			t.Errorf("%s: lists: got %q, %v; want %q", c.content, got, err, c.lists)
		}
	}
}

// TestMessageFields shows what templates see of a message: no nulls, reasoning
// under the names that templates know, and the rest as it was sent.
func TestMessageFields(t *testing.T) {
	tmpl := must(t, "{{ messages[0] | tojson }}", "", "")
	for _, c := range []struct{ message, want string }{
		{`{"role":"user","content":null,"name":null,"x":[null]}`, `{"role": "user", "x": [null]}`},
		{`{"content":"a","role":"user"}`, `{"content": "a", "role": "user"}`},
		{`{"role":"assistant","reasoning":"r"}`, `{"thinking": "r", "role": "assistant", "reasoning": "r", "reasoning_content": "r"}`},
		{`{"reasoning_content":"r","role":"assistant","thinking":null}`, `{"thinking": "r", "reasoning_content": "r", "role": "assistant"}`},
		{`{"role":"assistant","thinking":"t","reasoning_content":"r"}`, `{"thinking": "t", "role": "assistant", "reasoning_content": "r"}`},
		{`{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":1}"}}]}`, `{"role": "assistant", "tool_calls": [{"function": {"arguments": "{\"a\":1}"}}]}`},
	} {
		got, err := tmpl.Render(Input{Messages: json.RawMessage("[" + c.message + "]")})
		if got != c.want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", c.message, got, err, c.want)
		}
	}
}

// TestOrder: whatever the tools are, tojson writes them back with their keys in
// the order of the request, and their numbers, strings and nesting unchanged.
func TestOrder(t *testing.T) {
	tmpl := must(t, "{{ tools | tojson }}", "", "")
	rapid.Check(t, func(t *rapid.T) {
		want := "[" + object(t, 4) + "]"
		var squeezed bytes.Buffer // as clients send it: without blanks
		if err := json.Compact(&squeezed, []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(Input{Messages: user("x"), Tools: squeezed.Bytes()})
		if got != want || err != nil {
			t.Fatalf("got  %s, %v\nwant %s", got, err, want)
		}
	})
}

// object draws JSON as Python writes it.
func object(t *rapid.T, depth int) string {
	keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zé☃ <>&'_]{1,6}`), 0, 6, rapid.ID).Draw(t, "keys")
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf(`"%s": %s`, k, anyValue(t, depth-1))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func anyValue(t *rapid.T, depth int) string {
	most := 5
	if depth == 0 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}", `""`, `"\n\"\\\u0001"`, "1e+16", "0.5", "-1.0", "1e-07"}).Draw(t, "literal")
	case 1:
		return fmt.Sprint(rapid.Int64().Draw(t, "int"))
	case 2:
		return fmt.Sprint(rapid.Uint64().Draw(t, "unsigned"))
	case 3:
		return `"` + rapid.StringMatching(`[a-z日本😀<>&/']*`).Draw(t, "string") + `"`
	case 4:
		return object(t, depth)
	}
	items := make([]string, rapid.IntRange(0, 4).Draw(t, "items"))
	for i := range items {
		items[i] = anyValue(t, depth-1)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// OpenAI's messages are made to what a template can read.
func TestAdapt(t *testing.T) {
	const messages = `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"b\": 1, \"a\": [2]}"}},{"function":{"name":"g","arguments":"not json"}}]}]`
	const calls = `{% for c in m.tool_calls or [] %}{{ c.function.name }}`
	for _, c := range []struct{ name, template, want string }{
		{"objects", `{% for m in messages %}{{ m.role }}:` + calls + `{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}`, `user:assistant:f{"b": 1, "a": [2]}g"not json"`},
		{"texts", `{% for m in messages %}{{ m.role }}:` + calls + `{{ '=' + c.function.arguments }}{% endfor %}{% endfor %}`, `user:assistant:f={"b": 1, "a": [2]}g=not json`},
		{"content that is needed", `{% for m in messages %}{{ m.role + m.content }};{% endfor %}`, `usera;assistant;`},
		{"content that is not", `{% for m in messages %}{{ m.content is defined }};{% endfor %}`, `True;False;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := New(c.template, "", "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Render(Input{Messages: []byte(messages), Adapt: true})
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	tmpl, err := New(`{{ messages[1].content + "x" }}`, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(Input{Messages: []byte(messages)}); err == nil {
		t.Errorf("without Adapt it gave %q", got)
	}
}
