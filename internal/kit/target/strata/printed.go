package strata

import (
	"math"
	"strconv"
	"strings"
)

// printed is a number as it was printed: what it stands for lies within half a
// unit of its last digit.
type printed struct{ v, half float64 }

// parse reads a number in decimal; false where it is none that is finite.
func parse(text string) (printed, bool) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return printed{}, false
	}
	digits, power, _ := strings.Cut(strings.ToLower(text), "e")
	exp, _ := strconv.Atoi(power)
	decimals := 0
	if _, after, ok := strings.Cut(digits, "."); ok {
		decimals = len(after)
	}
	return printed{v, 0.5 * math.Pow10(exp-decimals)}, true
}

// times is the number in another unit.
func (p printed) times(f float64) printed { return printed{p.v * f, p.half * f} }

// equals says whether two numbers can stand for the same, as they were printed.
func (p printed) equals(q printed) bool { return near(p.v-q.v, p.half+q.half) }

// is says whether the number can stand for v, which is known to within off.
func (p printed) is(v, off float64) bool { return near(p.v-v, p.half+off) }

// near allows for what the arithmetic itself loses.
func near(d, within float64) bool { return math.Abs(d) <= within*(1+1e-9)+1e-9 }
