package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/chat/reply"
)

// What a public template writes for a call in the past, as its model learnt to
// write one, is read as that call. It is run by tools/peers/templates.sh.
func TestPublicTemplatesCallsAreRead(t *testing.T) {
	cases := publicCases(t)
	const tools = `[{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object","properties":{"city":{"type":"string","description":"d"},"days":{"type":"integer","description":"d"}},"required":["city"]}}}]`
	const user = `{"role":"user","content":"hi"}`
	const call = `{"role":"assistant","content":"","tool_calls":[{"id":"abcde1234","type":"function","function":{"name":"get_weather","arguments":{"city":"New York","days":3}}}]}`
	want := map[string]any{"city": "New York", "days": 3.0}
	seen := map[string]bool{}
	read, other, marks := map[reply.Style]int{}, map[reply.Style]int{}, map[string]int{}
	for _, c := range cases {
		if seen[c.Template] {
			continue
		}
		seen[c.Template] = true
		tmpl, err := New(c.Template, "<s>", "</s>")
		if err != nil {
			continue
		}
		prompt, err := tmpl.Render(Input{Messages: []byte(`[` + user + `]`), Tools: []byte(tools), AddGenerationPrompt: true})
		if err != nil || !strings.Contains(prompt, "get_weather") {
			continue // it knows no tools
		}
		format := reply.Detect(c.Template)
		past := call
		if strings.Contains(format.Mark, "section") { // whose calls are named by their ids
			past = strings.Replace(call, "abcde1234", "functions.get_weather:0", 1)
		}
		all, err := tmpl.Render(Input{Messages: []byte(`[` + user + `,` + past + `]`), Tools: []byte(tools)})
		if err != nil {
			continue
		}
		at := 0 // where the answer begins: where the two part
		for at < len(prompt) && at < len(all) && prompt[at] == all[at] {
			at++
		}
		if i := strings.LastIndexAny(all[:at], "<>"); i >= 0 && at < len(prompt) && all[i] == '<' {
			at = i // <think> in one and <tool_call> in the other
		}
		answer := all[at:]
		if at < len(prompt) && format.After(prompt) == reply.ThinkMaybe {
			other[format.Style]++
			t.Logf("%s: the prompt is no beginning of the chat: %.60q", c.Name, prompt[at:])
			continue
		}
		for _, end := range []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<|call|>", "<|return|>", "<|end_of_text|>", "<|observation|>", "<|user|>"} {
			answer, _, _ = strings.Cut(answer, end)
		}
		p := reply.NewParser(format, reply.Options{Thinking: reply.ThinkMaybe, Reasoning: true, Tools: reply.ReadTools([]byte(tools))})
		name, arguments := "", ""
		for _, d := range append(p.Push(answer), p.Close()...) {
			if d.Call != nil {
				name += d.Call.Name
				arguments += d.Call.Arguments
			}
		}
		var got map[string]any
		if json.Unmarshal([]byte(arguments), &got) == nil && name == "get_weather" && cmp.Equal(got, want) {
			read[format.Style]++
			if format.Mark != "" {
				marks[format.Mark]++
			}
			continue
		}
		if other[format.Style]++; other[format.Style] < 400 {
			t.Logf("%s (%s): %.200q gives %s(%s)", c.Name, format.Style, answer, name, arguments)
		}
	}
	t.Logf("calls that were read: %v, behind marks: %v; not: %v", read, marks, other)
	if len(marks) < 5 {
		t.Errorf("of some marks no template was read: %v", marks)
	}
	for _, s := range []reply.Style{reply.Bare, reply.Hermes, reply.XML, reply.GLM, reply.Harmony} {
		if read[s] == 0 {
			t.Errorf("no template of the style %s was read", s)
		}
	}
}
