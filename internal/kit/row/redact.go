package row

import "regexp"

// redactionPattern is what stands in place of a value that its publisher took
// out. Rows of other tools say "withheld" for it, which means something else
// here.
const redactionPattern = `^(withheld|redacted)-[0-9]{4}-[0-9]{2}-[0-9]{2}$`

var redaction = regexp.MustCompile(redactionPattern)

// IsRedaction says whether a text marks a value that was taken out for
// publication.
func IsRedaction(s string) bool { return redaction.MatchString(s) }

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
