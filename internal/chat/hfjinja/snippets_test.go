package hfjinja

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
)

// clock is the time that render_hf.py uses.
func clock() time.Time { return time.Date(2026, 9, 5, 14, 7, 9, 0, time.UTC) }

func vars(t testing.TB, data []byte) map[string]jinja.Value {
	t.Helper()
	v, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v.AsDict().Data
}

func render(source string, vars map[string]jinja.Value) (string, error) {
	p, err := Compile(source)
	if err != nil {
		return "", err
	}
	return p.Run(Env{Vars: vars, Now: clock})
}

// TestSnippets compares small templates, a corner of the language each, with
// what Jinja2 makes of them: testdata/snippets.txt, rendered by
// ../testdata/render_hf.py. Where Jinja2 gives an error, so must we; the words
// are our own.
func TestSnippets(t *testing.T) {
	data, err := os.ReadFile("testdata/snippets.vars.json")
	if err != nil {
		t.Fatal(err)
	}
	v := vars(t, data)
	if data, err = os.ReadFile("testdata/snippets.golden.json"); err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Template string
		Text     *string
		Error    string
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for _, g := range golden {
		got, err := render(g.Template, v)
		switch {
		case g.Text == nil && err == nil:
			t.Errorf("%q\n gives %q\n but an error in Jinja2: %s", g.Template, got, g.Error)
		case g.Text != nil && err != nil:
			t.Errorf("%q\n gives error %q\n want %q", g.Template, err, *g.Text)
		case g.Text != nil && got != *g.Text:
			t.Errorf("%q\n gives %q\n want  %q", g.Template, got, *g.Text)
		}
	}
}
