package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"

	"assay/internal/chat/hfjinja"
)

func decode(field string, data json.RawMessage) (jinja.Value, error) {
	v, err := hfjinja.Decode(data)
	if err != nil {
		return v, &InputError{Field: field, Problem: err.Error()}
	}
	return v, nil
}

// wrong is the error for a value of the wrong kind.
func wrong(field, want string, found jinja.Value) error {
	return &InputError{Field: field, Problem: fmt.Sprintf("expected %s, found %s", want, kind(found))}
}

// kind is JSON's name for what v is.
func kind(v jinja.Value) string {
	switch {
	case v.IsUndefined():
		return "nothing"
	case v.IsNone():
		return "null"
	case v.IsBool():
		return "a boolean"
	case v.IsString():
		return "a string"
	case v.IsList() && v.AsList().Len() == 0:
		return "an empty array"
	case v.IsList():
		return "an array"
	case v.IsDict():
		return "an object"
	}
	return "a number"
}

// messages are the request's, checked and in the form that the template reads.
func (t *Template) messages(data json.RawMessage, adapt bool) (jinja.Value, error) {
	const want = "an array of at least one message"
	if len(data) == 0 {
		return jinja.None(), wrong("messages", want, jinja.Undefined())
	}
	v, err := decode("messages", data)
	if err != nil {
		return v, err
	}
	if !v.IsList() || v.AsList().Len() == 0 {
		return v, wrong("messages", want, v)
	}
	items := v.AsList().Items
	for i, m := range items {
		field := fmt.Sprintf("messages[%d]", i)
		if !m.IsDict() {
			return v, wrong(field, `an object with "role" and "content"`, m)
		}
		d := m.AsDict()
		if role, _ := d.Get("role"); !role.IsString() {
			return v, wrong(field+".role", `a string such as "user"`, role)
		}
		content, err := t.content(field+".content", d)
		if err != nil {
			return v, err
		}
		items[i] = message(d, content)
		if calls, ok := items[i].AsDict().Get("tool_calls"); ok && adapt && t.readsObjects() {
			parseCalls(calls)
		}
	}
	return v, nil
}

// content is a message's text, or its list of text parts when the template can
// read one.
func (t *Template) content(field string, d *jinja.Dict) (jinja.Value, error) {
	v, _ := d.Get("content")
	if v.IsUndefined() || v.IsNone() || v.IsString() {
		return v, nil
	}
	if !v.IsList() {
		return v, wrong(field, "a string, null or an array of parts", v)
	}
	texts := make([]string, v.AsList().Len())
	for i, part := range v.AsList().Items {
		field := fmt.Sprintf("%s[%d]", field, i)
		if !part.IsDict() {
			return v, wrong(field, `a part such as {"type":"text","text":"..."}`, part)
		}
		typ, _ := part.AsDict().Get("type")
		if !typ.IsString() {
			return v, wrong(field+".type", `the string "text"`, typ)
		}
		if typ.AsString() != "text" {
			return v, &InputError{Field: field + ".type", Problem: fmt.Sprintf("%q is not supported; this model reads only parts of type \"text\"", typ.AsString())}
		}
		text, _ := part.AsDict().Get("text")
		if !text.IsString() {
			return v, wrong(field+".text", "a string", text)
		}
		texts[i] = text.AsString()
	}
	if t.readsLists() {
		return v, nil
	}
	return jinja.NewString(strings.Join(texts, "\n")), nil
}

// message is d as transformers hands it to templates: without its nulls, and
// with its reasoning under the names that templates know.
func message(d *jinja.Dict, content jinja.Value) jinja.Value {
	out := jinja.NewDict()
	reasoning := jinja.None()
	for _, name := range []string{"reasoning", "thinking", "reasoning_content"} {
		if v, ok := d.Get(name); ok && !v.IsNone() {
			reasoning = v
		}
	}
	if !reasoning.IsNone() {
		out.AsDict().Set("thinking", reasoning)
	}
	for _, k := range d.Keys {
		v := d.Data[k]
		if k == "content" {
			v = content
		}
		if !v.IsNone() {
			out.AsDict().Set(k, v)
		}
	}
	if !reasoning.IsNone() {
		out.AsDict().Set("reasoning_content", reasoning)
	}
	return out
}

// parseCalls turns arguments that are the text of an object into the object.
func parseCalls(calls jinja.Value) {
	if !calls.IsList() {
		return
	}
	for _, c := range calls.AsList().Items {
		if !c.IsDict() {
			continue
		}
		d := c.AsDict()
		if f, ok := d.Get("function"); ok && f.IsDict() {
			d = f.AsDict()
		}
		arguments, _ := d.Get("arguments")
		if !arguments.IsString() {
			continue
		}
		if v, err := hfjinja.Decode([]byte(arguments.AsString())); err == nil && v.IsDict() {
			d.Set("arguments", v)
		}
	}
}

// fillContents gives messages without content an empty one, and says whether
// there were any.
func fillContents(messages jinja.Value) (any bool) {
	for _, m := range messages.AsList().Items {
		if !m.AsDict().Has("content") {
			m.AsDict().Set("content", jinja.NewString(""))
			any = true
		}
	}
	return any
}

// tools are the request's; none when there are none.
func tools(data json.RawMessage) (jinja.Value, error) {
	if len(data) == 0 {
		return jinja.None(), nil
	}
	v, err := decode("tools", data)
	if err != nil || v.IsNone() {
		return v, err
	}
	if !v.IsList() {
		return v, wrong("tools", "an array of tools", v)
	}
	for i, tool := range v.AsList().Items {
		if !tool.IsDict() {
			return v, wrong(fmt.Sprintf("tools[%d]", i), "an object", tool)
		}
	}
	if v.AsList().Len() == 0 {
		return jinja.None(), nil
	}
	return v, nil
}
