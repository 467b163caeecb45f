// Package publish makes a bundle of a folder of rows: it finds what identifies
// the publisher, redacts it and the fields that are asked for, and then searches
// the whole bundle for what was redacted, in the forms that logs and requests
// repeat it in. What it can't rule out it refuses to publish.
//
// Prepare only reads and says what would be done; Write does it. A redacted value
// becomes a mark and a commitment under a salt of 128 bits, which the publisher
// keeps beside the bundle. A hash of something that was redacted is redacted as
// well: with everything else known, it would give a port away after 65,536
// guesses.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/bundle"
	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/verify"
)

// Options say what is published and what is taken out.
type Options struct {
	Evidence bundle.Evidence
	// Fields are the paths of values to redact: names with * for any letters; a
	// name that is no place of its own below command_line is that of a flag.
	Fields []string
	// Texts are patterns; what they match is redacted wherever it stands.
	Texts []*regexp.Regexp
	// Listed are texts to redact wherever they stand.
	Listed []string
	Keep   []string // values that are found but may stay
	// Machine is the publisher's, whose names are redacted.
	Machine Machine
	Day     time.Time // of the marks
	Verify  verify.Options
}

// Draft is a folder that was looked through, and what publishing it would do.
type Draft struct {
	Dir     string     `json:"dir"`
	Rows    int        `json:"rows"`
	Files   int        `json:"files"` // of evidence
	Found   []Found    `json:"found"`
	Fields  []Field    `json:"fields"`
	Unnamed []string   `json:"unnamed,omitempty"` // of what was asked for: nothing has the name
	options Options    // as they were given
	secrets []*secret  // the longest first
	mark    string     //
	match   []*pattern // of Fields
}

// Found is a value that will be redacted wherever it stands.
type Found struct {
	Kind   string `json:"kind"`
	Value  string `json:"value"`
	Places int    `json:"places"` // in rows and evidence
	First  string `json:"first"`  // where the first of them is
}

// Field is a value of rows that will be redacted because it was asked for.
type Field struct {
	Path string `json:"path"` // general: [] for any element
	Rows int    `json:"rows"`
	// RowsOnly is why it can't be searched for in the evidence; empty: it is.
	RowsOnly string `json:"rows_only,omitempty"`
}

// Prepare looks through dir. It writes nothing.
func Prepare(ctx context.Context, dir string, o Options) (*Draft, error) {
	d := &Draft{Dir: dir, options: o, mark: row.Redaction(o.Day.UTC().Format(time.DateOnly)), Found: []Found{}, Fields: []Field{}}
	for _, f := range o.Fields {
		p, err := newPattern(f)
		if err != nil {
			return nil, err
		}
		d.match = append(d.match, p)
	}
	rep, err := verify.Dir(ctx, dir, o.Verify)
	if err != nil {
		return nil, err
	}
	if !rep.Clean {
		return nil, fmt.Errorf("%s (assay verify tells all of %d findings): rows that contradict their evidence are not published", rep.Findings[0], len(rep.Findings))
	}
	if err := d.find(ctx); err != nil {
		return nil, err
	}
	if d.Rows == 0 {
		return nil, fmt.Errorf("%s: there are no rows", dir)
	}
	return d, d.count(ctx)
}

// eachLine calls do for every row of the folder.
func (d *Draft) eachLine(ctx context.Context, do func(n int, line []byte, r *row.Row) error) error {
	f, err := os.Open(filepath.Join(d.Dir, row.RowsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	n := 0
	for line := range row.Lines(f) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := line.Row()
		if err != nil || r == nil {
			return fmt.Errorf("%s:%d: not a row", f.Name(), line.Number)
		}
		n++
		if err := do(n, line.Bytes, r); err != nil {
			return err
		}
	}
	return nil
}

// find collects what identifies, in rows, evidence and what the system says.
func (d *Draft) find(ctx context.Context) error {
	f := newFinder(d.options.Machine, d.options.Keep)
	for _, t := range d.options.Listed {
		f.add(KindListed, t)
	}
	fields := map[string]*Field{}
	named := map[int]bool{}
	err := d.eachLine(ctx, func(n int, line []byte, r *row.Row) error {
		d.Rows++
		f.argv(r.CommandLine)
		f.env(r.EngineEnv)
		places, err := d.asked(line, r)
		if err != nil {
			return fmt.Errorf("row %s: %w", r.RowID, err)
		}
		seen := map[string]bool{}
		for _, p := range places {
			named[p.pattern] = true
			general := indices.ReplaceAllString(p.path, "[]")
			if fields[general] == nil {
				fields[general] = &Field{Path: general}
			}
			if !seen[general] {
				fields[general].Rows++
				seen[general] = true
			}
			switch {
			case p.value == "" && fields[general].RowsOnly == "":
				fields[general].RowsOnly = "numbers and lists are not searched for"
			case newSecret(KindField, p.value) == nil && p.value != "":
				fields[general].RowsOnly = fmt.Sprintf("%q is too short to be searched for", p.value)
			case p.value != "":
				f.found[p.value] = KindField
			}
		}
		d.texts(f, line)
		return d.eachFile(r, func(name string, text []byte) error {
			if name == evidence.MetaFile {
				d.port(f, text)
			}
			d.texts(f, text)
			return nil
		})
	})
	if err != nil {
		return err
	}
	for i, p := range d.match {
		if !named[i] {
			d.Unnamed = append(d.Unnamed, p.text)
		}
	}
	for _, one := range fields {
		d.Fields = append(d.Fields, *one)
	}
	slices.SortFunc(d.Fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	d.secrets = f.secrets()
	return nil
}

// port takes the port that a target was asked at, where its flag is redacted: the
// flag may say 0, for any.
func (d *Draft) port(f *finder, meta []byte) {
	var m struct {
		URL string `json:"url"`
	}
	if !slices.ContainsFunc(d.match, func(p *pattern) bool { return p.flag == "port" }) || json.Unmarshal(meta, &m) != nil {
		return
	}
	if u, err := url.Parse(m.URL); err == nil && shortNumber.MatchString(u.Port()) {
		f.found[u.Port()] = KindField
	}
}

var indices = regexp.MustCompile(`\[[0-9]+\]`)

func (d *Draft) texts(f *finder, text []byte) {
	f.text(text)
	for _, re := range d.options.Texts {
		for _, m := range re.FindAll(text, -1) {
			f.add(KindPattern, string(m))
		}
	}
}

// count counts the places of each secret.
func (d *Draft) count(ctx context.Context) error {
	of := map[*secret]*Found{}
	for _, s := range d.secrets {
		of[s] = &Found{Kind: s.kind, Value: s.value}
	}
	tally := func(where string, text []byte) {
		for _, h := range hits(text, d.secrets) {
			one := of[h.secret]
			if one.Places++; one.First == "" {
				one.First = where
			}
		}
	}
	err := d.eachLine(ctx, func(n int, line []byte, r *row.Row) error {
		tally(fmt.Sprintf("%s:%d", row.RowsFile, n), line)
		return d.eachFile(r, func(name string, text []byte) error {
			d.Files++
			tally(path.Join(*r.Evidence.Dir, name), text)
			return nil
		})
	})
	for _, s := range d.secrets { // the machine's own names that are nowhere are searched for, not listed
		if of[s].Places > 0 {
			d.Found = append(d.Found, *of[s])
		}
	}
	slices.SortStableFunc(d.Found, func(a, b Found) int { return strings.Compare(a.Kind, b.Kind) })
	return err
}

// eachFile calls do for every file of a row's evidence, unpacked.
func (d *Draft) eachFile(r *row.Row, do func(name string, text []byte) error) error {
	if r.Evidence.Dir == nil {
		return nil
	}
	dir := filepath.Join(d.Dir, filepath.FromSlash(*r.Evidence.Dir))
	for _, name := range sortedNames(r.Evidence.Files) {
		text, err := evidence.Unpacked(dir, name)
		if err != nil {
			return err
		}
		if err := do(name, text); err != nil {
			return err
		}
	}
	return nil
}

func sortedNames(files map[string]string) []string {
	out := make([]string, 0, len(files))
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// completionOf is the text of a recording, put together of its frames.
func completionOf(rec *evidence.Record) string {
	c, _ := derive.Completion(rec)
	return c.Joined
}

// Written is what was published.
type Written struct {
	Bundle string `json:"bundle"`
	Salts  string `json:"salts"` // the publisher's file
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Check is what assay verify says of the bundle.
	Check *verify.BundleReport `json:"check"`
}

// SaltsOf is the file of salts that belongs to a bundle.
func SaltsOf(bundle string) string { return bundle + ".salts" }

// Write makes the bundle file and, beside it, the publisher's file of salts,
// which only its owner can read. Neither may exist. The bundle appears once it
// has been searched and verified, or not at all.
func (d *Draft) Write(ctx context.Context, file string, k *bundle.Key) (*Written, error) {
	for _, f := range []string{file, SaltsOf(file)} {
		if _, err := os.Lstat(f); err == nil {
			return nil, fmt.Errorf("%s: it exists already: name another file, or remove it", f)
		}
	}
	s, err := d.stage(ctx)
	if s != nil {
		defer s.remove()
	}
	if err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".bundle-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	sum, err := bundle.Write(tmp, k, s.manifest, s.open)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	if err := d.search(ctx, tmp.Name()); err != nil {
		return nil, err
	}
	rep, err := d.prove(ctx, tmp.Name(), s)
	if err != nil {
		return nil, err
	}
	salts, err := (&bundle.Openings{Format: bundle.SaltsFormat, Bundle: sum, Openings: s.openings}).Encode()
	if err != nil {
		return nil, err
	}
	if err := writeOwn(SaltsOf(file), salts); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(tmp.Name(), 0o644), os.Link(tmp.Name(), file)); err != nil { // a link never overwrites
		return nil, errors.Join(err, os.Remove(SaltsOf(file)))
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	rep.Dir = file
	return &Written{Bundle: file, Salts: SaltsOf(file), SHA256: sum, Bytes: info.Size(), Check: rep}, nil
}

// writeOwn writes a new file that only its owner can read.
func writeOwn(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// eachPublished calls do for every line of the rows in a folder.
func (d *Draft) eachPublished(dir string, do func(line []byte) error) error {
	f, err := os.Open(filepath.Join(dir, row.RowsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for line := range row.Lines(f) {
		if line.Err != nil {
			return line.Err
		}
		if err := do(line.Bytes); err != nil {
			return err
		}
	}
	return nil
}
