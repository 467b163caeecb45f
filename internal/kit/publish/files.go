package publish

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"regexp"

	"assay/internal/kit/bundle"
	"assay/internal/kit/evidence"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
)

func mapsKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// Why files are left out.
const (
	notAsked   = "the publisher left it out"
	inPieces   = "its text holds what was redacted"
	isInStream = "its text is that of " + evidence.StreamFile
)

// evidence stages what of a row's evidence is published, and gives the paths of
// the row's hashes that must be redacted with it.
func (d *Draft) evidence(s *staged, r *row.Row) (hidden map[string]bool, err error) {
	hidden = map[string]bool{}
	if r.Evidence.Dir == nil {
		return hidden, nil
	}
	shown, _ := replace([]byte(*r.Evidence.Dir), d.secrets, d.mark)
	dir := filepath.Join(d.Dir, filepath.FromSlash(*r.Evidence.Dir))
	rec, err := evidence.Read(dir)
	if err != nil {
		return nil, err
	}
	text := rec.Recording != nil && d.holds(completionOf(rec)) || d.holds(rec.Completion)
	for _, p := range d.match { // a short text can't be searched for, but guessed from its hash
		text = text || p.re != nil && p.re.MatchString("completion_head") && hasText(r, "completion_head")
	}
	if text {
		hidden["completion_sha256"] = true
	}
	if d.holds(rec.Prompt) {
		hidden["prompt_sha256"], hidden["slice_sha256"] = true, true
	}
	for _, name := range sortedNames(r.Evidence.Files) {
		member := path.Join(string(shown), name)
		raw, err := evidence.Unpacked(dir, name)
		if err != nil {
			return nil, err
		}
		data, changed, err := d.file(name, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member, err)
		}
		why := d.leftOut(name)
		if text && (name == evidence.StreamFile || name == evidence.CompletionFile) {
			why = inPieces
			changed = true
		}
		if why == "" && name == evidence.RequestFile && d.options.Evidence == bundle.Figures {
			data, changed = withoutTexts(data, changed, r.Nonce, d.mark)
		}
		if changed {
			hidden["evidence.files."+name] = true
		}
		if why != "" {
			s.manifest.LeftOut = append(s.manifest.LeftOut, bundle.LeftOut{Name: member, Why: why})
			continue
		}
		if data, err = evidence.Pack(name, data); err == nil {
			if !changed { // packed anew it would be other bytes by another version's packer
				data, err = evidence.Bytes(dir, name)
			}
		}
		if err != nil {
			return nil, err
		}
		if err := s.add(member, data, changed); err != nil {
			return nil, err
		}
	}
	return hidden, nil
}

func (d *Draft) holds(text string) bool {
	for _, v := range views([]byte(text)) {
		if len(hits(v.text, d.secrets)) > 0 {
			return true
		}
	}
	return false
}

// leftOut is why the level leaves a file out; empty: it does not.
func (d *Draft) leftOut(name string) string {
	switch d.options.Evidence {
	case bundle.None:
		return notAsked
	case bundle.Figures:
		switch name {
		case evidence.PromptFile:
			return notAsked
		case evidence.CompletionFile:
			return isInStream
		}
	}
	return ""
}

// file redacts an unpacked file.
func (d *Draft) file(name string, raw []byte) (out []byte, changed bool, err error) {
	switch name {
	case evidence.MetaFile:
		flags, some := d.flags(raw)
		out, changed = replaceJSON(flags, d.secrets, d.mark)
		changed = changed || some
	case evidence.RequestFile, evidence.SamplesFile:
		out, changed = replaceJSON(raw, d.secrets, d.mark)
	case evidence.StreamFile:
		return d.recording(raw)
	default:
		out, changed = replace(raw, d.secrets, d.mark)
	}
	return out, changed, nil
}

// flags redacts the flags that were asked for in the arguments that evidence
// keeps, as the row does: their values may be too short to be searched for.
func (d *Draft) flags(meta []byte) ([]byte, bool) {
	list, err := spans(meta)
	if err != nil {
		return meta, false
	}
	var edits []edit
	before := ""
	for _, s := range list {
		if !s.isText || s.name || !argument.MatchString(s.path) {
			before = ""
			continue
		}
		for _, p := range d.match {
			if _, with, ok := p.argument(before, s.text, d.mark); ok {
				edits = append(edits, edit{s.start, s.end, with})
				break
			}
		}
		before = s.text
	}
	return apply(meta, edits), len(edits) > 0
}

// recording redacts a recording: its head as JSON, its body as the bytes that
// came. Stamps stay with the bytes that they belong to; a read of which nothing
// is left goes into the one that follows.
func (d *Draft) recording(raw []byte) ([]byte, bool, error) {
	head, body, _ := bytes.Cut(raw, []byte("\n"))
	if found := hits(body, d.secrets); len(found) > 0 {
		rec := new(stream.Recording)
		if err := rec.UnmarshalBinary(raw); err != nil {
			return nil, false, err
		}
		rec.Reads = cutReads(rec.Reads, found, d.mark)
		again, err := rec.MarshalBinary()
		if err != nil {
			return nil, false, err
		}
		head, body, _ = bytes.Cut(again, []byte("\n"))
		head, _ = replaceJSON(head, d.secrets, d.mark)
		return join(head, body), true, nil
	}
	head, changed := replaceJSON(head, d.secrets, d.mark)
	return join(head, body), changed, nil
}

func join(head, body []byte) []byte { return append(append(bytes.Clone(head), '\n'), body...) }

// cutReads puts the mark in place of the hits. The mark comes with the read in
// which the hit ended: only then was all of it there.
func cutReads(reads []stream.Read, found []hit, mark string) []stream.Read {
	var out []stream.Read
	at, next := 0, 0
	for _, rd := range reads {
		var b []byte
		for i, c := range rd.Bytes {
			pos := at + i
			for next < len(found) && pos >= found[next].end {
				next++
			}
			if next == len(found) || pos < found[next].start {
				b = append(b, c)
				continue
			}
			if pos == found[next].end-1 {
				b = append(b, mark...)
			}
		}
		at += len(rd.Bytes)
		if rd.Bytes = b; len(b) > 0 {
			out = append(out, rd)
		}
	}
	return out
}

// messageText are the places of a request that hold prompts.
var messageText = regexp.MustCompile(`^(messages\[[0-9]+\]\.content.*|prompt|system)$`)

// withoutTexts takes the prompts out of a request, but for the nonce, which the
// row has as well.
func withoutTexts(body []byte, changed bool, nonce *string, mark string) ([]byte, bool) {
	list, err := spans(body)
	if err != nil {
		return body, changed
	}
	var edits []edit
	for _, s := range list {
		if s.name || !s.isText || !messageText.MatchString(s.path) {
			continue
		}
		with := mark
		if nonce != nil {
			if slice, ok := prompt.SliceOf(s.text, *nonce); ok {
				with = s.text[:len(s.text)-len(slice)]
			}
		}
		edits = append(edits, edit{s.start, s.end, quoted(with)})
	}
	if len(edits) == 0 {
		return body, changed
	}
	return apply(body, edits), true
}

// cleanMember searches a member of the finished bundle, unpacked, and the text of
// a stream put together of its frames.
func (d *Draft) cleanMember(dir, member string) error {
	if err := d.clean("the name of a member", []byte(member)); err != nil {
		return err
	}
	if member == row.RowsFile {
		return d.eachPublished(dir, func(line []byte) error { return d.clean(member, line) })
	}
	at, name := memberDir(dir, member)
	text, err := evidence.Unpacked(at, name)
	if err != nil {
		return err
	}
	if err := d.clean(member, text); err != nil {
		return err
	}
	if name != evidence.StreamFile {
		return nil
	}
	rec := &evidence.Record{Recording: new(stream.Recording)}
	if err := rec.Recording.UnmarshalBinary(text); err != nil {
		return err
	}
	return d.clean(member+", its text", []byte(completionOf(rec)))
}
