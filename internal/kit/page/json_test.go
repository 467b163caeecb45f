package page

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A program gets what a reader gets: the answer, what stands against it, all figures.
func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := pageOf(t, Options{}, twoArms()...).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema  string
		Answer  []string
		Checks  []struct{ Level, Text string }
		Summary struct {
			Schema string
			Cells  []struct{ Arm string }
		}
		Comparison struct {
			Schema string
			Pairs  []struct{ Arm string }
		}
		Commands []string
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != JSONSchema || got.Summary.Schema == "" || got.Comparison.Schema == "" {
		t.Errorf("forms %q, %q, %q", got.Schema, got.Summary.Schema, got.Comparison.Schema)
	}
	if len(got.Answer) != 1 || len(got.Checks) == 0 || len(got.Summary.Cells) != 4 || len(got.Comparison.Pairs) != 2 || len(got.Commands) == 0 {
		t.Errorf("%s", b.String())
	}
}
