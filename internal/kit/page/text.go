package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text of a row harmless to read: no control characters, and none
// that turn the direction of what follows.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// short cuts a long text.
func short(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}

// said is a text of a row as a sentence shows it.
func said(s string) string {
	if s == "" {
		return "no reason given"
	}
	return short(clean(s), 240)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// number shows four significant digits, or all before the point.
func number(v float64) string { return fixed(v, decimals(v)) }

func fixed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no minus zero
	}
	return s
}

func decimals(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000:
		return 0
	case v >= 100:
		return 1
	case v >= 10:
		return 2
	}
	return 3
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// list joins the parts of an enumeration.
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// percents shows a ratio as a difference in percent: "4.2" of 1.042 and of 0.958.
func percents(ratio float64) string {
	p := 100 * math.Abs(ratio-1)
	if p >= 9.95 {
		return fixed(p, 0)
	}
	return fixed(p, 1)
}

// against is a ratio in words.
func against(ratio float64) string {
	if ratio < 1 {
		return percents(ratio) + " % lower"
	}
	return percents(ratio) + " % higher"
}

// shell writes an argument so that a shell gives it back as it is.
func shell(s string) string {
	s = clean(s)
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func shellLine(args ...string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = shell(a)
	}
	return strings.Join(out, " ")
}

// bytesText is an amount of memory.
func bytesText(n float64) string {
	return fmt.Sprintf("%s GiB", number(n/(1<<30)))
}
