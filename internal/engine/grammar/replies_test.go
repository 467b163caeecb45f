package grammar

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"assay/internal/engine"
	"assay/internal/engine/sample"
	"assay/internal/gguf"
	"assay/internal/tokenizer"
	"assay/models/seedling"
)

// Whatever the schema, the answer that the built-in model writes under it is
// complete, is JSON and satisfies the schema by a validator that nobody here
// wrote. The model is drawn from as it is, at temperature 1, and often has
// hardly more tokens than the shortest answer needs.
func TestEveryReplySatisfiesItsSchema(t *testing.T) {
	n := 50
	switch {
	case os.Getenv("ASSAY_WIDE") != "":
		n = 1000
	case testing.Short():
		n = 3
	}
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Load(t.Context(), f, engine.Options{Threads: 1, Context: 1024}, func(done, total int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	v := NewVocabulary(e.Tokenizer())
	prompt := e.Tokenizer().Encode("Once upon a time", tokenizer.Options{})
	tight := 0
	for seed := range n {
		schema := newSchemaMaker(uint64(seed)).document()
		what := fmt.Sprintf("schema %d: %s", seed, schema)
		x, err := Schema(schema)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		g, err := Compile(x, v)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		matcher := g.Matcher()
		need := matcher.Need()
		room := need + rand.New(rand.NewPCG(uint64(seed), 9)).IntN(60)
		answer, r := complete(t, e, prompt, matcher, room, uint64(seed))
		if r.Finish != engine.FinishStop && r.Timings.Predicted < room {
			t.Errorf("%s\n%q: finish %s after %d of %d tokens", what, answer, r.Finish, r.Timings.Predicted, room)
		}
		if r.Timings.Predicted == room {
			tight++
		}
		if err := validate(schema, answer); err != nil {
			t.Errorf("%s\n%q (%d tokens, at least %d needed): %v", what, answer, r.Timings.Predicted, need, err)
		}
		if !g.Match(answer) {
			t.Errorf("%s\n%q does not match the grammar that it was written by", what, answer)
		}
	}
	t.Logf("%d schemas; %d answers used all of their tokens", n, tight)
	if n >= 50 && (tight == 0 || tight == n) {
		t.Errorf("%d of %d answers used all of their tokens: both kinds should occur", tight, n)
	}
}

func complete(t *testing.T, e *engine.Engine, prompt []int32, c sample.Constraint, room int, seed uint64) (string, engine.Result) {
	t.Helper()
	p := sample.Params{Seed: seed, Temperature: 1, TopP: 1, RepeatPenalty: 1}
	var ids []int32
	r, err := e.Generate(context.Background(), engine.Request{Prompt: prompt, MaxTokens: room, Sampling: p, Logprobs: -1, Constraint: c}, func(tk engine.Token) error {
		if !tk.End {
			ids = append(ids, tk.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Tokenizer().Decode(ids, false), r
}

func validate(schema []byte, answer string) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal([]byte(answer), &value); err != nil {
		return err
	}
	return r.Validate(value)
}

// schemaMaker makes random schemas that have values.
type schemaMaker struct {
	r *rand.Rand
}

func newSchemaMaker(seed uint64) *schemaMaker {
	return &schemaMaker{rand.New(rand.NewPCG(seed, 7))}
}

type object = map[string]any

func (m *schemaMaker) document() []byte {
	root := m.any(3)
	if m.r.IntN(4) == 0 { // a schema that contains itself
		root["$defs"] = object{"tree": object{
			"type": "object", "properties": object{
				"label": m.text(), "left": object{"anyOf": []any{object{"$ref": "#/$defs/tree"}, object{"type": "null"}}},
				"more": object{"type": "array", "items": object{"$ref": "#/$defs/tree"}, "maxItems": 2},
			}, "required": []string{"label", "left"}, "additionalProperties": false,
		}}
		root = object{"$defs": root["$defs"], "type": "object", "properties": object{"root": object{"$ref": "#/$defs/tree"}}, "required": []string{"root"}}
	}
	raw, _ := json.Marshal(root)
	return raw
}

func (m *schemaMaker) any(depth int) object {
	n := 13
	if depth == 0 {
		n = 8
	}
	switch m.r.IntN(n) {
	case 0, 1:
		return m.text()
	case 2:
		return m.whole()
	case 3:
		return m.number()
	case 4:
		return object{"enum": []any{"red", "gr\"een", 7, 2.5, nil, true, "bl\u00fce"}[m.r.IntN(5):]}
	case 5:
		return object{"const": []any{"fixed", 42, false, nil, []any{1, "a"}, object{"k": "v"}}[m.r.IntN(6)]}
	case 6:
		return object{"type": []string{"boolean", "null"}}
	case 7:
		return object{"type": []any{"string", "integer"}, "maxLength": 5, "minimum": 10}
	case 8:
		return m.array(depth)
	case 9:
		return object{"anyOf": []any{m.any(depth - 1), m.any(depth - 1)}}
	case 10:
		return object{"oneOf": []any{
			object{"type": "object", "properties": object{"kind": object{"const": "a"}, "x": m.any(depth - 1)}, "required": []string{"kind", "x"}},
			object{"type": "object", "properties": object{"kind": object{"const": "b"}, "y": m.any(depth - 1)}, "required": []string{"kind"}},
			object{"type": "null"},
		}}
	case 11:
		return object{
			"allOf": []any{m.object(depth, "p"), m.object(depth, "q")},
		}
	}
	return m.object(depth, "")
}

func (m *schemaMaker) object(depth int, prefix string) object {
	props, required := object{}, []string{}
	for i := range m.r.IntN(5) {
		name := prefix + []string{"name", "age of", "a\"b", "größe", "name2"}[i]
		props[name] = m.any(depth - 1)
		if m.r.IntN(3) > 0 {
			required = append(required, name)
		}
	}
	o := object{"type": "object", "properties": props, "required": required}
	if prefix == "" {
		switch m.r.IntN(4) {
		case 0:
			o["additionalProperties"] = false
		case 1:
			o["additionalProperties"] = m.any(0)
		case 2:
			o["additionalProperties"] = true
		}
		if len(props) == 0 && m.r.IntN(2) == 0 {
			o["additionalProperties"] = m.whole()
			o["maxProperties"] = 1 + m.r.IntN(3)
			o["minProperties"] = m.r.IntN(2)
		}
	}
	return o
}

func (m *schemaMaker) array(depth int) object {
	a := object{"type": "array", "items": m.any(depth - 1), "maxItems": m.r.IntN(5)}
	if n := a["maxItems"].(int); n > 0 {
		a["minItems"] = m.r.IntN(n + 1)
	}
	if m.r.IntN(3) == 0 {
		a["prefixItems"] = []any{m.any(depth - 1), m.any(depth - 1)}
	}
	return a
}

func (m *schemaMaker) text() object {
	switch m.r.IntN(5) {
	case 0:
		return object{"type": "string"}
	case 1:
		least := m.r.IntN(40)
		return object{"type": "string", "minLength": least, "maxLength": least + m.r.IntN(10)}
	case 2:
		names := []string{"date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "uri", "duration"}
		return object{"type": "string", "format": names[m.r.IntN(len(names))]}
	}
	patterns := []string{
		`^[a-z]{2,8}$`, `^(yes|no|m\u00e4h)$`, `[0-9]+`, `^A.*Z$`, `^\d{3}-\d{4}$`, `^[^"\\]+$`, `^\w+(\s\w+)*$`, `^"q\\$`, `^é+[α-ω]?`, `^(?:a|bc)*$`, `x$`,
	}
	o := object{"type": "string", "pattern": patterns[m.r.IntN(len(patterns))]}
	if o["pattern"] == `^(yes|no|m\u00e4h)$` {
		o["pattern"] = `^(yes|no|mäh)$`
	}
	return o
}

func (m *schemaMaker) whole() object {
	o := object{"type": "integer"}
	switch m.r.IntN(4) {
	case 0:
		lo := m.r.IntN(2000) - 1000
		o["minimum"], o["maximum"] = lo, lo+m.r.IntN(1500)
	case 1:
		o["exclusiveMinimum"] = m.r.IntN(20) - 10
	case 2:
		o["multipleOf"], o["minimum"], o["exclusiveMaximum"] = 1+m.r.IntN(9), -50, 50
	}
	return o
}

func (m *schemaMaker) number() object {
	o := object{"type": "number"}
	switch m.r.IntN(4) {
	case 0:
		lo := float64(m.r.IntN(4000)-2000) / 16
		o["minimum"], o["maximum"] = lo, lo+float64(m.r.IntN(100))/8
	case 1:
		o["exclusiveMinimum"], o["exclusiveMaximum"] = 0, 1
	case 2:
		o["maximum"] = -0.25
	}
	return o
}
