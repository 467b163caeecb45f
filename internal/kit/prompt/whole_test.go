package prompt

import (
	"strings"
	"testing"
)

// A text that is read whole has the count that it adds behind a nonce, and every
// prompt of it has the same. With no tokenizer the slice says so.
func TestWhole(t *testing.T) {
	words := func(s string) ([]int32, error) { return make([]int32, len(strings.Fields(s))), nil }
	m := NewMaker(Books(), words, "")
	s, err := m.Whole("question", "Why is the sky blue?\n")
	if err != nil || s.Tokens != 5 || s.Source != "question" || s.SHA256 != hash("Why is the sky blue?\n") {
		t.Fatalf("%+v, %v", s, err)
	}
	p, err := m.Prompt(s)
	if err != nil || p.Tokens != 7 || !strings.HasSuffix(p.Text, "\n\nWhy is the sky blue?\n") || !strings.HasPrefix(p.Text, p.Nonce) {
		t.Errorf("%+v, %v", p, err)
	}
	if s, err := NewMaker(Books(), nil, "nobody counts").Whole("q", "text"); err != nil || s.Tokens != 0 || s.WhyInexact != "nobody counts" {
		t.Errorf("without a tokenizer: %+v, %v", s, err)
	}
	if _, err := m.Whole("empty", " \n"); err == nil {
		t.Error("an empty text is a prompt")
	}
	nothing := func(string) ([]int32, error) { return []int32{1}, nil }
	if _, err := NewMaker(Books(), nothing, "").Whole("q", "text"); err == nil {
		t.Error("a tokenizer that finds nothing in the text is believed")
	}
}
