package report

import (
	"slices"
	"strings"

	"assay/internal/kit/row"
)

// gone counts one more run in which a figure is gone.
func gone(list []Gone, g Gone) []Gone {
	for i := range list {
		if list[i].Figure == g.Figure && slices.Equal(list[i].Codes, g.Codes) {
			list[i].Runs++
			return list
		}
	}
	g.Runs = 1
	return append(list, g)
}

// withheldOf lists what a row withholds. Rows of other tools keep a withheld
// decode rate in a field of its own, with the count's verdict as the reason.
func withheldOf(r *row.Row) []Gone {
	var out []Gone
	for _, w := range r.Withheld {
		out = append(out, Gone{Figure: w.Figure, Codes: w.Codes, Why: w.Why})
	}
	if r.Schema == "" {
		for _, f := range []struct {
			path  string
			value *float64
		}{{"decode_tok_s", r.DecodeTokSWithheld}, {"decode_tok_s_server", r.DecodeTokSServerWithheld}} {
			if f.value != nil {
				out = append(out, Gone{Figure: f.path, Codes: []string{verdictOf(r)}, Why: "its own rule: " + textOf(r.CountCheck.Rule)})
			}
		}
	}
	return out
}

func verdictOf(r *row.Row) string {
	if r.CountCheck.Verdict == nil {
		return "unchecked"
	}
	return *r.CountCheck.Verdict
}

// leftOut says whether a row is too short to be summed up.
func leftOut(r *row.Row) bool {
	if r.Schema != "" {
		return slices.Contains(r.Flags, row.FlagLeftOut)
	}
	return r.ShortCompletion != nil && *r.ShortCompletion
}

// whyOf is the reason for a null: the row's for the path, or for an object
// that holds it.
func whyOf(r *row.Row, path string) string {
	for p := path; p != ""; p = p[:max(strings.LastIndexByte(p, '.'), 0)] {
		if why := r.Why[p]; why != "" {
			return why
		}
	}
	return "the row gives no reason"
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
