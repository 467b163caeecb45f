package publish

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Kinds of what is found and redacted.
const (
	KindHome    = "home directory"
	KindUser    = "user name"
	KindHost    = "host name"
	KindKey     = "key"
	KindAddress = "address"
	KindSerial  = "serial number"
	KindMail    = "mail address"
	KindField   = "field"   // asked for by name
	KindPattern = "pattern" // asked for by a pattern of its text
	KindListed  = "listed"  // named by the publisher, in a file
)

// secret is a text that may not reach a bundle, with the forms in which it could.
type secret struct {
	kind, value string
	number      *regexp.Regexp // of a short number, which stands for too many other things to be searched for bare
	forms       []form
}

// form is one way to write a secret.
type form struct {
	name  string // "as it is", "in a URL" ...
	text  []byte // in lower case when fold
	fold  bool   // case does not matter
	whole bool   // it is not part of a longer word
}

// shortest is what can be searched for: shorter texts stand everywhere.
const shortest = 4

// shortNumber are values that are numbers of up to five digits, as ports are.
var shortNumber = regexp.MustCompile(`^[0-9]{2,5}$`)

// newSecret prepares the search for a value; nil where it can't be searched for.
func newSecret(kind, value string) *secret {
	if shortNumber.MatchString(value) {
		// Behind a host's colon, or behind the word port and what JSON, flags and
		// tables put between the two. Elsewhere it is another number.
		return &secret{kind: kind, value: value, number: regexp.MustCompile(`(?i)(?:port(?:["',:=\s\[\]-]|\\[nt"]){1,40}|[0-9a-z.\]-]:)(` + value + `)(?:[^0-9]|$)`)}
	}
	if len(value) < shortest && kind != KindUser && kind != KindHost {
		return nil
	}
	s := &secret{kind: kind, value: value}
	fold := kind == KindUser || kind == KindHost || kind == KindMail || kind == KindAddress
	whole := kind != KindKey && kind != KindListed && kind != KindPattern
	seen := map[string]bool{}
	add := func(name, text string, fold, whole bool) {
		if fold {
			text = string(lower([]byte(text)))
		}
		if !seen[text] && text != "" {
			seen[text] = true
			s.forms = append(s.forms, form{name, []byte(text), fold, whole})
		}
	}
	add("as it is", value, fold, whole)
	for _, guard := range []bool{false, true} {
		add("in JSON", jsonText(value, guard), fold, whole)
	}
	add("in JSON", strings.ReplaceAll(jsonText(value, false), "/", `\/`), fold, whole)
	add("in a URL", url.QueryEscape(value), true, whole)
	add("in a URL", url.PathEscape(value), true, whole)
	if kind == KindAddress && strings.Count(value, ":") == 5 {
		add("as it is", strings.ReplaceAll(value, ":", "-"), true, whole)
		add("as it is", strings.ReplaceAll(value, ":", ""), true, whole)
	}
	if len(value) >= 6 {
		for _, text := range inBase64(value) {
			add("in base64", text, false, false)
		}
	}
	return s
}

// jsonText is a text as it stands between the quotes of a JSON string.
func jsonText(s string, guardHTML bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(guardHTML)
	_ = enc.Encode(s) // a string always encodes
	return string(b.Bytes()[1 : b.Len()-2])
}

// inBase64 are the letters that a text has in base64, wherever in a longer text
// it begins: those that no neighbour changes, in both alphabets.
func inBase64(s string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", before) + s))
			first := (before*8 + 5) / 6 // letters that hold bits of what stands before
			last := (before + len(s)) * 8 / 6
			out = append(out, text[first:last])
		}
	}
	return out
}

// lower is the text with A to Z in lower case and all other bytes as they are, so
// that places stay.
func lower(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// hit is a place where a secret stands.
type hit struct {
	start, end int
	secret     *secret
	form       string
}

// hits finds all secrets in a text, in the order of their places. Where they
// overlap, one hit covers them all.
func hits(text []byte, secrets []*secret) []hit {
	if len(text) == 0 {
		return nil
	}
	var out []hit
	var folded []byte
	for _, s := range secrets {
		if s.number != nil {
			for _, m := range s.number.FindAllSubmatchIndex(text, -1) {
				out = append(out, hit{m[2], m[3], s, "as it is"})
			}
			continue
		}
		for _, f := range s.forms {
			in := text
			if f.fold {
				if folded == nil {
					folded = lower(text)
				}
				in = folded
			}
			for at := 0; ; {
				i := bytes.Index(in[at:], f.text)
				if i < 0 {
					break
				}
				start, end := at+i, at+i+len(f.text)
				if f.whole && (start > 0 && joins(text[start-1], text[start]) || end < len(text) && joins(text[end-1], text[end])) {
					at = start + 1
					continue
				}
				out = append(out, hit{start, end, s, f.name})
				at = end
			}
		}
	}
	slices.SortFunc(out, func(a, b hit) int { return a.start - b.start })
	merged := out[:0]
	for _, h := range out {
		if n := len(merged); n > 0 && h.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, h.end)
			continue
		}
		merged = append(merged, h)
	}
	return merged
}

// joins says whether two neighbours are of one word.
func joins(a, b byte) bool { return isWord(a) && isWord(b) }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// argument is the place of an argument of a program, in rows and in evidence.
var argument = regexp.MustCompile(`(?:^|\.)(?:command_line|argv)\[[0-9]+\]$`)

// replaceAt is replace for the text at a path of JSON: an argument that is a
// short number as a whole is one of those that are redacted.
func replaceAt(path, text string, secrets []*secret, mark string) (out string, changed bool) {
	if argument.MatchString(path) {
		for _, s := range secrets {
			if s.number != nil && s.value == text {
				return mark, true
			}
		}
	}
	b, changed := replace([]byte(text), secrets, mark)
	out = string(b)
	if path == "url" { // whose port must be a number: there it goes with the host's name
		out = strings.Replace(out, ":"+mark, "."+mark, 1)
	}
	return out, changed
}

// replace puts the mark in place of every secret.
func replace(text []byte, secrets []*secret, mark string) (out []byte, changed bool) {
	found := hits(text, secrets)
	if len(found) == 0 {
		return text, false
	}
	at := 0
	for _, h := range found {
		out = append(append(out, text[at:h.start]...), mark...)
		at = h.end
	}
	return append(out, text[at:]...), true
}

// views are the readings of a text in which secrets are searched for: as it is,
// and with the escapes of JSON and of URLs taken off where it has any.
func views(text []byte) []view {
	out := []view{{"", text}}
	if bytes.IndexByte(text, '\\') >= 0 {
		out = append(out, view{"behind JSON's escapes", unescapeJSON(text)})
	}
	if bytes.IndexByte(text, '%') >= 0 {
		out = append(out, view{"behind a URL's escapes", unescapeURL(text)})
	}
	return out
}

type view struct {
	name string
	text []byte
}

// unescapeJSON takes JSON's escapes off, twice where they are doubled.
func unescapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			out = append(out, c)
			continue
		}
		for i+1 < len(text) && text[i+1] == '\\' {
			i++ // \\\\" is a quote written three times over
		}
		if i++; i == len(text) {
			break
		}
		switch e := text[i]; e {
		case 'n', 'r', 't', 'b', 'f':
			out = append(out, ' ')
		case 'u':
			if r, ok := hexNumber(text, i+1, 4); ok {
				out = append(out, string(rune(r))...)
				i += 4
			} else {
				out = append(out, e)
			}
		default:
			out = append(out, e)
		}
	}
	return out
}

func unescapeURL(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' {
			if n, ok := hexNumber(text, i+1, 2); ok {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}

func hexNumber(text []byte, at, digits int) (n int, ok bool) {
	if at+digits > len(text) {
		return 0, false
	}
	for _, c := range text[at : at+digits] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | int(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
