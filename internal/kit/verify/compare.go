package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/kit/row"
)

// compare adds a finding for every value in which the row differs from what the
// evidence gives.
func (c *check) compare(r, again *row.Row) {
	// The row's place and the hashes of its evidence have been checked.
	again.Evidence = r.Evidence
	again.Place(r.Seq, r.PrevSHA256)
	diffs, err := differences(r, again)
	if err != nil {
		c.about(Evidence, r, "%v", err)
		return
	}
	for _, d := range diffs {
		if c.bundle.unprovable(c, r, d) {
			continue
		}
		f := Finding{
			Kind: Value, File: c.rows, Line: c.line, Row: r.RowID, Path: d.path, Problem: d.String(),
			InRow: raw(d.inRow), Recomputed: raw(d.again),
		}
		if r.AssayVersion != c.options.Version && d.ofVersion() {
			c.report.Notes = append(c.report.Notes, f)
			continue
		}
		c.add(f)
	}
}

// absent stands for a value that is not there.
type absent struct{}

// difference is a value that two rows do not share.
type difference struct {
	path         string
	inRow, again any // as JSON reads it; absent
}

func (d difference) String() string {
	return fmt.Sprintf("%s in the row, %s by the evidence", show(d.inRow), show(d.again))
}

// ofVersion says whether another version of the program is enough to explain the
// difference: a text that explains, or a field that the row's version did not
// have.
func (d difference) ofVersion() bool {
	if d.inRow == any(absent{}) && !strings.HasPrefix(d.path, "why.") {
		return true
	}
	return explains(d.path)
}

// explains says whether a path holds words that explain a value beside it.
func explains(path string) bool {
	for _, prefix := range []string{"why.", "sources.", "notes."} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	return slices.Contains([]string{
		"decode_rule", "cache_flag", "error", "why", "rule", "psi_rule", "tolerance", "n_source", "label", "tokens_per_round_rule",
	}, last)
}

func raw(v any) json.RawMessage {
	if v == any(absent{}) {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil // what was read as JSON can be written as JSON
	}
	return b
}

// show is a value for a reader: JSON, cut where it is long.
func show(v any) string {
	if v == any(absent{}) {
		return "nothing"
	}
	const most = 120
	s := string(raw(v))
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// differences lists, in the order of their paths, the values in which two rows
// differ.
func differences(r, again *row.Row) ([]difference, error) {
	var trees [2]map[string]any
	for i, one := range []*row.Row{r, again} {
		line, err := one.Encode()
		if err != nil {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&trees[i]); err != nil {
			return nil, err
		}
	}
	return walk(nil, "", trees[0], trees[1]), nil
}

func walk(out []difference, path string, a, b any) []difference {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			p := name
			if path != "" {
				p = path + "." + name
			}
			out = walk(out, p, valueOf(x, name), valueOf(y, name))
		}
		return out
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			out = walk(out, fmt.Sprintf("%s[%d]", path, i), elementOf(x, i), elementOf(y, i))
		}
		return out
	default:
		// Maps and lists can't be compared, nor are they equal to what is none.
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return out
			}
		}
	}
	return append(out, difference{path, a, b})
}

func valueOf(m map[string]any, name string) any {
	if v, ok := m[name]; ok {
		return v
	}
	return absent{}
}

func elementOf(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}
