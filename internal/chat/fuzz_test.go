package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzRender: no template and no messages make New or Render panic, hang or
// render without end.
func FuzzRender(f *testing.F) {
	files, err := filepath.Glob("testdata/templates/*.jinja")
	if err != nil {
		f.Fatal(err)
	}
	const messages = `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":[{"id":"123456789","function":{"name":"f","arguments":{"x":1.5}}}]}]`
	for _, file := range files {
		f.Add(string(read(f, file)), messages)
	}
	snippets, err := os.ReadFile("hfjinja/testdata/snippets.txt")
	if err != nil {
		f.Fatal(err)
	}
	for source := range strings.SplitSeq(string(snippets), "\n====\n") {
		f.Add(source, messages)
	}
	for _, source := range []string{
		`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
		`{% set ns = namespace(x='ab') %}{% for i in range(99999) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`,
		`{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}{{ ns == ns.x }}`,
		`{{ 'a' * 999999999 }}`, `{{ 9 ** 9 ** 9 }}`, `{{ 'a' | indent(1000000000) }}`, `{{ '[' * 9999 | from_json }}`,
		`{{ messages | tojson(indent=999999999) }}`, `{{ ((((((((1)))))))) }}`,
	} {
		f.Add(source, messages)
	}
	f.Fuzz(func(t *testing.T, source, messages string) {
		start := time.Now()
		tmpl, err := New(source, "<s>", "</s>")
		if err != nil {
			return
		}
		out, err := tmpl.Render(Input{Messages: json.RawMessage(messages), Tools: json.RawMessage(`[{"type":"function","function":{"name":"f"}}]`), AddGenerationPrompt: true})
		if err != nil && strings.Contains(err.Error(), "engine failed") {
			t.Errorf("the engine panicked: %v", err)
		}
		var limit *LimitError
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("took %v (%v)", d, errors.As(err, &limit))
		}
		if len(out) > 1<<30 {
			t.Errorf("%d bytes of text", len(out))
		}
	})
}
