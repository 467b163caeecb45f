package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func trimFloat(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// maxDuration bounds every time in a plan: a month is longer than anyone waits.
const maxDuration = 31 * 24 * time.Hour

// parseDuration reads "30s", "1m30s", "250ms", or a bare number of seconds.
func parseDuration(s string) (time.Duration, error) {
	const want = "(want 30s, 5m, 1h30m, or a number of seconds)"
	d, err := time.ParseDuration(strings.ReplaceAll(s, " ", ""))
	if v, e := strconv.ParseFloat(s, 64); e == nil {
		if !(math.Abs(v) <= maxDuration.Seconds()) {
			return 0, fmt.Errorf("%q is longer than %v %s", s, maxDuration, want)
		}
		d, err = time.Duration(v*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time %s", s, want)
	case d < 0:
		return 0, fmt.Errorf("%q is negative %s", s, want)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than %v %s", s, maxDuration, want)
	}
	return d, nil
}

// byteUnits are the units of a size, the longer ones first.
var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// parseBytes reads "512MiB", "2 GiB", "1.5GB", or 0.
func parseBytes(s string) (float64, error) {
	const want = "(want 512MiB, 2GiB or 10GB)"
	number, factor := strings.TrimSpace(s), 0.0
	for _, u := range byteUnits {
		if cut, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(cut), u.factor
			break
		}
	}
	v, err := parseNumber(number)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a size %s", s, want)
	case v < 0:
		return 0, fmt.Errorf("%q is negative %s", s, want)
	case v > 0 && factor == 0:
		return 0, fmt.Errorf("%q has no unit %s", s, want)
	case v*factor > 1<<60:
		return 0, fmt.Errorf("%q is more than any machine has %s", s, want)
	}
	return math.Round(v * factor), nil
}

// FormatBytes writes a number of bytes in the largest binary unit that leaves a
// number of 1 or more: "512MiB", "1.5GiB".
func FormatBytes(v float64) string {
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if math.Abs(v) >= u.factor {
			return trimFloat(math.Round(v/u.factor*10)/10) + u.suffix
		}
	}
	return trimFloat(math.Round(v)) + "B"
}

// parsePercent reads "20", "20%" or "20 %".
func parsePercent(s string) (float64, error) {
	v, err := parseNumber(strings.TrimSpace(strings.TrimSuffix(s, "%")))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a percentage (want 20 %%)", s)
	case v < 0:
		return 0, fmt.Errorf("%q is negative (want 20 %%)", s)
	}
	return v, nil
}

// parseCelsius reads "85", "85C" or "85 °C".
func parseCelsius(s string) (float64, error) {
	number := strings.TrimSpace(s)
	for _, unit := range []string{"°C", "C"} {
		number = strings.TrimSuffix(number, unit)
	}
	v, err := parseNumber(strings.TrimSpace(number))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a temperature in °C (want 85)", s)
	case v < 1 || v > 200:
		return 0, fmt.Errorf("%q is no temperature of a machine (want 1 to 200 °C)", s)
	}
	return v, nil
}

var errNotANumber = errors.New("not a number")

// parseNumber reads a decimal number. Infinities, NaN, hexadecimal forms and
// underscores are none.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.+-eE") != "" {
		return 0, errNotANumber
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, errNotANumber
	}
	return v, nil
}

// shortDuration drops the zero parts that time.Duration writes: "30m0s" is "30m".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
