package prompt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxCount is the largest token count that ParseCount takes. No model of today
// has a context near it; more is a slip of the hand.
const MaxCount = 1 << 30

// multipliers of a count's suffix, the longer ones first.
var multipliers = []struct {
	suffix string
	factor int
}{
	{"Ki", 1024},
	{"Mi", 1024 * 1024},
	{"K", 1000},
	{"M", 1000 * 1000},
}

// ParseCount reads a token count: "512", "2K" (2000), "4Ki" (4096), "1.5K".
// K is 1000 and Ki is 1024, always.
func ParseCount(s string) (int, error) {
	bad := func(why string) error {
		return fmt.Errorf("%q is not a token count: %s (want 512, 4K for 4000, or 4Ki for 4096)", s, why)
	}
	number, factor := strings.TrimSpace(s), 1
	for _, m := range multipliers {
		if cut, ok := strings.CutSuffix(number, m.suffix); ok {
			number, factor = cut, m.factor
			break
		}
	}
	if number == "" {
		return 0, bad("there is no number")
	}
	if strings.Trim(number, "0123456789.") != "" {
		if strings.HasPrefix(number, "-") {
			return 0, bad("it is negative")
		}
		return 0, bad("K, Ki, M and Mi are the only suffixes")
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, bad("the number does not parse")
	}
	n := v * float64(factor)
	switch {
	case n > MaxCount:
		return 0, bad(fmt.Sprintf("more than %d", MaxCount))
	case n < 1:
		return 0, bad("it is less than one token")
	case n != math.Trunc(n):
		return 0, bad(fmt.Sprintf("%v is not whole", n))
	}
	return int(n), nil
}

// FormatCount writes n as ParseCount reads it, in the shortest exact form:
// 4000 as "4K", 4096 as "4Ki", 512 as "512".
func FormatCount(n int) string {
	switch {
	case n >= 1000000 && n%1000000 == 0:
		return strconv.Itoa(n/1000000) + "M"
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "Mi"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "K"
	case n >= 1024 && n%1024 == 0:
		return strconv.Itoa(n/1024) + "Ki"
	}
	return strconv.Itoa(n)
}
