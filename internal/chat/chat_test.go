package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/gguf"
	"assay/models/seedling"
)

// clock is the time that testdata/render_hf.py uses.
func clock() time.Time { return time.Date(2026, 9, 5, 14, 7, 9, 0, time.UTC) }

// TestGolden renders the cases of testdata/cases with the templates of
// testdata/templates, which are written in the manner of well-known models'. The
// golden texts were made by Jinja2, set up as in transformers:
// testdata/render_hf.py makes them again.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			var c struct {
				Template            string
				Messages, Tools     json.RawMessage
				AddGenerationPrompt bool `json:"add_generation_prompt"`
				BOS, EOS            string
				Kwargs              map[string]json.RawMessage
			}
			if err := json.Unmarshal(read(t, file), &c); err != nil {
				t.Fatal(err)
			}
			tmpl := must(t, string(read(t, "testdata/templates/"+c.Template)), c.BOS, c.EOS)
			got, err := tmpl.Render(Input{Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: c.AddGenerationPrompt, Kwargs: c.Kwargs})
			var raised *RaisedError
			if errors.As(err, &raised) {
				got = "raised: " + raised.Message
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(read(t, "testdata/golden/"+name+".txt")), got); diff != "" {
				t.Error("golden (-), got (+):", diff)
			}
		})
	}
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func must(t testing.TB, source, bos, eos string) *Template {
	t.Helper()
	tmpl, err := New(source, bos, eos)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.now = clock
	return tmpl
}

// TestSeedling renders the built-in model's template. The prompt is what
// llama-server's /apply-template gave for the same messages and the same model.
func TestSeedling(t *testing.T) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	const text = "Ticket 48213377. Alice was beginning to get very tired of sitting by her sister on the bank, and"
	got, err := tmpl.Render(Input{
		Messages:            json.RawMessage(`[{"role":"user","content":"` + text + `"}]`),
		AddGenerationPrompt: true,
	})
	if want := "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n"; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if !strings.HasPrefix(tmpl.Source(), "{% for message in messages %}") {
		t.Errorf("source is %q", tmpl.Source())
	}
}

func TestFromGGUF(t *testing.T) {
	build := func(kv map[string]any) *gguf.File {
		t.Helper()
		b := gguf.NewBuilder()
		for k, v := range kv {
			b.Set(k, v)
		}
		var out strings.Builder
		if _, err := b.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse("some.gguf", []byte(out.String()))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	const source, tokens, bos, eos = "tokenizer.chat_template", "tokenizer.ggml.tokens",
		"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"

	tmpl, err := FromGGUF(build(map[string]any{
		source: "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
		tokens: []string{"x", "<s>", "</s>"}, bos: uint32(1), eos: uint32(2),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(Input{Messages: user("hi")}); got != "<s>hi</s>" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}

	// A model without these tokens renders them as nothing.
	if tmpl, err = FromGGUF(build(map[string]any{source: "[{{ bos_token + eos_token }}]"})); err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(Input{Messages: user("hi")}); got != "[]" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}

	for name, c := range map[string]struct {
		kv   map[string]any
		want []string // parts of the error
	}{
		"no template":   {map[string]any{"general.name": "x"}, []string{"some.gguf", source, "no chat template", "/v1/completions"}},
		"not text":      {map[string]any{source: uint32(1)}, []string{"some.gguf", source, "a string"}},
		"broken":        {map[string]any{source: "ok\n{% if %}"}, []string{"some.gguf", source, "line 2"}},
		"id outside":    {map[string]any{source: "", tokens: []string{"a"}, bos: uint32(1)}, []string{"some.gguf", bos, "1 tokens"}},
		"no vocabulary": {map[string]any{source: "", eos: uint32(1)}, []string{"some.gguf", tokens}},
		"id is text":    {map[string]any{source: "", eos: "x"}, []string{"some.gguf", eos}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromGGUF(build(c.kv))
			wantError(t, err, c.want...)
		})
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func user(content string) json.RawMessage {
	data, err := json.Marshal([]map[string]string{{"role": "user", "content": content}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return data
}

// TestErrors tells a template's refusal, a stopped render and a template that
// fails apart; all name the template.
func TestErrors(t *testing.T) {
	render := func(source string) error {
		_, err := must(t, source, "", "").Render(Input{Messages: user("hi")})
		return err
	}
	var raised *RaisedError
	err := render(`{% if messages[0].role != 'system' %}{{ raise_exception('no system: ' ~ messages[0].role) }}{% endif %}`)
	if !errors.As(err, &raised) || raised.Message != "no system: user" {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "chat template refused", "no system: user")

	var limit *LimitError
	err = render(`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`)
	if !errors.As(err, &limit) || errors.As(err, &raised) {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "chat template")

	err = render(`{{ messages[0].nope.deeper }}`)
	if errors.As(err, &limit) || errors.As(err, &raised) {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "chat template", "messages[...].nope is undefined", `"deeper"`)
}

func TestKwargs(t *testing.T) {
	tmpl := must(t, `{{ enable_thinking }} {{ x.b }} {{ x | tojson }} {{ bos_token }} {{ tools }} {{ documents }} {{ add_generation_prompt }}`, "<s>", "")
	got, err := tmpl.Render(Input{
		Messages: user("hi"),
		Tools:    json.RawMessage(`[]`),
		Kwargs: map[string]json.RawMessage{
			"enable_thinking": json.RawMessage(`false`),
			"x":               json.RawMessage(`{"b":1.0,"a":[]}`),
			"bos_token":       json.RawMessage(`"<other>"`),
		},
	})
	if want := `False 1.0 {"b": 1.0, "a": []} <other> None None False`; got != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestConcurrent has renders of one template run at the same time, which -race
// watches.
func TestConcurrent(t *testing.T) {
	tmpl := must(t, `{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ m.content }}{% endfor %}{{ ns.n }}`, "", "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := tmpl.Render(Input{Messages: json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]`)})
				if got != "ab2" || err != nil {
					t.Errorf("got %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
