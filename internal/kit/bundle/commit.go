package bundle

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// saltSize is 128 bits: a commitment to a port, of which there are 65,536, is as
// hard to guess as the salt.
const saltSize = 16

// commitmentKind keeps these hashes apart from all others.
const commitmentKind = "assay-commitment-1"

// WholeLine is the path that stands for a row's original line: its value is the
// line, as a JSON string.
const WholeLine = "line"

// Opening is what shows the value behind a commitment.
type Opening struct {
	Line       int             `json:"line"` // of rows.jsonl, from 1
	Row        string          `json:"row"`  // row_id, as published
	Path       string          `json:"path"`
	Value      json.RawMessage `json:"value"` // as it stood in the row
	Salt       string          `json:"salt"`  // hex
	Commitment string          `json:"commitment"`
}

// NewOpening commits to a value under a fresh salt.
func NewOpening(line int, row, path string, value json.RawMessage) (Opening, error) {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return Opening{}, fmt.Errorf("salt: %w", err)
	}
	return Opening{
		Line: line, Row: row, Path: path, Value: value,
		Salt: hex.EncodeToString(salt), Commitment: commitment(salt, line, path, value),
	}, nil
}

// commitment is SHA-256 over the salt, and over where and what the value is, each
// behind its length, so that no two openings share their bytes.
func commitment(salt []byte, line int, path string, value []byte) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range [][]byte{[]byte(commitmentKind), salt, fmt.Appendf(nil, "%d", line), []byte(path), value} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Check says whether the opening is of the commitment that was published for
// its place.
func (o *Opening) Check(published string) error {
	salt, err := hex.DecodeString(o.Salt)
	if err != nil || len(salt) != saltSize {
		return fmt.Errorf("line %d: %s: salt: %q is not %d bytes in hex", o.Line, cut(o.Path), cut(o.Salt), saltSize)
	}
	got := commitment(salt, o.Line, o.Path, o.Value)
	if subtle.ConstantTimeCompare([]byte(got), []byte(published)) != 1 {
		return fmt.Errorf("line %d: %s: this value and salt are not what was committed to", o.Line, cut(o.Path))
	}
	return nil
}

// Forms of the two files that hold openings.
const (
	SaltsFormat  = "assay-salts-1"  // the publisher's own, of all redacted values
	RevealFormat = "assay-reveal-1" // some of them, for others
)

// Openings is a file of them.
type Openings struct {
	Format   string    `json:"format"`
	Bundle   string    `json:"bundle"` // sha256 of the bundle's file
	Openings []Opening `json:"openings"`
}

// MaxOpenings is the largest file of openings that is read, in bytes.
const MaxOpenings = 256 << 20

// ParseOpenings reads a file of openings of either form; name is its name in
// errors.
func ParseOpenings(name string, data []byte) (*Openings, error) {
	var in struct {
		Openings
		List json.RawMessage `json:"openings"`
	}
	dec := strict(data)
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := &in.Openings
	if dec.More() {
		return nil, fmt.Errorf("%s: offset %d: more behind the end", name, dec.InputOffset())
	}
	if out.Format != SaltsFormat && out.Format != RevealFormat {
		return nil, fmt.Errorf("%s: format %q, want %q or %q", name, cut(out.Format), SaltsFormat, RevealFormat)
	}
	if err := elements(&out.Openings, "openings", in.List, maxRedacted+maxRows); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// Values are committed to as they stood, so they are kept byte for byte.
	for i, o := range out.Openings {
		if !json.Valid(o.Value) {
			return nil, fmt.Errorf("%s: opening %d: value: missing", name, i)
		}
	}
	return out, nil
}

// Encode is the file, an opening a line: values stay as they stood.
func (o *Openings) Encode() ([]byte, error) {
	var b bytes.Buffer
	head, err := json.Marshal(Openings{Format: o.Format, Bundle: o.Bundle, Openings: []Opening{}})
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutSuffix(head, []byte("]}"))
	if !ok {
		return nil, errors.New("openings: unexpected form")
	}
	b.Write(rest)
	for i, one := range o.Openings {
		if i > 0 {
			b.WriteByte(',')
		}
		// json.Marshal would compact a raw value and escape it for HTML; the
		// commitment is to its very bytes.
		value := one.Value
		one.Value = nil
		line, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		b.Write(bytes.Replace(line, []byte(`"value":null`), append([]byte(`"value":`), value...), 1))
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}
