package row

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Violation is one thing wrong with a row.
type Violation struct {
	Path    string
	Problem string
	// Relates: it lies in how fields relate to each other, of which the JSON
	// Schema knows nothing.
	Relates bool
}

func (v Violation) String() string { return v.Path + ": " + v.Problem }

// Validate checks a row against what this package promises of the rows that it
// writes and returns everything that is wrong. It is not meant for rows of other
// tools.
func Validate(r *Row) []Violation {
	c := checker{row: r}
	c.names()
	c.outcome()
	c.withheld()
	c.order()
	c.tree()
	return c.found
}

type checker struct {
	row   *Row
	found []Violation
}

func (c *checker) failf(path, format string, args ...any) {
	c.found = append(c.found, Violation{path, fmt.Sprintf(format, args...), false})
}

// relate is failf for what the schema can't say.
func (c *checker) relate(path, format string, args ...any) {
	c.found = append(c.found, Violation{path, fmt.Sprintf(format, args...), true})
}

func (c *checker) names() {
	r := c.row
	if rowFields[r.Engine] && r.Engine != OwnEngine {
		c.failf("engine", "%q is the name of a field of rows", r.Engine)
	}
	if r.Assay != nil && r.Engine != OwnEngine {
		c.failf(OwnEngine, "only rows of engine %q have this block, this one's engine is %q", OwnEngine, r.Engine)
	}
}

func (c *checker) outcome() {
	r := c.row
	for _, f := range []struct {
		path  string
		value *string
	}{{"fail_kind", r.FailKind}, {"error", r.Error}} {
		switch {
		case r.Status == OK && f.value != nil:
			c.failf(f.path, "given, though the status is ok")
		case r.Status != OK && (f.value == nil || *f.value == ""):
			c.failf(f.path, "missing, though the status is %q", r.Status)
		}
	}
}

// withheld sees to it that what is withheld is not shown as well.
func (c *checker) withheld() {
	shown := c.row.numbers()
	for _, w := range c.row.Withheld {
		if shown[w.Figure] != nil {
			c.relate(w.Figure, "shown, though withheld")
		}
	}
}

// order checks pairs of which the first can't exceed the second. What a server
// says of itself is not among them: it may be nonsense, and is then the row's
// to show.
func (c *checker) order() {
	n := c.row.numbers()
	for _, pair := range [][2]string{
		{"content_frames", "token_frames"},
		{"token_frames", "frames"},
		{"ttft_ms", "ttfv_ms"},
		{"decode.n_first", "decode.n_last"},
		{"decode.n_low", "decode.n_high"},
		{"decode.t_first_ms", "decode.t_last_ms"},
		{"gaps.median_ms", "gaps.max_ms"},
	} {
		a, b := n[pair[0]], n[pair[1]]
		if a != nil && b != nil && *a > *b {
			c.relate(pair[0], "%v is more than %s, %v", *a, pair[1], *b)
		}
	}
}

// tree walks the row as it will be written.
func (c *checker) tree() {
	line, err := c.row.Encode()
	if err != nil {
		c.failf("", "%v", err)
		return
	}
	root, err := parse(line)
	if err != nil {
		c.failf("", "%v", err)
		return
	}
	t := treeCheck{checker: c, used: map[string]bool{}, passed: map[string]bool{}}
	t.object(shape, "", root, nil)
	for _, path := range slices.Sorted(maps.Keys(c.row.Why)) {
		switch {
		case c.row.Why[path] == "": // the limit on reasons has told
		case !t.passed[path]:
			c.relate("why."+path, "a reason for a field that the row does not have")
		case !t.used[path]:
			c.relate("why."+path, "a reason, but nothing there is null")
		}
	}
}

type treeCheck struct {
	*checker
	passed map[string]bool // paths that exist
	used   map[string]bool // paths whose reason covers a null
}

func (t *treeCheck) object(n *node, path string, m map[string]any, covers []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		t.value(n.child(name), join(path, name), m[name], covers)
	}
}

// value checks what is at path; n is the place there, nil where rows know none.
// covers are the paths at or above it that have a reason.
func (t *treeCheck) value(n *node, path string, v any, covers []string) {
	t.passed[path] = true
	if _, ok := t.row.Why[path]; ok {
		covers = append(slices.Clip(covers), path)
	}
	switch v := v.(type) {
	case nil:
		if len(covers) == 0 {
			t.relate(path, "null without a reason")
		}
		for _, p := range covers {
			t.used[p] = true
		}
	case map[string]any:
		t.object(n, path, v, covers)
	case []any:
		var each *node
		if n != nil {
			if each = n.each; n.limit.some && len(v) == 0 {
				t.failf(path, "empty")
			}
		}
		for i, e := range v {
			t.value(each, fmt.Sprintf("%s[%d]", path, i), e, covers)
		}
	case json.Number:
		if n != nil {
			t.number(n, path, v)
		}
	case string:
		if n != nil {
			t.text(n, path, v)
		}
	}
}

func (t *treeCheck) number(n *node, path string, v json.Number) {
	switch f, _ := v.Float64(); {
	case n.limit.anything:
	case n.limit.atLeast != nil && f < *n.limit.atLeast:
		t.failf(path, "%s, want a number from %v", v, *n.limit.atLeast)
	case n.limit.atLeast == nil && f < 0:
		t.failf(path, "%s can't be negative", v)
	}
}

func (t *treeCheck) text(n *node, path, v string) {
	if n.kind != textKind {
		t.failf(path, "%q stands in place of the value: rows are not redacted when they are written", v)
		return
	}
	l := n.limit
	if (l.oneOf == nil || slices.Contains(l.oneOf, v)) && (l.pattern == nil || l.pattern.MatchString(v)) {
		return
	}
	if l.means == "" {
		t.failf(path, "%q is none of %q", v, l.oneOf)
		return
	}
	t.failf(path, "%q is not %s", v, l.means)
}
