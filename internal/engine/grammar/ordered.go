package grammar

import (
	"bytes"
	"encoding/json"
)

// member is one of an object, in the order of the text.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object; ok is false for any other value. A name that comes
// twice has its last value.
func members(raw json.RawMessage) (out []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	at := map[string]int{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, _ := key.(string)
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil, false
		}
		if i, twice := at[name]; twice {
			out[i].value = value
			continue
		}
		at[name] = len(out)
		out = append(out, member{name, value})
	}
	return out, true
}

// find returns a member's value, or nil.
func find(list []member, name string) json.RawMessage {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// elements reads an array.
func elements(raw json.RawMessage) (out []json.RawMessage, ok bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	return out, json.Unmarshal(raw, &out) == nil
}

// literal is a JSON value in its shortest form, as models write it: characters
// beyond ASCII as they are.
func literal(raw json.RawMessage) string {
	var b bytes.Buffer
	var s string
	if json.Unmarshal(raw, &s) == nil && bytes.TrimSpace(raw)[0] == '"' {
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(s) == nil {
			return string(bytes.TrimSpace(b.Bytes()))
		}
	}
	b.Reset()
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// jsonString is a text as JSON.
func jsonString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always can be
	return string(bytes.TrimSpace(b.Bytes()))
}
