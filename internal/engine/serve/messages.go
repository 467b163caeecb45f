package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/chat"
)

// readChat reads what a template is rendered from.
func readChat(f *fields, o *form) (chat.Input, *apiError) {
	o.readTools(f)
	in := chat.Input{
		Messages:            readMessages(f),
		Tools:               o.rawTools,
		AddGenerationPrompt: f.bool("add_generation_prompt", true),
		Adapt:               true,
	}
	if raw := f.get("chat_template_kwargs"); raw != nil {
		if json.Unmarshal(raw, &in.Kwargs) != nil {
			f.fail("chat_template_kwargs", "%s is not an object", kind(raw))
		}
	}
	// OpenAI's setting, under the names that templates have for it.
	if effort := f.string("reasoning_effort", ""); effort != "" {
		if in.Kwargs == nil {
			in.Kwargs = map[string]json.RawMessage{}
		}
		set := func(name, value string) {
			if in.Kwargs[name] == nil {
				in.Kwargs[name] = json.RawMessage(value)
			}
		}
		quoted, _ := json.Marshal(effort) // a string always can be
		set("reasoning_effort", string(quoted))
		if effort == "none" {
			set("enable_thinking", "false")
		}
	}
	return in, f.err
}

// readMessages checks the messages and returns them with each content that is a
// list of text parts joined to one string, which is what templates take. All
// else, the order of keys too, stays as it was sent.
func readMessages(f *fields) json.RawMessage {
	raw := f.get("messages")
	var list []json.RawMessage
	switch {
	case raw == nil:
		f.fail("messages", "missing (want an array of messages)")
		return nil
	case kind(raw) != "an array" || json.Unmarshal(raw, &list) != nil:
		f.fail("messages", "%s is not an array of messages", kind(raw))
		return nil
	case len(list) == 0:
		f.fail("messages", "empty (want at least one message)")
		return nil
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, m := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeMessage(&out, m); err != nil {
			f.fail("messages", "message %d: %v", i, err)
			return nil
		}
	}
	out.WriteByte(']')
	return out.Bytes()
}

func writeMessage(out *bytes.Buffer, raw json.RawMessage) error {
	if kind(raw) != "an object" {
		return fmt.Errorf("%s is not an object with role and content", kind(raw))
	}
	// A Decoder, since a map would lose the order of the keys.
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the brace
	var role, content, calls json.RawMessage
	out.WriteByte('{')
	for n := 0; dec.More(); n++ {
		var value json.RawMessage
		key, err := dec.Token()
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return err
		}
		name, _ := key.(string) // a key of an object is one
		switch name {
		case "role":
			role = value
		case "tool_calls":
			calls = value
		case "content":
			if value, err = joinParts(value); err != nil {
				return err
			}
			content = value
		}
		if n > 0 {
			out.WriteByte(',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return err
		}
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	if s, ok := asString(role); !ok || s == "" {
		return fmt.Errorf("role: %s is not the name of a role", kind(role))
	}
	if isNull(content) && isNull(calls) {
		return fmt.Errorf("content: missing (want a string, or a list of text parts)")
	}
	return nil
}

func isNull(raw json.RawMessage) bool {
	return raw == nil || kind(raw) == "null"
}

// joinParts returns content as a string, or null. Parts are joined by a newline,
// as llama-server does for templates that take strings.
func joinParts(content json.RawMessage) (json.RawMessage, error) {
	switch kind(content) {
	case "a string", "null":
		return content, nil
	case "an array":
	default:
		return nil, fmt.Errorf("content: %s is neither a string nor a list of text parts", kind(content))
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, fmt.Errorf("content: not a list of text parts: %w", err)
	}
	texts := make([]string, 0, len(parts))
	for i, p := range parts {
		switch {
		case p.Type != "text":
			return nil, fmt.Errorf("content: part %d has the type %q, but only text is supported", i, p.Type)
		case p.Text == nil:
			return nil, fmt.Errorf("content: part %d has no text", i)
		}
		texts = append(texts, *p.Text)
	}
	return json.Marshal(strings.Join(texts, "\n"))
}
