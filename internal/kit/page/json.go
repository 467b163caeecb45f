package page

import (
	"encoding/json"
	"io"

	"assay/internal/kit/report"
)

// JSONSchema names the form of what WriteJSON writes.
const JSONSchema = "assay-report-1"

// WriteJSON writes what the page says, without its charts, as one JSON object.
func (p *Page) WriteJSON(w io.Writer) error {
	type checked struct {
		Level string `json:"level"` // good, note or bad
		Text  string `json:"text"`
	}
	checks := []checked{}
	for _, c := range p.view.Checks {
		checks = append(checks, checked{c.Level, c.Text})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Schema     string             `json:"schema"`
		Title      string             `json:"title"`
		Answer     []string           `json:"answer"`
		Checks     []checked          `json:"checks"` // can it be believed?
		Summary    *report.Report     `json:"summary"`
		Comparison *report.Comparison `json:"comparison"` // null: see comparison_why
		Why        string             `json:"comparison_why,omitempty"`
		Commands   []string           `json:"commands"` // what repeats and checks it
	}{JSONSchema, p.view.Title, p.view.Lead, checks, p.summary, p.compare, p.why, p.view.Commands})
}
