package grammar

import (
	"testing"
)

func TestQuick(t *testing.T) {
	e, err := Schema([]byte(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":-5,"maximum":130}},"required":["name","age"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := Compile(e, vocabulary(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(g.Shortest(), len(g.p.nodes), g.p.classes)
	for text, want := range map[string]bool{
		`{"name":"x","age":130}`: true, `{"name": "x\u00e9é😀", "age": -5}`: true, `{"name":"x","age":131}`: false, `{"name":"x","age":01}`: false,
		`{"name":"x"}`: false, `{"age":1,"name":""}`: false, `{}`: false, ` {}`: false,
	} {
		if got := g.Match(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
