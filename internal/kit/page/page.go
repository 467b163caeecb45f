// Package page makes the report that people read: of any rows, one HTML file
// that needs nothing beside it, or a post for a forum.
//
// The page holds no script and may load nothing (its own policy forbids both),
// so that it is as safe to open as the rows of a stranger are not. All text of
// rows goes through html/template and, before that, through clean. Charts are SVG
// made here: their x is in percent and their y in pixels, so that they fit a
// phone, a screen and paper without being scaled, and their text stays legible.
//
// The same rows give the same page, byte for byte: it holds no time of its own.
package page

import (
	"context"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

// Folder is where rows were read.
type Folder struct {
	Name string // as the user gave it, for commands and labels
	Path string // below which evidence lies; empty: nowhere (standard input)
	Link string // URL of Path from where the page will be; empty: nothing is linked
	Plan string // the plan that is kept there, which assay run takes again; empty: none
}

// Options say what a page shows and how.
type Options struct {
	Base   string   // arm that the others are held against; empty: the first
	Metric string   // the figure that is tested, by name or path; empty: decode
	Allow  []string // kinds of mismatch that a comparison passes over
	Split  bool     // the rows of each folder are an arm of their own
	// Version names this program in the page's foot.
	Version string
	// Live makes a page that renews itself while rows are being written. It needs
	// the server of package ui.
	Live bool
	// Query is what the live page adds to the addresses of its own server.
	Query string
}

// Builder collects rows. It keeps what it has read of evidence, so that a page
// can be made again after further rows.
type Builder struct {
	options Options
	entries []entry
	traces  map[string]*trace // by folder of evidence

	broken      int    // lines that are no rows
	firstBroken string // what is wrong with the first of them
}

// entry is one row and where it comes from.
type entry struct {
	row    *row.Row
	folder *Folder
}

// NewBuilder gives a Builder without rows.
func NewBuilder(o Options) *Builder {
	return &Builder{options: o, traces: map[string]*trace{}}
}

// Add takes one row. Of what the page does not show it keeps nothing.
func (b *Builder) Add(r *row.Row, f *Folder) {
	kept := *r
	kept.Extra, kept.Sources, kept.CompletionHead, kept.Assay = nil, nil, nil, nil
	b.entries = append(b.entries, entry{&kept, f})
}

// AddBroken takes a line that is no row, because of err: the page tells of it.
func (b *Builder) AddBroken(err error) {
	if b.broken++; b.broken == 1 {
		b.firstBroken = err.Error()
	}
}

// Reset forgets all rows. What was read of evidence, which never changes, is kept.
func (b *Builder) Reset() { b.entries, b.broken, b.firstBroken = nil, 0, "" }

// Rows is how many rows were added.
func (b *Builder) Rows() int { return len(b.entries) }

// Page is everything that a page shows.
type Page struct {
	options Options
	summary *report.Report
	compare *report.Comparison // nil: there is nothing to compare, see compareWhy
	why     string
	entries []entry // under the labels of their arms
	arms    []*arm
	folders []*Folder
	panels  []*panel // a context each

	broken      int
	firstBroken string

	view view
}

// Page works out the page of the rows so far. The error is that of ctx: what is
// wrong with rows or evidence is part of the page.
func (b *Builder) Page(ctx context.Context) (*Page, error) {
	p := &Page{options: b.options, broken: b.broken, firstBroken: b.firstBroken}
	p.label(b.entries)
	p.summarise()
	p.hold()
	p.sort()
	if err := b.trace(ctx, p); err != nil {
		return nil, err
	}
	p.view = p.makeView()
	return p, nil
}

// Summary is the summary of the rows that the page shows.
func (p *Page) Summary() *report.Report { return p.summary }
