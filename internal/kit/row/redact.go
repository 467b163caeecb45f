package row

import (
	"regexp"
	"strings"
)

// redactionPattern is what stands in place of a value that its publisher took
// out. Rows of other tools say "withheld" for it, which means something else
// here.
const redactionPattern = `^(withheld|redacted)-[0-9]{4}-[0-9]{2}-[0-9]{2}$`

var redaction = regexp.MustCompile(redactionPattern)

// IsRedaction says whether a text marks a value that was taken out for
// publication.
func IsRedaction(s string) bool { return redaction.MatchString(s) }

// marked is a text that a mark stands in, at any place.
var marked = regexp.MustCompile(`\b(withheld|redacted)-[0-9]{4}-[0-9]{2}-[0-9]{2}\b`)

// HoldsRedaction says whether a part of a text was taken out for publication.
func HoldsRedaction(s string) bool { return marked.MatchString(s) }

// Redaction is the mark of a day, which is written 2006-01-02.
func Redaction(day string) string { return "redacted-" + day }

// Redactable says whether a mark may stand at a path of a row, as
// "command_line[3]". It may wherever rows know no field: what other engines say
// of themselves.
func Redactable(path string) bool {
	n := shape
	parts := strings.Split(path, ".")
	for i, part := range parts {
		name, indices, _ := strings.Cut(part, "[")
		if n = n.child(name); n == nil {
			return true
		}
		if n.kind == mapKind && i < len(parts)-1 { // names in maps may hold dots
			return redactable(n.each)
		}
		for range strings.Count(indices, "]") {
			if n = n.each; n == nil {
				return true
			}
		}
	}
	return redactable(n)
}

// worth are the places that say what a row is worth. They stay in any
// publication, with what is below them.
var worth = map[string]bool{
	"flags": true, "flags[]": true, "fail_kind": true, "count_check.verdict": true,
	"withheld": true, "withheld[]": true, "withheld[].figure": true, "withheld[].codes": true, "withheld[].codes[]": true,
}

// redactable says whether a mark may stand in a place: where null may stand, for
// whole objects and lists, and for texts that are not one of a fixed set. What
// a row is worth stays.
func redactable(n *node) bool {
	switch {
	case n == shape || worth[n.Path]:
		return false
	case n.kind == textKind:
		return n.null || n.limit.oneOf == nil
	case n.kind == objectKind || n.kind == listKind || n.kind == mapKind:
		return true
	}
	return n.null
}
