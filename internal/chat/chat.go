// Package chat turns the messages of a chat into the prompt text of a model, by
// the model's own template (tokenizer.chat_template in a GGUF file).
//
// Templates are rendered as Hugging Face transformers renders them (package
// hfjinja), since that is what models are trained with. So the text holds what
// the template writes, the begin-of-text token included: tokenize it with
// special tokens parsed and none added.
//
// As in transformers, a template sees messages, tools (none when there are
// none), documents (none), add_generation_prompt, bos_token, eos_token and the
// request's chat_template_kwargs; fields of a message that are null are as if
// they were not there; and reasoning_content, thinking and reasoning are three
// names of one field. Objects keep the order of their keys. Tool calls stay as
// they were sent: arguments given as a string are a string.
//
// Content that is a list of text parts is passed on as a list to templates that
// can read one; the others get the texts joined by newlines, as llama-server
// does it. Whether a template can is tried out: a list of one part must render
// as the plain string does.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"

	"assay/internal/chat/hfjinja"
	"assay/internal/gguf"
)

// RaisedError is a template's own refusal of the messages, as with
// raise_exception('Conversation roles must alternate').
type RaisedError = hfjinja.RaisedError

// LimitError says that a render was stopped: the template loops, recurses or
// grows beyond what its input can explain.
type LimitError = hfjinja.LimitError

// InputError is a mistake in the request.
type InputError struct {
	Field   string // such as "messages[2].content"
	Problem string // what was expected, and what was found
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Template is a chat template. It may be used by several goroutines.
type Template struct {
	name     string // how errors name it
	source   string
	bos, eos string
	prog     *hfjinja.Program
	now      func() time.Time

	readsLists   func() bool // whether it can read content that is a list
	readsObjects func() bool // whether it can read a call's arguments that are an object
}

// New compiles a template. bos and eos are the text of the begin and end
// tokens, "" where the model has none.
func New(source, bos, eos string) (*Template, error) {
	return compile("chat template", source, bos, eos)
}

func compile(name, source, bos, eos string) (*Template, error) {
	prog, err := hfjinja.Compile(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &Template{name: name, source: source, bos: bos, eos: eos, prog: prog, now: time.Now}
	t.readsLists = sync.OnceValue(t.tryList)
	t.readsObjects = sync.OnceValue(t.tryObject)
	return t, nil
}

// FromGGUF compiles the template that a model file carries.
func FromGGUF(f *gguf.File) (*Template, error) {
	const key = "tokenizer.chat_template"
	source, err := f.String(key)
	if errors.Is(err, gguf.ErrMissing) {
		return nil, fmt.Errorf("%w: the model carries no chat template; give it plain prompts (/v1/completions), or convert it again from a model that has one", err)
	}
	if err != nil {
		return nil, err
	}
	bos, err := tokenText(f, "tokenizer.ggml.bos_token_id")
	if err != nil {
		return nil, err
	}
	eos, err := tokenText(f, "tokenizer.ggml.eos_token_id")
	if err != nil {
		return nil, err
	}
	return compile(f.Name()+": "+key, source, bos, eos)
}

// tokenText is the text of the token whose id is at key; "" when there is none.
func tokenText(f *gguf.File, key string) (string, error) {
	id, err := f.Uint(key)
	if errors.Is(err, gguf.ErrMissing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	const vocabulary = "tokenizer.ggml.tokens"
	tokens, err := f.Strings(vocabulary)
	if err != nil {
		return "", err
	}
	if id >= uint64(len(tokens)) {
		return "", fmt.Errorf("%s: key %q is %d, but %s has %d tokens", f.Name(), key, id, vocabulary, len(tokens))
	}
	return tokens[id], nil
}

// Source is the template's text.
func (t *Template) Source() string { return t.source }

// Input is a request's part that templates see, as JSON.
type Input struct {
	Messages            json.RawMessage // an array of messages, at least one
	Tools               json.RawMessage // an array of tools; nil, null or empty for none
	AddGenerationPrompt bool
	// Adapt makes of OpenAI's messages what the template can read. A call's
	// arguments that are a string with a JSON object become that object, where
	// the template reads objects: templates are written for them, and most write
	// a string twice quoted, or fail. And where the template fails on messages
	// of which one has no content, that is "" instead.
	Adapt bool
	// Kwargs is chat_template_kwargs: more variables, such as enable_thinking.
	// They may replace the others, but for messages and tools.
	Kwargs map[string]json.RawMessage
}

// Render is the prompt. Errors are an *InputError when the request is wrong, a
// *RaisedError when the template refuses it, a *LimitError when the render was
// stopped; any other is the template's failure on this input.
func (t *Template) Render(in Input) (string, error) {
	messages, err := t.messages(in.Messages, in.Adapt)
	if err != nil {
		return "", err
	}
	tools, err := tools(in.Tools)
	if err != nil {
		return "", err
	}
	vars := map[string]jinja.Value{
		"documents":             jinja.None(),
		"add_generation_prompt": jinja.NewBool(in.AddGenerationPrompt),
		"bos_token":             jinja.NewString(t.bos),
		"eos_token":             jinja.NewString(t.eos),
	}
	size := len(in.Messages) + len(in.Tools)
	for name, data := range in.Kwargs {
		field := "chat_template_kwargs." + name
		if name == "messages" || name == "tools" {
			return "", &InputError{Field: field, Problem: "not allowed here; it is a field of the request itself"}
		}
		if vars[name], err = decode(field, data); err != nil {
			return "", err
		}
		size += len(data)
	}
	vars["messages"], vars["tools"] = messages, tools

	env := hfjinja.Env{Vars: vars, InputBytes: size, Now: t.now}
	text, err := t.prog.Run(env)
	var raised *RaisedError
	if err != nil && in.Adapt && !errors.As(err, &raised) && fillContents(messages) {
		text, err = t.prog.Run(env)
	}
	if err != nil {
		if errors.As(err, &raised) {
			return "", fmt.Errorf("%s refused the messages: %w", t.name, err)
		}
		return "", fmt.Errorf("%s: %w", t.name, err)
	}
	return text, nil
}

// tryList reports whether content as a list renders as the plain string does.
func (t *Template) tryList() bool {
	plain, err := t.try(`[{"role":"user","content":"probe"}]`)
	if err != nil {
		return false
	}
	list, err := t.try(`[{"role":"user","content":[{"type":"text","text":"probe"}]}]`)
	return err == nil && list == plain
}

// tryObject reports whether a call's arguments as an object render, and show.
func (t *Template) tryObject() bool {
	text, err := t.try(`[{"role":"user","content":"probe"},{"role":"assistant","content":"","tool_calls":[` +
		`{"id":"call00000","type":"function","function":{"name":"probe_name","arguments":{"probe_key":"probe_value"}}}]}]`)
	return err == nil && strings.Contains(text, "probe_key") && strings.Contains(text, "probe_value")
}

func (t *Template) try(messages string) (string, error) {
	v, err := hfjinja.Decode([]byte(messages))
	if err != nil {
		return "", err
	}
	return t.prog.Run(hfjinja.Env{Now: t.now, Vars: map[string]jinja.Value{
		"messages":  v,
		"tools":     jinja.None(),
		"documents": jinja.None(),
		"bos_token": jinja.NewString(t.bos),
		"eos_token": jinja.NewString(t.eos),

		"add_generation_prompt": jinja.NewBool(false),
	}})
}
