package imported

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// file is a file, read as far as telling its form takes.
type file struct {
	name    string
	data    []byte
	object  map[string]json.RawMessage // where it is one object
	lines   []map[string]json.RawMessage
	list    []map[string]json.RawMessage
	version string          // of the tool, set by read
	rest    json.RawMessage // what of the file belongs to no run, set by read
}

// maxFields is the most fields that an object of a result has.
const maxFields = 10_000

// parse reads the file as JSON, as lines of JSON, or as neither. It is an error
// where it holds more than any result does.
func parse(name string, data []byte) (*file, error) {
	f := &file{name: name, data: data}
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return f, nil
	}
	var err error
	switch text[0] {
	case '[':
		var all list[object]
		if err = json.Unmarshal(text, &all); err == nil {
			for _, o := range all {
				f.list = append(f.list, o)
			}
		}
	case '{':
		var o object
		if err = json.Unmarshal(text, &o); err == nil {
			f.object, f.lines = o, []map[string]json.RawMessage{o} // or lines, of which there is one
		} else if !errors.Is(err, errTooMany) {
			f.lines, err = jsonLines(text)
		}
	}
	if errors.Is(err, errTooMany) {
		return nil, err
	}
	return f, nil
}

// jsonLines reads an object a line; nil where a line is none.
func jsonLines(text []byte) ([]map[string]json.RawMessage, error) {
	var out []map[string]json.RawMessage
	for line := range bytes.Lines(text) {
		var o object
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, err
		}
		if len(out) == maxRows {
			return nil, fmt.Errorf("%w lines: %d at most", errTooMany, maxRows)
		}
		out = append(out, o)
	}
	return out, nil
}

var errTooMany = errors.New("too many")

// list is a list of a stranger's, of maxRows values at most. A value takes two
// bytes of a file and many times that in memory.
type list[T any] []T

// UnmarshalJSON reads one value after the other.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, fmt.Errorf("%.20q, want a list", data))
	}
	for dec.More() {
		if len(*l) == maxRows {
			return fmt.Errorf("%w values in a list: %d at most", errTooMany, maxRows)
		}
		var v T
		if err := dec.Decode(&v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	return nil
}

// object is an object of a stranger's, of maxFields fields at most.
type object map[string]json.RawMessage

// UnmarshalJSON reads one field after the other.
func (o *object) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, fmt.Errorf("%.20q, want an object", data))
	}
	*o = object{}
	for dec.More() {
		if len(*o) == maxFields {
			return fmt.Errorf("%w fields in an object: %d at most", errTooMany, maxFields)
		}
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		(*o)[name.(string)] = v // names of objects are strings
	}
	return nil
}

// has says whether an object has all of these fields.
func has(m map[string]json.RawMessage, names ...string) bool {
	for _, n := range names {
		if _, ok := m[n]; !ok {
			return false
		}
	}
	return m != nil
}

// decoded reads a record into a struct.
func decoded[T any](raw json.RawMessage) (T, error) {
	var v T
	err := json.Unmarshal(raw, &v)
	return v, err
}

// again writes an object that was taken apart.
func again(m map[string]json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil // it was read as JSON
	}
	return raw
}

// without is an object without some of its fields.
func without(m map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, v := range m {
		out[name] = v
	}
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// holdsNull says whether JSON has a null anywhere.
func holdsNull(raw json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return false
		}
		if err != nil || t == nil {
			return err == nil
		}
	}
}

// isNull says whether a value is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// plain is a value as words: of a string, what it says.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
