package grammar

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func compile(t testing.TB, schema string) *Grammar {
	t.Helper()
	e, err := Schema(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	g, err := Compile(e, vocabulary(t))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return g
}

// What each keyword lets through.
func TestSchemas(t *testing.T) {
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"string"}`, []string{`""`, `"a b"`, `"é😀"`, `"\n\"\\\u00e9"`}, []string{`a`, `"`, "\"\n\"", `"\x"`, `"\ud83d"`, "\"\xff\"", `"a"b`, ` "a"`}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"éé\n"`, `"日本語"`}, []string{`"a"`, `"abcd"`}},
		{`{"type":"string","pattern":"^[a-c]+\\d$"}`, []string{`"ab1"`}, []string{`"1"`, `"ad1"`, `"ab12"`}},
		{`{"type":"string","pattern":"b"}`, []string{`"b"`, `"abc"`, `"\nb"`}, []string{`""`, `"ac"`}},
		{`{"type":"string","pattern":"^(x|yz)","maxLength":4}`, []string{`"x"`, `"yz12"`}, []string{`"ax"`, `"yz123"`}},
		{`{"type":"string","pattern":"^[a-z]*$","minLength":2,"maxLength":3}`, []string{`"ab"`, `"abc"`}, []string{`"a"`, `"abcd"`}},
		{`{"type":"string","pattern":"^(?i)straße\"$"}`, []string{`"Straße\""`, `"STRAẞE\""`}, []string{`"strasse\""`}},
		{`{"type":"string","format":"date"}`, []string{`"2024-12-31"`, `"1999-02-28"`}, []string{`"2024-13-01"`, `"2023-02-30"`, `"2024-1-1"`}},
		{`{"type":"string","format":"date-time"}`, []string{`"2024-12-31T23:59:59Z"`, `"2024-12-31T00:00:00.5+02:00"`}, []string{`"2024-12-31"`, `"2024-12-31T24:00:00Z"`}},
		{`{"type":"string","format":"ipv4"}`, []string{`"255.0.10.1"`}, []string{`"256.0.0.1"`, `"1.2.3"`}},

		{`{"type":"integer"}`, []string{`0`, `-7`, `123456789012345`}, []string{`01`, `1.0`, `1e3`, `+1`, `-`, `1234567890123456`}},
		{`{"type":"integer","minimum":-12,"maximum":105}`, []string{`-12`, `-9`, `0`, `99`, `105`}, []string{`-13`, `106`, `-0`, `200`, `-20`}},
		{`{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":3}`, []string{`1`, `2`}, []string{`0`, `3`, `-1`}},
		{`{"type":"integer","minimum":1000}`, []string{`1000`, `99999`}, []string{`999`, `-5`}},
		{`{"type":"integer","multipleOf":25,"minimum":-30,"maximum":60}`, []string{`-25`, `0`, `50`}, []string{`-30`, `10`, `75`}},
		{`{"type":"number"}`, []string{`0`, `-0.5`, `1e5`, `2.5E-10`}, []string{`.5`, `1.`, `00`, `1e`, `NaN`}},
		{`{"type":"number","minimum":-1.5,"maximum":2}`, []string{`-1`, `0`, `1.99`, `2`, `-0.5`}, []string{`-2`, `2.1`, `3`, `-1.6`}},
		{`{"type":"number","exclusiveMinimum":0.2,"exclusiveMaximum":0.4}`, []string{`0.30`, `0.355`}, []string{`0.2`, `0.4`, `0`, `1`, `0.41`}},
		{`{"type":"number","minimum":0.25,"maximum":0.25}`, []string{`0.25`}, []string{`0.2`, `0.251`}},
		{`{"type":"boolean"}`, []string{`true`, `false`}, []string{`True`, `null`}},
		{`{"type":"null"}`, []string{`null`}, []string{`none`}},
		{`{"type":["null","integer"]}`, []string{`null`, `3`}, []string{`"3"`}},

		{`{"enum":["a",1,null,{"k":[1,2]},"ü\"</"]}`, []string{`"a"`, `1`, `null`, `{"k":[1,2]}`, `"ü\"</"`}, []string{`"b"`, `2`}},
		{`{"enum":["a","bcd",5],"type":"string","maxLength":2}`, []string{`"a"`}, []string{`"bcd"`, `5`}},
		{`{"const":"x"}`, []string{`"x"`}, []string{`"y"`}},

		{
			`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":true},"required":["b"]}`,
			[]string{`{"b":null}`, `{"a":1,"b":null}`, `{"a": 1, "b": null, "c": [1,{"x":"y"}] }`, "{\n  \"b\": null\n}"},
			[]string{`{}`, `{"a":1}`, `{"b":null,"a":1}`, `{"b":null,}`, `{"b":null,"d":1}`, `{"b":null,"b":null}`, `{,"b":null}`, "{\t\"b\":null}"},
		},
		{
			`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}`,
			[]string{`{}`, `{"a":1}`, `{"a":1,"b":true}`, `{"ab":true,"":false}`, `{"b":true}`},
			[]string{`{"a":true}`, `{"b":1}`, `{"b":true,"a":true}`, `{"\u0061":true}`},
		},
		{`{"type":"object"}`, []string{`{}`, `{"a":{"b":[]}}`, `{"ä\n":1}`}, []string{`[]`, `{"a"}`}},
		{`{"type":"object","minProperties":1,"maxProperties":2}`, []string{`{"a":1}`, `{"a":1,"b":2}`}, []string{`{}`, `{"a":1,"b":2,"c":3}`}},
		{`{"type":"object","additionalProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
		{`{"required":["x"]}`, []string{`{"x":1}`}, []string{`{}`, `1`}},

		{`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}`, []string{`[1]`, `[1, 2,3]`, "[\n 1\n]"}, []string{`[]`, `[1,2,3,4]`, `["a"]`, `[1,]`}},
		{`{"type":"array"}`, []string{`[]`, `[1,"a",[null]]`}, []string{`{}`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"}}`, []string{`[]`, `[1]`, `[1,"a"]`, `[1,"a",null,null]`}, []string{`["a"]`, `[1,null]`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":2}`, []string{`[1,"a"]`}, []string{`[1]`, `[1,"a",1]`}},

		{`{"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]}`, []string{`1`, `"a"`}, []string{`"ab"`, `null`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, []string{`{"a":1}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{}`}},
		{`{"oneOf":[{"type":"integer"},{"type":"string"}]}`, []string{`1`, `"a"`}, []string{`null`}},
		{`{"allOf":[{"type":"integer","minimum":3},{"maximum":5}]}`, []string{`3`, `5`}, []string{`2`, `6`}},
		{
			`{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":5},"b":{"type":"null"}},"required":["b"]}]}`,
			[]string{`{"a":5,"b":null}`},
			[]string{`{"a":4,"b":null}`, `{"a":5}`},
		},
		{`{"allOf":[{"properties":{"a":{}},"additionalProperties":{"type":"integer"}},{"properties":{"b":{}},"required":["b"]}]}`, []string{`{"b":1}`}, []string{`{"b":"x"}`}},

		{`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"null"}}}`, []string{`null`}, []string{`1`}},
		{
			`{"$ref":"#/$defs/list","$defs":{"list":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/list"},{"type":"null"}]}},"required":["v","next"]}}}`,
			[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}`},
			[]string{`{"v":1}`, `{"v":1,"next":{}}`},
		},
		{`{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"const":0}]}`, []string{`0`, `[]`, `[0,[[],0]]`}, []string{`[1]`}},
		{`{"allOf":[{"anyOf":[{"minimum":3},{"type":"null"}]},{"oneOf":[{"type":"integer","maximum":5},{"type":"null"}]}]}`, []string{`null`, `3`, `5`}, []string{`2`, `6`}},
		{`{"$defs":{"a":{"anyOf":[{"const":1},{"const":2}]}},"allOf":[{"$ref":"#/$defs/a"},{"anyOf":[{"$ref":"#/$defs/a"},{"const":3}]}]}`, []string{`1`, `2`}, []string{`3`}},
		{`{"anyOf":[{"$ref":"#"},{"const":1}]}`, []string{`1`}, []string{`2`}},
		{`true`, []string{`1`, `{"a":[]}`}, []string{``, `x`}},
	} {
		g := compile(t, c.schema)
		for _, text := range c.yes {
			if !g.Match(text) {
				t.Errorf("%s: %s is refused", c.schema, text)
			}
		}
		for _, text := range c.not {
			if g.Match(text) {
				t.Errorf("%s: %s is let through", c.schema, text)
			}
		}
		if s := string(g.ending(g.first)); !g.Match(s) || !json.Valid([]byte(s)) {
			t.Errorf("%s: the shortest answer is %q", c.schema, s)
		}
	}
}

// What can't be obeyed is said, by keyword and place.
func TestRefusedSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"not":{}}`: `#: the keyword "not" is not supported`,
		`{"type":"object","properties":{"a/b":{"if":{},"then":{}},"c":{"uniqueItems":true}},"patternProperties":{}}`: `#: the keyword "patternProperties" is not supported; ` +
			`#/properties/c: the keyword "uniqueItems" is not supported; #/properties/a~1b: the keyword "if" is not supported; #/properties/a~1b: the keyword "then" is not supported`,
		`{"type":"word"}`:                      `#/type: "word" is not a type`,
		`{"type":7}`:                           `#/type: neither the name of a type nor an array of such`,
		`7`:                                    `#: not a schema (want an object, true or false)`,
		`{"properties":{"a":3}}`:               `#/properties/a: not a schema`,
		`{"anyOf":[]}`:                         `#/anyOf: not an array of at least one schema`,
		`{"$ref":"http://x"}`:                  `#/$ref: "http://x" is outside the schema`,
		`{"$ref":"#/$defs/x"}`:                 `#/$ref: "#/$defs/x" leads nowhere: there is no #/$defs`,
		`{"type":"string","pattern":"a(?=b)"}`: `pattern "a(?=b)" is no pattern that is known here`,
		`{"type":"string","pattern":"a\\bb"}`:  `in a place where it is not supported here`,
		`{"type":"string","pattern":"^ab?$","maxLength":1}`: `can't be combined with minLength or maxLength`,
		`{"type":"string","format":"iri"}`:                  `the format "iri" is not supported`,
		`{"type":"integer","multipleOf":3}`:                 `multipleOf is supported only with a minimum and a maximum`,
		`{"type":"integer","minimum":"1"}`:                  `#/minimum: not a number`,
		`{"type":"string","minLength":-1}`:                  `#/minLength: not a whole number of at least 0`,
		`{"type":"integer","minimum":1e999999999}`:          `#/minimum: not a number of a size that is supported`,
		`{"oneOf":[{"type":"integer"},{"type":"number"}]}`:  `#/oneOf: options 0 and 1 may both hold for one value`,
		`{"oneOf":[{"maximum":5},{"type":"null"}]}`:         `#/oneOf: options 0 and 1 may both hold for one value`,
		`{"items":[{}]}`: `#/items: an array is not supported`,
		`{"type":"object","properties":{"a":{}},"minProperties":1}`: `minProperties and maxProperties are supported only`,
	} {
		_, err := Schema(json.RawMessage(schema))
		var bad *SchemaError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", schema, err, want)
		}
	}
	for schema, want := range map[string]string{
		`false`:                         "no finite value can satisfy it",
		`{"enum":[]}`:                   "no finite value can satisfy it",
		`{"type":"string","enum":[1]}`:  "no finite value can satisfy it",
		`{"minLength":3,"maxLength":2}`: "no finite value can satisfy it",
		`{"type":"integer","minimum":1.2,"maximum":1.8}`:                                                "no finite value can satisfy it",
		`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`:                            "no finite value can satisfy it",
		`{"allOf":[{"type":"object","additionalProperties":false},{"type":"object","required":["a"]}]}`: "no finite value can satisfy it",
	} {
		e, err := Schema(json.RawMessage(schema))
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		if _, err := Compile(e, vocabulary(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", schema, err, want)
		}
	}
}

// FuzzSchema: any text is refused or gives a grammar whose shortest answer is
// JSON, in bounded time.
func FuzzSchema(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(newSchemaMaker(seed).document())
	}
	f.Add([]byte(`{"$ref":"#","anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#/anyOf/0"}]}]}`))
	f.Add([]byte(`{"allOf":[{"anyOf":[{},{}]},{"anyOf":[{},{}]},{"anyOf":[{},{}]}]}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if len(schema) > 4096 {
			return
		}
		e, err := Schema(schema)
		if err != nil {
			return
		}
		g, err := Compile(e, vocabulary(t))
		if err != nil {
			return
		}
		if g.p.nodes[g.p.start].dist > 4096 {
			return
		}
		if s := string(g.ending(g.first)); !json.Valid([]byte(s)) || !g.Match(s) {
			t.Fatalf("the shortest answer to %s is %q", schema, s)
		}
	})
}

// What a request can make a grammar cost is bounded.
func TestLargeSchemas(t *testing.T) {
	both := `{"anyOf":[{"type":"object"},{"type":"array"},{}]}`
	many := `{"allOf":[` + strings.Repeat(both+",", 30) + `{}]}`
	if _, err := Schema(json.RawMessage(many)); err == nil || !strings.Contains(err.Error(), "too many combinations") {
		t.Errorf("3^30 combinations: %v", err)
	}
	wide := `{"enum":["` + strings.Repeat(strings.Repeat("x", 40)+`","`, 20_000) + `"]}`
	e, err := Schema(json.RawMessage(wide))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(e, vocabulary(t)); !errors.Is(err, errTooLarge) {
		t.Errorf("an enum of 800 KB: %v", err)
	}
	// An answer that can't be had is not waited for.
	m := compile(t, `{"type":"string","minLength":1000000000}`).Matcher()
	if n := m.Need(); n != endless {
		t.Errorf("a string of 10^9 characters needs %d tokens", n)
	}
	if mask := m.Allowed(); len(mask) == 0 {
		t.Error("there is no mask")
	}
}
