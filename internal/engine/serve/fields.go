package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
)

// fields reads a JSON object's members by name. A member that is absent or null
// gives the default; the first one that is wrong is kept in err, so that a
// caller reads all it needs and checks once.
type fields struct {
	raw     map[string]json.RawMessage
	err     *apiError
	release func() // gives the body's memory back to others
}

// readFields reads a request's body, which must be one JSON object. release has to be
// called once it is done with.
func (s *Server) readFields(w http.ResponseWriter, r *http.Request) (*fields, *apiError) {
	body, release, err := s.bodies.read(w, r, s.config.Stall)
	if err != nil {
		return nil, err
	}
	f, err := parseFields(body)
	if err != nil {
		release()
		return nil, err
	}
	f.release = release
	return f, nil
}

func parseFields(body []byte) (*fields, *apiError) {
	if kind(body) == "nothing" {
		return nil, badRequest("the request's body is empty (want a JSON object)")
	}
	f := &fields{}
	err := json.Unmarshal(body, &f.raw)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, badRequest("the request's body is not valid JSON: at byte %d: %v", syntax.Offset, syntax)
	case err != nil || f.raw == nil:
		return nil, badRequest("the request's body must be a JSON object, not %s", kind(body))
	}
	return f, nil
}

// kind names what a JSON value is, for messages.
func kind(raw []byte) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// get returns the member's text, or nil when it is absent or null.
func (f *fields) get(name string) json.RawMessage {
	raw := f.raw[name]
	if kind(raw) == "null" || kind(raw) == "nothing" {
		return nil
	}
	return raw
}

func (f *fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = badField(name, format, args...)
	}
}

func (f *fields) bool(name string, def bool) bool {
	raw := f.get(name)
	if raw == nil {
		return def
	}
	var v bool
	if json.Unmarshal(raw, &v) != nil {
		f.fail(name, "%s is not true or false", kind(raw))
		return def
	}
	return v
}

func (f *fields) string(name, def string) string {
	raw := f.get(name)
	if raw == nil {
		return def
	}
	v, ok := asString(raw)
	if !ok {
		f.fail(name, "%s is not a string", kind(raw))
		return def
	}
	return v
}

// int reads a whole number between least and most.
func (f *fields) int(name string, def, least, most int) int {
	raw := f.get(name)
	if raw == nil {
		return def
	}
	v, ok := asInt(raw)
	switch {
	case !ok:
		f.fail(name, "%s is not a whole number", show(raw))
		return def
	case v < int64(least) || v > int64(most):
		if most == math.MaxInt {
			f.fail(name, "%d is not a whole number of at least %d", v, least)
		} else {
			f.fail(name, "%d is not a whole number between %d and %d", v, least, most)
		}
		return def
	}
	return int(v)
}

// float reads any number; its range is checked where it is used.
func (f *fields) float(name string, def float32) float32 {
	raw := f.get(name)
	if raw == nil {
		return def
	}
	v, ok := asFloat(raw)
	if !ok {
		f.fail(name, "%s is not a number", show(raw))
		return def
	}
	return float32(v)
}

// show is a value as a message quotes it: numbers as they are, the rest by kind.
func show(raw json.RawMessage) string {
	if k := kind(raw); k != "a number" || len(raw) > 40 {
		return k
	}
	return string(bytes.TrimSpace(raw))
}

func asString(raw json.RawMessage) (string, bool) {
	var v string
	ok := kind(raw) == "a string" && json.Unmarshal(raw, &v) == nil
	return v, ok
}

func asFloat(raw json.RawMessage) (float64, bool) {
	if kind(raw) != "a number" {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	return v, err == nil // an error is a number out of range
}

// asInt reads a whole number, also one written as 16.0 or 1e3.
func asInt(raw json.RawMessage) (int64, bool) {
	if kind(raw) != "a number" {
		return 0, false
	}
	if v, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64); err == nil {
		return v, true
	}
	v, ok := asFloat(raw)
	if !ok || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return 0, false
	}
	return int64(v), true
}
