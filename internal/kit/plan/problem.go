package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong in a plan, and where.
type Problem struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"` // from 1; 0: a plan made from flags
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"` // "arms[1].command"
	Text   string `json:"text"`
}

// Error is "plan.yaml:14:3: contexts: ...".
func (p Problem) Error() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:", p.File, p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, "%d:", p.Column)
		}
		b.WriteString(" ")
	} else if p.File != "" {
		b.WriteString(p.File + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	return b.String() + p.Text
}

// Problems are all that is wrong, in the order of the file.
type Problems []Problem

// maxShown bounds what an error prints: whoever has more than this should start
// with the first.
const maxShown = 20

func (p Problems) Error() string {
	var b strings.Builder
	for i, one := range p {
		if i == maxShown {
			fmt.Fprintf(&b, "\n... and %d more", len(p)-maxShown)
			break
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

// asError sorts the problems; nil when there are none.
func (p Problems) asError() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

// nearest finds the word that was probably meant, or "".
func nearest(word string, known []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	best, at := "", 1+max(1, len(word)/3)
	w := plain(word)
	if len(w) > 40 {
		return "" // no key is that long
	}
	for _, k := range known {
		pk := plain(k)
		d := distance(w, pk)
		if len(w) > 2 && (strings.HasPrefix(pk, w) || strings.HasPrefix(w, pk)) {
			d = min(d, 1)
		}
		if d < at {
			best, at = k, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour that makes b of a.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// didYouMean is the end of a message about an unknown word.
func didYouMean(word string, known []string) string {
	if k := nearest(word, known); k != "" {
		return fmt.Sprintf(" (did you mean %s?)", k)
	}
	return fmt.Sprintf(" (want %s)", join(known, "or"))
}
