package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/bundle"
	"assay/internal/kit/row"
	"assay/internal/kit/verify"
)

// staged is a folder with the members of a bundle, redacted, before they are
// packed. It lies where only its owner can read.
type staged struct {
	dir      string
	manifest *bundle.Manifest
	openings []bundle.Opening
	before   bool // the line before the one at hand was changed
}

func (s *staged) remove() { _ = os.RemoveAll(s.dir) }

func (s *staged) open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// stage makes the members. What it returns is to be removed, error or not.
func (d *Draft) stage(ctx context.Context) (*staged, error) {
	dir, err := os.MkdirTemp("", "assay-publish-*") // mode 0700
	if err != nil {
		return nil, err
	}
	s := &staged{dir: dir, manifest: &bundle.Manifest{
		Format: bundle.Format, AssayVersion: d.options.Verify.Version, Made: d.options.Day.UTC().Format(time.DateOnly), Evidence: d.options.Evidence,
		Rows: []bundle.Row{}, Files: []bundle.File{}, LeftOut: []bundle.LeftOut{}, Redactions: []bundle.Redaction{}, Searched: d.searched(),
	}}
	schema, err := json.MarshalIndent(row.JSONSchema(row.Published), "", "  ")
	if err != nil {
		return s, err
	}
	if err := s.add(bundle.SchemaFile, append(schema, '\n'), false); err != nil {
		return s, err
	}
	rows, err := os.OpenFile(filepath.Join(dir, row.RowsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	sum, size := sha256.New(), int64(0)
	out := io.MultiWriter(rows, sum)
	err = d.eachLine(ctx, func(n int, line []byte, r *row.Row) error {
		published, err := d.line(s, n, line, r)
		if err != nil {
			return fmt.Errorf("row %s: %w", r.RowID, err)
		}
		size += int64(len(published)) + 1
		_, err = out.Write(append(published, '\n'))
		return err
	})
	if err != nil {
		return s, err
	}
	s.manifest.Files = append(s.manifest.Files, bundle.File{Name: row.RowsFile, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	slices.SortFunc(s.manifest.Files, func(a, b bundle.File) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.manifest.LeftOut, func(a, b bundle.LeftOut) int { return strings.Compare(a.Name, b.Name) })
	return s, rows.Close()
}

// searched tells the kinds of what is searched for, and how many of each.
func (d *Draft) searched() []bundle.Searched {
	n := map[string]int{}
	for _, s := range d.secrets {
		n[s.kind]++
	}
	out := []bundle.Searched{}
	for kind, values := range n {
		out = append(out, bundle.Searched{Kind: kind, Values: values})
	}
	slices.SortFunc(out, func(a, b bundle.Searched) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// add stages a member.
func (s *staged) add(name string, data []byte, altered bool) error {
	at := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	sum := sha256.Sum256(data)
	s.manifest.Files = append(s.manifest.Files, bundle.File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Altered: altered})
	return f.Close()
}

// commit notes that the value at a path of a line is redacted, and returns the
// opening of that.
func (s *staged) commit(n int, rowID, path string, value json.RawMessage) (bundle.Opening, error) {
	o, err := bundle.NewOpening(n, rowID, path, value)
	s.openings = append(s.openings, o)
	return o, err
}

// line stages the evidence of a row and returns the line as it is published.
func (d *Draft) line(s *staged, n int, line []byte, r *row.Row) ([]byte, error) {
	hidden, err := d.evidence(s, r)
	if err != nil {
		return nil, err
	}
	if s.before {
		hidden["prev_sha256"] = true
	}
	places, err := d.asked(line, r)
	if err != nil {
		return nil, err
	}
	list, err := spans(line)
	if err != nil {
		return nil, err
	}
	rowID, _ := replace([]byte(r.RowID), d.secrets, d.mark)
	var edits []edit
	redacted := func(at string, value json.RawMessage) error {
		shown, _ := replace([]byte(at), d.secrets, d.mark)
		o, err := s.commit(n, string(rowID), string(shown), value)
		s.manifest.Redactions = append(s.manifest.Redactions, bundle.Redaction{Line: n, Path: o.Path, Commitment: o.Commitment})
		return err
	}
	end := 0 // of the last place that was taken as a whole
	names := map[string][]string{}
	for _, at := range list {
		if at.start < end {
			continue
		}
		if i := slices.IndexFunc(places, func(p asked) bool { return p.start == at.start && p.end == at.end && !at.name }); i >= 0 {
			edits, end = append(edits, edit{at.start, at.end, places[i].with}), at.end
			if err := redacted(at.path, rawValue(line, at)); err != nil {
				return nil, err
			}
			continue
		}
		if !at.isText {
			continue
		}
		if hidden[at.path] && !at.name {
			edits = append(edits, edit{at.start, at.end, quoted(d.mark)})
			if err := redacted(at.path, rawValue(line, at)); err != nil {
				return nil, err
			}
			continue
		}
		text, changed := replaceAt(at.path, at.text, d.secrets, d.mark)
		if !changed {
			continue
		}
		edits = append(edits, edit{at.start, at.end, quoted(text)})
		if at.name {
			parent := strings.TrimSuffix(strings.TrimSuffix(at.path, at.text), ".")
			names[parent] = append(names[parent], at.text)
			continue
		}
		if err := redacted(at.path, rawValue(line, at)); err != nil {
			return nil, err
		}
	}
	for _, parent := range slices.Sorted(mapsKeys(names)) {
		value, err := json.Marshal(names[parent])
		if err != nil {
			return nil, err
		}
		if err := redacted(strings.TrimPrefix(parent+"."+verify.NameMark, "."), value); err != nil {
			return nil, err
		}
	}
	told := bundle.Row{}
	s.before = len(edits) > 0
	if s.before {
		o, err := s.commit(n, string(rowID), bundle.WholeLine, quoted(string(line)))
		if err != nil {
			return nil, err
		}
		told.Original = o.Commitment
		line = apply(line, edits)
	}
	sum := sha256.Sum256(line)
	told.SHA256 = hex.EncodeToString(sum[:])
	s.manifest.Rows = append(s.manifest.Rows, told)
	return line, nil
}

// search goes through the finished bundle and refuses it where anything that was
// to be redacted is left, in whatever form.
func (d *Draft) search(ctx context.Context, file string) error {
	dir, err := os.MkdirTemp("", "assay-search-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o, err := bundle.Open(ctx, file, dir)
	if err != nil {
		return err
	}
	manifest, err := o.Manifest.Encode()
	if err != nil {
		return err
	}
	if err := d.clean(bundle.ManifestFile, manifest); err != nil {
		return err
	}
	for _, f := range o.Manifest.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.Name == bundle.SchemaFile { // the same for everyone
			continue
		}
		if err := d.cleanMember(dir, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// clean says where a text still holds what was to be redacted.
func (d *Draft) clean(name string, text []byte) error {
	for _, v := range views(text) {
		found := hits(v.text, d.secrets)
		if len(found) == 0 {
			continue
		}
		h := found[0]
		place := fmt.Sprintf("offset %d", h.start)
		if v.name != "" {
			place = v.name
		} else if line := 1 + bytes.Count(text[:h.start], []byte("\n")); line > 1 {
			place = fmt.Sprintf("line %d", line)
		}
		return fmt.Errorf("nothing was published: %s, %s: the %s %q is still there (%s); name the field with --redact, leave the evidence out with --evidence, or let it stay with --keep",
			name, place, h.secret.kind, h.secret.value, h.form)
	}
	f := newFinder(Machine{}, d.options.Keep)
	f.text(text)
	for _, s := range f.secrets() {
		return fmt.Errorf("nothing was published: %s: the %s %q is still there; leave the evidence out with --evidence, or let it stay with --keep", name, s.kind, s.value)
	}
	return nil
}

// prove verifies the finished bundle, and sees to it that no redacted value is
// what its evidence still gives.
func (d *Draft) prove(ctx context.Context, file string, s *staged) (*verify.BundleReport, error) {
	hidden := map[int]map[string]string{}
	for _, o := range s.openings {
		if hidden[o.Line] == nil {
			hidden[o.Line] = map[string]string{}
		}
		hidden[o.Line][o.Path] = string(o.Value)
	}
	var leak error
	rep, err := verify.Bundle(ctx, file, verify.BundleOptions{Options: d.options.Verify, Computed: func(n int, r *row.Row) {
		line, err := r.Encode()
		if err != nil || leak != nil {
			return
		}
		list, _ := spans(line)
		for _, at := range list {
			if was, ok := hidden[n][at.path]; ok && !at.name && was == string(line[at.start:at.end]) {
				leak = fmt.Errorf("nothing was published: row %s: %s is redacted, but the evidence in the bundle gives it; publish with --evidence none", r.RowID, at.path)
				return
			}
		}
	}})
	switch {
	case leak != nil:
		return nil, leak
	case err != nil:
		return nil, err
	case !rep.Clean:
		return nil, fmt.Errorf("nothing was published: the bundle would not pass assay verify: %s", rep.Findings[0])
	}
	return rep, nil
}

func memberDir(dir, member string) (string, string) {
	return filepath.Join(dir, filepath.FromSlash(path.Dir(member))), path.Base(member)
}
