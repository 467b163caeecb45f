// Package evidence keeps what one run received and sent, one directory a row,
// so that every figure of the row can be computed again from it. The files can
// be read without this program: text and JSON, the larger of them packed by zstd.
package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sort"

	"github.com/klauspost/compress/zstd"

	"assay/internal/kit/stream"
)

// Format is the layout that this package writes.
const Format = "assay-evidence-1"

// Folder is where evidence lies beside the rows: one folder a row.
const Folder = "evidence"

// Names of the files. A file is there when there was something to keep.
const (
	MetaFile       = "meta.json"
	StreamFile     = "stream.zst"
	SamplesFile    = "samples.zst"
	RequestFile    = "request.json"
	PromptFile     = "prompt.txt"
	CompletionFile = "completion.txt"
	MetricsBefore  = "metrics-before"
	MetricsAfter   = "metrics-after"
	LogFile        = "engine.log"
)

// Limits of what Read takes, so that hostile evidence can't fill the memory.
const (
	maxFile   = 64 << 20
	maxPacked = 128 << 20 // unpacked: the 64 MiB that a body may have, and the stamps beside it
)

// Meta is what belongs to the run as a whole.
type Meta struct {
	Format string      `json:"format"`
	Row    string      `json:"row"` // row_id
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Header http.Header `json:"header"` // of the request, secrets redacted
	// Facts are what the figures depend on beside the stream; the writer's own.
	Facts json.RawMessage `json:"facts,omitempty"`
}

// Record is the evidence of one run. A nil or empty part is not there.
type Record struct {
	Meta          Meta
	Recording     *stream.Recording
	Samples       []byte // JSON of what was read on the machine around the run
	Request       []byte // body, as sent
	Prompt        string // as the engine saw it, where that is known
	Completion    string // all generated text in the order of arrival
	MetricsBefore []byte
	MetricsAfter  []byte
	Log           []byte // the part of the engine's log that belongs to the run
}

// parts lists the files that are kept as they are.
func (r *Record) parts() []part {
	return []part{
		{RequestFile, &r.Request, nil},
		{PromptFile, nil, &r.Prompt},
		{CompletionFile, nil, &r.Completion},
		{MetricsBefore, &r.MetricsBefore, nil},
		{MetricsAfter, &r.MetricsAfter, nil},
		{LogFile, &r.Log, nil},
	}
}

type part struct {
	name  string
	bytes *[]byte
	text  *string
}

func (p part) get() []byte {
	if p.text != nil {
		return []byte(*p.text)
	}
	return *p.bytes
}

func (p part) set(b []byte) {
	if p.text != nil {
		*p.text = string(b)
		return
	}
	*p.bytes = b
}

// Write stores r in dir, which must not exist, and gives the sha256 of each file
// by its name. No secret is written: those named (API keys) are masked wherever
// they stand, and headers that carry credentials are redacted always. The
// directory appears whole or not at all.
func Write(dir string, r *Record, secrets []string) (map[string]string, error) {
	files, err := r.encode(secrets)
	if err != nil {
		return nil, fmt.Errorf("evidence %s: %w", dir, err)
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("evidence %s: it exists already, and evidence is never overwritten", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".evidence-*")
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	sums := make(map[string]string, len(files))
	for name, b := range files {
		if err := writeSynced(filepath.Join(tmp, name), b); err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		sums[name] = sum(b)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return sums, syncDir(filepath.Dir(dir))
}

// Masked is the record without its secrets: as Write stores it and Read gives it
// back. Masked twice is masked once.
func (r *Record) Masked(secrets []string) *Record {
	m := *r
	from, to := r.parts(), m.parts()
	for i := range from {
		to[i].set(mask(from[i].get(), secrets))
	}
	m.Samples = mask(r.Samples, secrets)
	if r.Recording != nil {
		m.Recording = maskRecording(r.Recording, secrets)
	}
	m.Meta.Header = redactHeader(r.Meta.Header)
	for k, values := range m.Meta.Header {
		for i, v := range values {
			m.Meta.Header[k][i] = string(mask([]byte(v), secrets))
		}
	}
	m.Meta.URL = string(mask([]byte(redactURL(r.Meta.URL)), secrets))
	m.Meta.Facts = mask(r.Meta.Facts, secrets)
	return &m
}

func (r *Record) encode(secrets []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	m := r.Masked(secrets)
	for _, p := range m.parts() {
		if b := p.get(); len(b) > 0 {
			files[p.name] = b
		}
	}
	if m.Recording != nil {
		raw, err := m.Recording.MarshalBinary()
		if err != nil {
			return nil, err
		}
		if files[StreamFile], err = pack(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", StreamFile, err)
		}
	}
	if len(m.Samples) > 0 {
		var err error
		if files[SamplesFile], err = pack(m.Samples); err != nil {
			return nil, fmt.Errorf("%s: %w", SamplesFile, err)
		}
	}
	m.Meta.Format = Format
	b, err := json.MarshalIndent(m.Meta, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", MetaFile, err)
	}
	files[MetaFile] = append(mask(b, secrets), '\n')
	return files, nil
}

// Read takes back what Write stored. Errors name the file.
func Read(dir string) (*Record, error) {
	r := &Record{}
	meta, err := readFile(dir, MetaFile)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		return nil, fmt.Errorf("%s: missing: not a directory of evidence", filepath.Join(dir, MetaFile))
	}
	if err := json.Unmarshal(meta, &r.Meta); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, MetaFile), err)
	}
	if r.Meta.Format != Format {
		return nil, fmt.Errorf("%s: format %q, want %q", filepath.Join(dir, MetaFile), r.Meta.Format, Format)
	}
	for _, p := range r.parts() {
		b, err := readFile(dir, p.name)
		if err != nil {
			return nil, err
		}
		p.set(b)
	}
	if r.Samples, err = readPacked(dir, SamplesFile); err != nil {
		return nil, err
	}
	raw, err := readPacked(dir, StreamFile)
	if err != nil || raw == nil {
		return r, err
	}
	r.Recording = &stream.Recording{}
	if err := r.Recording.UnmarshalBinary(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, StreamFile), err)
	}
	return r, nil
}

func pack(raw []byte) ([]byte, error) {
	if len(raw) > maxPacked {
		return nil, fmt.Errorf("larger than %d bytes", maxPacked)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	packed := enc.EncodeAll(raw, nil)
	return packed, enc.Close()
}

// readPacked reads a packed file of dir, nil when it is not there.
func readPacked(dir, name string) ([]byte, error) {
	packed, err := readFile(dir, name)
	if err != nil || packed == nil {
		return nil, err
	}
	raw, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return raw, nil
}

func unpack(packed []byte) ([]byte, error) {
	dec, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderMaxMemory(maxPacked), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	raw, err := io.ReadAll(io.LimitReader(dec, maxPacked+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxPacked {
		return nil, fmt.Errorf("larger than %d bytes unpacked", maxPacked)
	}
	return raw, nil
}

// Unpacked gives a file of dir as it can be read: what is packed is unpacked. A
// recording is a line of JSON and the body (stream.Recording).
func Unpacked(dir, name string) ([]byte, error) {
	read := readFile
	if name == StreamFile || name == SamplesFile {
		read = readPacked
	}
	b, err := read(dir, name)
	if err == nil && b == nil {
		err = fmt.Errorf("%s: missing", filepath.Join(dir, name))
	}
	return b, err
}

// Bytes gives a file of dir as it lies there.
func Bytes(dir, name string) ([]byte, error) {
	b, err := readFile(dir, name)
	if err == nil && b == nil {
		err = fmt.Errorf("%s: missing", filepath.Join(dir, name))
	}
	return b, err
}

// Pack packs what Unpacked unpacked, in the same way for the same bytes.
func Pack(name string, raw []byte) ([]byte, error) {
	if name == StreamFile || name == SamplesFile {
		return pack(raw)
	}
	return raw, nil
}

// Sums gives the sha256 of each file of dir by its name, as Write does.
func Sums(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	sums := map[string]string{}
	for _, e := range entries {
		b, err := readFile(dir, e.Name())
		if err != nil {
			return nil, err
		}
		sums[e.Name()] = sum(b)
	}
	return sums, nil
}

// Check compares the files of dir with the sums that the row keeps, and gives
// one error for each file that is missing, changed or not in the row.
func Check(dir string, sums map[string]string) []error {
	var out []error
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			out = append(out, fmt.Errorf("%s: not the name of a file of evidence", path))
			continue
		}
		b, err := readFile(dir, name)
		switch {
		case err != nil:
			out = append(out, err)
		case b == nil:
			out = append(out, fmt.Errorf("%s: missing", path))
		case sum(b) != sums[name]:
			out = append(out, fmt.Errorf("%s: changed: sha256 is %s, the row says %s", path, sum(b), sums[name]))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return append(out, fmt.Errorf("evidence: %w", err))
	}
	for _, e := range entries {
		if _, ok := sums[e.Name()]; !ok {
			out = append(out, fmt.Errorf("%s: the row does not know this file", filepath.Join(dir, e.Name())))
		}
	}
	return out
}

// readFile reads a regular file of dir, nil when it is not there.
func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("evidence: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that a file of evidence may have", path, info.Size(), maxFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// writeSynced stores a file for good: a row that names it must never outlive it.
func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// syncDir makes a new name in dir last. Some file systems can't, and say so by
// an error that nothing can be done about.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	_ = d.Sync()
	return d.Close()
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
