package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
)

//go:embed page.html.tmpl
var templateText string

//go:embed page.css
var styleText string

var templates = template.Must(template.New("").Parse(templateText))

// policy lets a page apply its own style and nothing else: no script runs, and
// nothing is loaded from anywhere. A live page may ask its own server.
func policy(live bool) string {
	sum := sha256.Sum256([]byte("\n" + styleText))
	p := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	if live {
		p += "; script-src 'self'; connect-src 'self'"
	}
	return p
}

// WriteHTML writes the page.
func (p *Page) WriteHTML(w io.Writer) error {
	return templates.ExecuteTemplate(w, "page", struct {
		View   view
		Policy string
		Style  template.HTML // this package's own text: none of it is from rows
	}{p.view, policy(p.options.Live), template.HTML("<style>\n" + styleText + "</style>")})
}

// WriteBody writes what a live page replaces when rows were added: all that
// stands in its main element.
func (p *Page) WriteBody(w io.Writer) error {
	return templates.ExecuteTemplate(w, "body", p.view)
}
