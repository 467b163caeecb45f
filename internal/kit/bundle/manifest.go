// Package bundle is the form in which rows travel: one file, signed, that says
// of itself what is in it, what was left out and what was redacted.
//
// A bundle is a tar in zstd, and behind it a seal: a frame that zstd and tar pass
// over, with the signer's key and a signature over every byte before it. The
// first member is the manifest, which has the sha256 of all others, the second
// its signature, so that a folder unpacked by other programs can be checked too.
//
// Bundles come from strangers. Open takes nothing for granted: names, kinds,
// sizes and their order must be those of the manifest, and its limits bound the
// time, memory and disk that any file can cost.
package bundle

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
)

// Format names the form of a bundle that this package writes.
const Format = "assay-bundle-1"

// Members that every bundle has, in this order before the evidence.
const (
	ManifestFile  = "manifest.json"
	SignatureFile = "manifest.sig"
	SchemaFile    = "row.schema.json"
)

// Limits of what Open takes.
const (
	maxManifest  = 64 << 20
	maxSignature = 4 << 10
	maxRows      = 100_000
	maxFiles     = 200_000 // of those that are there, and of those that were left out
	maxRedacted  = 1_000_000
	maxKinds     = 1_000
	maxName      = 1024
	maxPart      = 255      // of a name, between its slashes
	maxRowsFile  = 1 << 30  // rows.jsonl
	maxMember    = 64 << 20 // any other member
	maxTotal     = 4 << 30  // all members
	maxUnpacked  = 8 << 30  // what packed members hold
	maxOne       = 128 << 20
)

// Evidence is how much of the evidence is in a bundle.
type Evidence string

// The levels of evidence.
const (
	None    Evidence = "none"    // rows only: nothing can be computed anew
	Figures Evidence = "figures" // what figures are computed from, without the prompts' text
	All     Evidence = "all"     // everything that was kept
)

// Levels are all of them.
var Levels = []Evidence{None, Figures, All}

// Manifest says what a bundle holds.
type Manifest struct {
	Format       string      `json:"format"`
	AssayVersion string      `json:"assay_version"`
	Made         string      `json:"made"` // the day, in UTC; the day of the marks as well
	Evidence     Evidence    `json:"evidence"`
	Rows         []Row       `json:"rows"`
	Files        []File      `json:"files"` // in the order of the bundle, which is that of their names
	LeftOut      []LeftOut   `json:"left_out"`
	Redactions   []Redaction `json:"redactions"`
	Searched     []Searched  `json:"searched"`
}

// Row is one line of the published rows. The order of these is the order of the
// journal that they come from, and none is missing: the publisher vouches for it
// by the signature, and can prove it (see WholeLine).
type Row struct {
	SHA256 string `json:"sha256"` // of the line as published, without its line feed
	// Original commits to the line as it was written; empty: it is as it was.
	Original string `json:"original,omitempty"`
}

// File is a member.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Altered: its bytes are not those of the run, because something in them was
	// redacted. The row's hash of it is then redacted too, as it would let the
	// value be guessed.
	Altered bool `json:"altered,omitempty"`
}

// LeftOut is a file of evidence that is not in the bundle.
type LeftOut struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Redaction is a value that was taken out, wholly or in part.
type Redaction struct {
	Line       int    `json:"line"`
	Path       string `json:"path"`
	Commitment string `json:"commitment"`
}

// Searched is what was searched for in the whole bundle, by kind: never what it
// was.
type Searched struct {
	Kind   string `json:"kind"`
	Values int    `json:"values"`
}

// Encode is the manifest as its member holds it.
func (m *Manifest) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	return b.Bytes(), nil
}

// ParseManifest reads a manifest and checks what it promises against the limits.
func ParseManifest(data []byte) (*Manifest, error) {
	m, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	return m, nil
}

func parseManifest(data []byte) (*Manifest, error) {
	var form struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, err
	}
	if form.Format != Format {
		return nil, fmt.Errorf("format %q, want %q: was it made by a newer assay?", cut(form.Format), Format)
	}
	// The lists are read value by value: an empty one takes three bytes of a
	// manifest, and many times that in memory.
	var in struct {
		Manifest
		Rows       json.RawMessage `json:"rows"`
		Files      json.RawMessage `json:"files"`
		LeftOut    json.RawMessage `json:"left_out"`
		Redactions json.RawMessage `json:"redactions"`
		Searched   json.RawMessage `json:"searched"`
	}
	dec := strict(data)
	if err := dec.Decode(&in); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("offset %d: more behind the end", dec.InputOffset())
	}
	m := &in.Manifest
	err := errors.Join(
		elements(&m.Rows, "rows", in.Rows, maxRows), elements(&m.Files, "files", in.Files, maxFiles), elements(&m.LeftOut, "left_out", in.LeftOut, maxFiles),
		elements(&m.Redactions, "redactions", in.Redactions, maxRedacted), elements(&m.Searched, "searched", in.Searched, maxKinds))
	if err == nil {
		err = m.check()
	}
	return m, err
}

// strict reads JSON in which every field is known.
func strict(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec
}

// elements reads the list of a manifest of this name, of most values.
func elements[T any](to *[]T, name string, raw json.RawMessage, most int) error {
	if raw == nil {
		return fmt.Errorf("%s: missing", name)
	}
	dec := strict(raw)
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("%s: want a list", name)
	}
	*to = []T{}
	for dec.More() {
		if len(*to) == most {
			return fmt.Errorf("%s: more than the %d that a bundle may have", name, most)
		}
		var v T
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("%s[%d]: %w", name, len(*to), err)
		}
		*to = append(*to, v)
	}
	return nil
}

func (m *Manifest) check() error {
	switch m.Evidence {
	case None, Figures, All:
	default:
		return fmt.Errorf("evidence: %q is none of %q", cut(string(m.Evidence)), Levels)
	}
	for name, n := range map[string][2]int{
		"rows": {len(m.Rows), maxRows}, "files": {len(m.Files), maxFiles}, "left_out": {len(m.LeftOut), maxFiles},
		"redactions": {len(m.Redactions), maxRedacted}, "searched": {len(m.Searched), maxKinds},
	} {
		if n[0] > n[1] { // of one that is to be written
			return fmt.Errorf("%s: %d, more than the %d that a bundle may have: publish fewer rows at once", name, n[0], n[1])
		}
	}
	for i, r := range m.Rows {
		if !isHash(r.SHA256) || r.Original != "" && !isHash(r.Original) {
			return fmt.Errorf("rows[%d]: a hash is not a sha256 in lower-case hex", i)
		}
	}
	last, total := "", int64(0)
	for i, f := range m.Files {
		if err := checkName(f.Name); err != nil {
			return fmt.Errorf("files[%d]: %w", i, err)
		}
		most := int64(maxMember)
		if f.Name == row.RowsFile {
			most = maxRowsFile
		}
		switch {
		case f.Name <= last:
			return fmt.Errorf("files[%d]: %q does not come after %q: names are in order, each once", i, f.Name, last)
		case f.Size < 0 || f.Size > most:
			return fmt.Errorf("files[%d]: %s: %d bytes, want 0 to %d", i, f.Name, f.Size, most)
		case !isHash(f.SHA256):
			return fmt.Errorf("files[%d]: %s: sha256 is not one in lower-case hex", i, f.Name)
		}
		last = f.Name
		if total += f.Size; total > maxTotal {
			return fmt.Errorf("files: more than the %d bytes that a bundle may have", int64(maxTotal))
		}
	}
	for _, must := range []string{row.RowsFile, SchemaFile} {
		if m.File(must) == nil {
			return fmt.Errorf("files: %s is missing", must)
		}
	}
	for i, r := range m.Redactions {
		if r.Line < 1 || r.Line > len(m.Rows) || !isHash(r.Commitment) || r.Path == "" {
			return fmt.Errorf("redactions[%d]: want a line of the rows, a path and a sha256 in lower-case hex", i)
		}
	}
	return nil
}

// checkName allows the names that bundles have and no other: nothing that a file
// system could take for another place.
func checkName(name string) error {
	bad := func(why string) error { return fmt.Errorf("name %q: %s", cut(name), why) }
	switch {
	case len(name) > maxName:
		return bad("too long")
	case !utf8.ValidString(name):
		return bad("not UTF-8")
	case name == row.RowsFile || name == SchemaFile:
		return nil
	case !strings.HasPrefix(name, evidence.Folder+"/"):
		return bad("no member of a bundle has it")
	case path.Clean(name) != name || strings.Contains(name, `\`):
		return bad("leads elsewhere")
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart || part == ".." || strings.HasSuffix(part, ".") || strings.TrimSpace(part) != part {
			return bad("a part of it is too long or leads elsewhere")
		}
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return bad("it has control characters")
		}
	}
	return nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}

// File finds a member; nil: there is none of that name.
func (m *Manifest) File(name string) *File {
	for lo, hi := 0, len(m.Files); lo < hi; {
		switch mid := (lo + hi) / 2; {
		case m.Files[mid].Name == name:
			return &m.Files[mid]
		case m.Files[mid].Name < name:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return nil
}
