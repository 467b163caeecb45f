package row

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/kit/count"
)

// Violation is one thing wrong with a row.
type Violation struct {
	Path    string
	Problem string
}

func (v Violation) String() string { return v.Path + ": " + v.Problem }

// Validate checks a row against what this package promises of the rows that it
// writes and returns everything that is wrong, in the order of the fields. It
// is not meant for rows of other tools.
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
	c.found = append(c.found, Violation{path, fmt.Sprintf(format, args...)})
}

// oneOf refuses a value outside of a fixed set.
func oneOf[T ~string](c *checker, path string, got T, want ...T) {
	if !slices.Contains(want, got) {
		c.failf(path, "%q is none of %q", got, want)
	}
}

func (c *checker) names() {
	r := c.row
	oneOf(c, "schema", r.Schema, Schema)
	for _, f := range []struct{ path, value string }{
		{"assay_version", r.AssayVersion},
		{"timing_rule", r.TimingRule},
		{"row_id", r.RowID},
		{"cell", r.Cell},
		{"arm", r.Arm},
		{"engine", r.Engine},
		{"ctx", r.Ctx},
		{"decode_rule", r.DecodeRule},
	} {
		if strings.TrimSpace(f.value) == "" {
			c.failf(f.path, "empty")
		}
	}
	if rowFields[r.Engine] && r.Engine != ownEngine {
		c.failf("engine", "%q is the name of a field of rows", r.Engine)
	}
	if r.Assay != nil && r.Engine != ownEngine {
		c.failf(ownEngine, "only rows of engine %q have this block, this one's engine is %q", ownEngine, r.Engine)
	}
	oneOf(c, "phase", r.Phase, Warmup, Measure)
	if r.CountCheck.Verdict != nil {
		oneOf(c, "count_check.verdict", count.Verdict(*r.CountCheck.Verdict),
			count.AgreeIndependent, count.AgreeSameOrigin, count.Mismatch, count.Unchecked)
	}
	if r.Run < 1 {
		c.failf("run", "%d, want a number from 1", r.Run)
	}
	if r.Attempt < 1 {
		c.failf("attempt", "%d, want a number from 1", r.Attempt)
	}
}

func (c *checker) outcome() {
	r := c.row
	oneOf(c, "status", r.Status, OK, Failed, Stopped)
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
	for i, w := range c.row.Withheld {
		path := fmt.Sprintf("withheld[%d]", i)
		v, ok := shown[w.Figure]
		switch {
		case !ok:
			c.failf(path+".figure", "%q is no figure of a row", w.Figure)
		case v != nil:
			c.failf(w.Figure, "shown, though withheld")
		}
		if len(w.Codes) == 0 || slices.Contains(w.Codes, "") {
			c.failf(path+".codes", "missing")
		}
		if w.Unit == "" {
			c.failf(path+".unit", "missing")
		}
		if w.Why == "" {
			c.failf(path+".why", "missing")
		}
	}
}

// order checks pairs of which the first can't exceed the second.
func (c *checker) order() {
	n := c.row.numbers()
	for _, pair := range [][2]string{
		{"content_frames", "token_frames"},
		{"token_frames", "frames"},
		{"cached_tokens", "prompt_tokens"},
		{"ttft_ms", "ttfv_ms"},
		{"decode.n_first", "decode.n_last"},
		{"decode.n_low", "decode.n_high"},
		{"decode.t_first_ms", "decode.t_last_ms"},
		{"gaps.median_ms", "gaps.max_ms"},
		{"server_timings.draft_n_accepted", "server_timings.draft_n"},
	} {
		a, b := n[pair[0]], n[pair[1]]
		if a != nil && b != nil && *a > *b {
			c.failf(pair[0], "%v is more than %s, %v", *a, pair[1], *b)
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
	t.object("", root, nil)
	for _, path := range slices.Sorted(maps.Keys(c.row.Why)) {
		switch {
		case c.row.Why[path] == "":
			c.failf("why."+path, "an empty reason")
		case !t.passed[path]:
			c.failf("why."+path, "a reason for a field that the row does not have")
		case !t.used[path]:
			c.failf("why."+path, "a reason, but nothing there is null")
		}
	}
}

type treeCheck struct {
	*checker
	passed map[string]bool // paths that exist
	used   map[string]bool // paths whose reason covers a null
}

func (t *treeCheck) object(path string, m map[string]any, covers []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		t.value(join(path, name), m[name], covers)
	}
}

// value checks what is at path; covers are the paths at or above it that have
// a reason.
func (t *treeCheck) value(path string, v any, covers []string) {
	t.passed[path] = true
	if _, ok := t.row.Why[path]; ok {
		covers = append(slices.Clip(covers), path)
	}
	switch v := v.(type) {
	case nil:
		if len(covers) == 0 {
			t.failf(path, "null without a reason")
		}
		for _, p := range covers {
			t.used[p] = true
		}
	case map[string]any:
		t.object(path, v, covers)
	case []any:
		for i, e := range v {
			t.value(fmt.Sprintf("%s[%d]", path, i), e, covers)
		}
	case json.Number:
		if strings.HasPrefix(v.String(), "-") && !mayBeNegative(path) && t.known(path) {
			t.failf(path, "%s can't be negative", v)
		}
	case string:
		if holdsSHA256(path) && !isSHA256(v) && t.known(path) {
			t.failf(path, "%q is not a sha256 in lower-case hex", v)
		}
	}
}

// holdsSHA256 says whether the string at path is a sha256.
func holdsSHA256(path string) bool {
	for _, prefix := range []string{"file_sha256.", "evidence.files."} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return rowFields[path] && strings.HasSuffix(path, "_sha256")
}

// known says whether path is a field of this package's, not one of Extra's.
func (t *treeCheck) known(path string) bool {
	for parent, fields := range t.row.Extra {
		for name := range fields {
			p := join(parent, name)
			if path == p || strings.HasPrefix(path, p+".") || strings.HasPrefix(path, p+"[") {
				return false
			}
		}
	}
	return true
}

func mayBeNegative(path string) bool {
	for _, prefix := range []string{
		"count_check.gaps.", "count_check.sources[", "requested.sampling.", "withheld[",
		"telemetry.vram.growth_mib", "telemetry.temps.",
	} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
