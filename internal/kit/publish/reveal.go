package publish

import (
	"fmt"
	"os"
	"slices"

	"assay/internal/kit/bundle"
)

// Reveal picks openings out of a publisher's salts: of the fields that are named
// as for redaction, or of a whole line as "line". rowID "" is every row. What it
// returns can be given away: it opens nothing else.
func Reveal(salts *bundle.Openings, fields []string, rowID string) (*bundle.Openings, error) {
	out := &bundle.Openings{Format: bundle.RevealFormat, Bundle: salts.Bundle, Openings: []bundle.Opening{}}
	for _, f := range fields {
		p, err := newPattern(f)
		if err != nil {
			return nil, err
		}
		found := false
		for _, o := range salts.Openings {
			if rowID != "" && o.Row != rowID || !p.opens(o, salts) {
				continue
			}
			found = true
			if !slices.ContainsFunc(out.Openings, func(x bundle.Opening) bool { return x.Line == o.Line && x.Path == o.Path }) {
				out.Openings = append(out.Openings, o)
			}
		}
		if !found {
			return nil, fmt.Errorf("%q: nothing of that name was redacted; assay reveal without fields lists what was", f)
		}
	}
	return out, nil
}

// opens says whether an opening is of what the pattern names. Of a flag the
// original line tells which element of the command line it is.
func (p *pattern) opens(o bundle.Opening, salts *bundle.Openings) bool {
	if p.flag == "" {
		return o.Path == p.text || p.re.MatchString(indices.ReplaceAllString(o.Path, ""))
	}
	for _, line := range salts.Openings {
		if line.Line == o.Line && line.Path == bundle.WholeLine {
			return p.isFlagOf(o.Path, line.Value)
		}
	}
	return false
}

// LoadOpenings reads a file of salts or of what was revealed.
func LoadOpenings(path string) (*bundle.Openings, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > bundle.MaxOpenings {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that such a file may have", path, info.Size(), bundle.MaxOpenings)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return bundle.ParseOpenings(path, data)
}

// StoreOpenings writes what is revealed to a new file.
func StoreOpenings(path string, o *bundle.Openings) error {
	data, err := o.Encode()
	if err != nil {
		return err
	}
	return writeOwn(path, data)
}
