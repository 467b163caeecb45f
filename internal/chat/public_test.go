package chat

import (
	"encoding/json"
	"os"
	"sort"
	"testing"
	"time"
)

// publicCase is a template, and what Python's jinja2 makes of one conversation by it.
type publicCase struct {
	Name, Template string
	Input          struct {
		Messages, Tools json.RawMessage
		Generation      bool `json:"add_generation_prompt"`
		Kwargs          map[string]json.RawMessage
	}
	Text, Error *string
}

// publicCases are those that tools/peers/templates.sh made.
func publicCases(t *testing.T) (cases []publicCase) {
	t.Helper()
	path := os.Getenv("ASSAY_TEMPLATES")
	if path == "" {
		t.Skip("run by tools/peers/templates.sh")
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestPublicTemplates renders what tools/peers/templates.sh rendered in Python,
// and counts what differs. It is run by that script.
func TestPublicTemplates(t *testing.T) {
	cases := publicCases(t)
	templates := map[string]*Template{}
	failures := map[string]error{}
	wrong := map[string]int{} // templates with a difference
	equal, refused, different := 0, 0, 0
	for _, c := range cases {
		tmpl, ok := templates[c.Template]
		if !ok {
			var err error
			if tmpl, err = New(c.Template, "<s>", "</s>"); err != nil {
				failures[c.Template] = err
			} else {
				tmpl.now = func() time.Time { return time.Date(2026, 9, 5, 14, 7, 9, 0, time.UTC) }
			}
			templates[c.Template] = tmpl
		}
		var got string
		err := failures[c.Template]
		if err == nil {
			got, err = tmpl.Render(Input{Messages: c.Input.Messages, Tools: c.Input.Tools, AddGenerationPrompt: c.Input.Generation, Kwargs: c.Input.Kwargs})
		}
		switch {
		case err != nil && c.Error != nil:
			refused++
		case err == nil && c.Text != nil && got == *c.Text:
			equal++
		default:
			different++
			if wrong[c.Template]++; wrong[c.Template] > 1 {
				continue
			}
			switch {
			case err != nil:
				t.Logf("%s: %v", c.Name, err)
			case c.Error != nil:
				t.Logf("%s: rendered, where jinja2 has %.200s", c.Name, *c.Error)
			default:
				at := 0
				for at < len(got) && at < len(*c.Text) && got[at] == (*c.Text)[at] {
					at++
				}
				t.Logf("%s: differs at byte %d:\n got %.160q\nwant %.160q", c.Name, at, got[max(at-40, 0):], (*c.Text)[max(at-40, 0):])
			}
		}
	}
	var names []string
	for n := range wrong {
		names = append(names, n)
	}
	sort.Strings(names)
	t.Logf("%d templates, %d renders: %d equal, %d refused by both, %d different (in %d templates)", len(templates), len(cases), equal, refused, different, len(names))
	// What is left is a matter of the engine's limits, see package hfjinja.
	if most := len(cases) / 100; different > most {
		t.Errorf("%d renders differ, over 1%% (%d)", different, most)
	}
}
