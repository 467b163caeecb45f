package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/kit/bundle"
	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
)

// Bundle kinds of finding, beside those of a folder.
const (
	Sealed   Kind = "bundle"   // the bundle contradicts itself
	Revealed Kind = "revealed" // what was revealed is not what was committed to
)

// BundleOptions are what the check of a bundle can use.
type BundleOptions struct {
	Options
	Key    bundle.PublicKey // who must have signed; empty: anyone
	Reveal *bundle.Openings // values behind commitments; nil: none
	// Computed is told every row that the evidence gives; nil: nobody is.
	Computed func(line int, r *row.Row)
}

// BundleReport is what the check of a bundle found.
type BundleReport struct {
	Report
	Key       bundle.PublicKey `json:"key"`
	SHA256    string           `json:"sha256"`
	Made      string           `json:"made"`
	Evidence  bundle.Evidence  `json:"evidence"`
	Redacted  int              `json:"redacted"`  // values
	Altered   int              `json:"altered"`   // rows whose line is not the one that the run wrote
	Unchecked []Unchecked      `json:"unchecked"` // what can't be checked, and why
	Revealed  []bundle.Opening `json:"revealed"`  // values that were proved
}

// Unchecked is what of the rows can't be checked for one reason.
type Unchecked struct {
	Why   string   `json:"why"`
	Rows  int      `json:"rows"`
	Paths []string `json:"paths"` // empty: the rows as a whole
}

// Bundle checks a published bundle: seal, signatures and hashes, the chain as far
// as it was not redacted, and every value that its evidence still gives. An
// error means that the file is no bundle that can be trusted at all.
func Bundle(ctx context.Context, file string, o BundleOptions) (*BundleReport, error) {
	dir, err := os.MkdirTemp("", "assay-bundle-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	opened, err := bundle.Open(ctx, file, dir)
	if err != nil {
		return nil, err
	}
	if o.Key != "" && o.Key != opened.Key {
		return nil, fmt.Errorf("%s: signed by %s, not by %s", file, opened.Key, o.Key)
	}
	f, err := os.Open(filepath.Join(dir, row.RowsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := newCheck(dir, o.Options)
	c.rows = row.RowsFile
	c.bundle = &bundled{
		Opened: opened, computed: o.Computed, leftOut: map[string]string{}, commitments: map[place]string{},
		unchecked: map[string]*cannot{}, lines: map[int]string{}, prev: map[int]string{},
	}
	b := c.bundle
	if o.Reveal != nil {
		for _, one := range o.Reveal.Openings {
			if one.Path == bundle.WholeLine {
				b.lines[one.Line] = ""
			}
		}
	}
	b.index(c)
	if err := b.chain(ctx, c, f); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	if err := c.lines(ctx, f); err != nil {
		return nil, err
	}
	b.strays(c)
	out := &BundleReport{
		Key: opened.Key, SHA256: opened.SHA256, Made: opened.Manifest.Made, Evidence: opened.Manifest.Evidence,
		Redacted: len(opened.Manifest.Redactions), Unchecked: []Unchecked{}, Revealed: b.reveal(c, o.Reveal),
	}
	for _, r := range opened.Manifest.Rows {
		if r.Original != "" {
			out.Altered++
		}
	}
	for why, u := range b.unchecked {
		out.Unchecked = append(out.Unchecked, Unchecked{why, u.rows, append([]string{}, slices.Sorted(maps.Keys(u.paths))...)})
	}
	slices.SortFunc(out.Unchecked, func(a, b Unchecked) int { return strings.Compare(a.Why, b.Why) })
	c.report.Dir = file
	c.report.Clean = len(c.report.Findings) == 0
	out.Report = *c.report
	return out, nil
}

// place is a value of a row.
type place struct {
	line int
	path string
}

// bundled is what the check knows of the bundle; nil for a folder.
type bundled struct {
	*bundle.Opened
	computed    func(line int, r *row.Row)
	leftOut     map[string]string // name of a member to why it is not there
	commitments map[place]string
	unchecked   map[string]*cannot
	lines       map[int]string // published lines whose original is revealed
	prev        map[int]string // prev_sha256 of each line, where it was not redacted
	altered     struct {       // of the row at hand
		prompt, stream bool
	}
}

func (b *bundled) index(c *check) {
	for _, l := range b.Manifest.LeftOut {
		b.leftOut[l.Name] = l.Why
	}
	for _, r := range b.Manifest.Redactions {
		at := place{r.Line, r.Path}
		if _, ok := b.commitments[at]; ok {
			c.add(Finding{Kind: Sealed, File: bundle.ManifestFile, Line: r.Line, Path: r.Path, Problem: "committed to twice"})
		}
		b.commitments[at] = r.Commitment
	}
	for i, r := range b.Manifest.Rows {
		if r.Original != "" {
			b.commitments[place{i + 1, bundle.WholeLine}] = r.Original
		}
	}
}

// chain holds the lines against the manifest, and against each other as far as
// they are as the run wrote them.
func (b *bundled) chain(ctx context.Context, c *check, f *os.File) error {
	n, last, lastAltered := 0, "", false
	fault := func(line int, format string, args ...any) {
		c.add(Finding{Kind: Chain, File: row.RowsFile, Line: line, Problem: fmt.Sprintf(format, args...)})
	}
	for line := range row.Lines(f) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n++; n > len(b.Manifest.Rows) {
			// Lines that the manifest does not bound are not looked at.
			return fmt.Errorf("%s: more lines than the %d of %s", row.RowsFile, len(b.Manifest.Rows), bundle.ManifestFile)
		}
		told := b.Manifest.Rows[n-1]
		sum := sha256.Sum256(line.Bytes)
		if line.Err != nil || hex.EncodeToString(sum[:]) != told.SHA256 {
			fault(n, "its sha256 is not the one in %s", bundle.ManifestFile)
		}
		r, err := line.Row()
		if err == nil && r != nil && r.Schema == row.Schema {
			err = row.CheckSchema(row.Published, line.Bytes)
		}
		if err != nil || r == nil {
			fault(n, "%v", cmp.Or(err, errors.New("a blank line")))
			continue
		}
		if r.Seq != n {
			fault(n, "seq: %d, want %d: rows are missing, doubled or out of order", r.Seq, n)
		}
		prev := ""
		if r.PrevSHA256 != nil {
			prev = *r.PrevSHA256
		}
		if _, ok := b.lines[n]; ok {
			b.lines[n] = string(line.Bytes)
		}
		switch {
		case row.IsRedaction(prev) && lastAltered:
			b.cant("the line before was redacted, and its hash with it: the signature alone says that it is the one before", "prev_sha256")
		case prev != last || lastAltered:
			fault(n, "prev_sha256: it is not of the line before")
		default:
			b.prev[n] = prev
		}
		last, lastAltered = hex.EncodeToString(sum[:]), told.Original != ""
	}
	if n < len(b.Manifest.Rows) {
		fault(0, "%d lines, but %s has %d", n, bundle.ManifestFile, len(b.Manifest.Rows))
	}
	return nil
}

// cant notes what can't be checked of a row; without paths, the row as a whole.
func (b *bundled) cant(why string, paths ...string) {
	u := b.unchecked[why]
	if u == nil {
		u = &cannot{paths: map[string]bool{}}
		b.unchecked[why] = u
	}
	u.rows++
	for _, p := range paths {
		u.paths[p] = true
	}
}

// cannot collects an Unchecked.
type cannot struct {
	rows  int
	paths map[string]bool
}

// evidence checks and reads what the bundle has of a row's evidence; nil where
// the row can't be computed from it.
func (b *bundled) evidence(c *check, r *row.Row, dir string) *evidence.Record {
	if c.takenBefore(r, dir) {
		return nil
	}
	b.altered.prompt, b.altered.stream = false, false
	why := ""
	for name, sum := range r.Evidence.Files {
		member := path.Join(*r.Evidence.Dir, name)
		f := b.Manifest.File(member)
		left, gone := b.leftOut[member]
		switch {
		case f == nil && !gone:
			c.about(File, r, "%s: neither in the bundle nor among what was left out", member)
		case f == nil:
			switch name {
			case evidence.MetaFile, evidence.StreamFile, evidence.RequestFile:
				why = cmp.Or(why, "evidence left out: "+left)
			case evidence.PromptFile:
				b.altered.prompt = true
			}
		case f.Altered != row.IsRedaction(sum):
			c.about(File, r, "%s: its hash and %s do not say the same of whether it was redacted", member, bundle.ManifestFile)
		case !f.Altered && f.SHA256 != sum:
			c.about(File, r, "%s: changed: sha256 is %s, the row says %s", member, f.SHA256, sum)
		case f.Altered:
			b.altered.prompt = b.altered.prompt || name == evidence.PromptFile || name == evidence.RequestFile
			b.altered.stream = b.altered.stream || name == evidence.StreamFile
			b.cant("the bytes of a file are not those of the run, because something in it was redacted", "evidence.files."+name)
		}
		if f != nil {
			c.report.Files++
		}
	}
	if why != "" {
		b.cant(why)
		return nil
	}
	rec, err := evidence.Read(dir)
	if err != nil {
		c.about(Evidence, r, "%v", tidy(err, c.dir))
		return nil
	}
	// What was left out is what other files have as well.
	if _, gone := b.leftOut[path.Join(*r.Evidence.Dir, evidence.CompletionFile)]; gone {
		completion, _ := derive.Completion(rec)
		rec.Completion = completion.Joined
	}
	if _, gone := b.leftOut[path.Join(*r.Evidence.Dir, evidence.PromptFile)]; gone {
		rec.Prompt = lastMessage(rec.Request)
	}
	return rec
}

func tidy(err error, dir string) string {
	return strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
}

// lastMessage is the text of a request's last message.
func lastMessage(body []byte) string {
	var q struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		return ""
	}
	return q.Messages[len(q.Messages)-1].Content
}

// again tells who wants to know what the evidence gives.
func (b *bundled) again(line int, rec *evidence.Record, facts *derive.Facts) {
	if b == nil || b.computed == nil {
		return
	}
	if r, err := derive.Row(rec, facts); err == nil {
		b.computed(line, r)
	}
}

// promptGone says whether the prompt of the row at hand is not as it was sent.
func (b *bundled) promptGone(*row.Row) bool { return b != nil && b.altered.prompt }

// unprovable says whether what was redacted explains a difference. A number that
// was not redacted itself must be what the evidence gives: nothing that is taken
// out of texts changes it.
func (b *bundled) unprovable(c *check, r *row.Row, d difference) bool {
	if b == nil {
		return false
	}
	for at := range r.Redacted {
		if d.path == at || strings.HasPrefix(d.path, at+".") || strings.HasPrefix(d.path, at+"[") {
			if _, ok := b.commitments[place{c.line, at}]; !ok {
				return false // a mark that nothing stands behind
			}
			b.cant("redacted", d.path)
			return true
		}
	}
	inRow, isText := d.inRow.(string)
	again, _ := d.again.(string)
	_, committed := b.commitments[place{c.line, d.path}]
	switch {
	case isText && (committed && row.HoldsRedaction(inRow) || row.HoldsRedaction(again)):
		b.cant("redacted in part, in the row or in its evidence", d.path)
	case b.altered.prompt && (d.path == "prompt_sha256" || d.path == "slice_sha256"):
		b.cant("the prompt is not in the bundle as it was sent", d.path)
	case b.altered.stream && isText && (d.path == "completion_sha256" || d.path == "completion_head"):
		b.cant("the stream is not in the bundle as it was received", d.path)
	default:
		return false
	}
	return true
}

// strays are members that no row names.
func (b *bundled) strays(c *check) {
	for _, f := range b.Manifest.Files {
		if !strings.HasPrefix(f.Name, evidence.Folder+"/") {
			continue
		}
		if _, ok := c.dirs[filepath.Join(c.dir, filepath.FromSlash(path.Dir(f.Name)))]; !ok {
			c.add(Finding{Kind: File, File: f.Name, Problem: "no row knows this file"})
		}
	}
}

// reveal checks openings against the commitments, and original lines against the
// chain.
func (b *bundled) reveal(c *check, o *bundle.Openings) []bundle.Opening {
	out := []bundle.Opening{}
	if o == nil {
		return out
	}
	bad := func(line int, path, format string, args ...any) {
		c.add(Finding{Kind: Revealed, File: row.RowsFile, Line: line, Path: path, Problem: fmt.Sprintf(format, args...)})
	}
	if o.Bundle != b.SHA256 {
		bad(0, "", "what is revealed is of another bundle, of sha256 %s", o.Bundle)
		return out
	}
	hashes := map[int]string{} // of original lines that were revealed
	for _, one := range o.Openings {
		published, ok := b.commitments[place{one.Line, one.Path}]
		if !ok {
			bad(one.Line, one.Path, "nothing was redacted there")
			continue
		}
		if err := one.Check(published); err != nil {
			bad(one.Line, one.Path, "%v", err)
			continue
		}
		var text string
		isText := json.Unmarshal(one.Value, &text) == nil
		switch {
		case one.Path == bundle.WholeLine && isText:
			sum := sha256.Sum256([]byte(text))
			hashes[one.Line] = hex.EncodeToString(sum[:])
			for _, p := range b.strangeChanges(one.Line, text) {
				bad(one.Line, p, "the line as published differs there from the original, but nothing says that it was redacted")
			}
		case one.Path == "prev_sha256" && isText:
			b.prev[one.Line] = text
		}
		out = append(out, one)
	}
	for line, sum := range hashes {
		if prev, ok := b.prev[line+1]; ok && prev != sum {
			bad(line, bundle.WholeLine, "the original line is not the one that the next line was chained to")
		}
	}
	return out
}

// strangeChanges are differences between a published line and its original that
// no redaction explains.
func (b *bundled) strangeChanges(line int, original string) []string {
	var trees [2]any
	for i, text := range []string{b.lines[line], original} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&trees[i]) != nil {
			return []string{bundle.WholeLine}
		}
	}
	var out []string
	for _, d := range walk(nil, "", trees[0], trees[1]) {
		if _, ok := b.commitments[place{line, d.path}]; ok {
			continue
		}
		if d.inRow == any(absent{}) || d.again == any(absent{}) { // a name that was redacted
			if i := strings.LastIndexByte(d.path, '.'); i >= 0 {
				if _, ok := b.commitments[place{line, d.path[:i] + "." + NameMark}]; ok {
					continue
				}
			}
		}
		out = append(out, d.path)
	}
	return out
}

// NameMark stands in the path of a commitment to the names of an object, of
// which some hold what was redacted.
const NameMark = "#names"

// IsBundle says whether a path is that of a file that may be a bundle, rather
// than a folder of rows.
func IsBundle(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
