package plan

import (
	"fmt"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	const bad = -1
	size := func(s string) (float64, error) { return parseBytes(s) }
	seconds := func(s string) (float64, error) {
		d, err := parseDuration(s)
		return d.Seconds(), err
	}
	for _, c := range []struct {
		what  string
		parse func(string) (float64, error)
		cases map[string]float64
	}{
		{"size", size, map[string]float64{
			"0": 0, "0B": 0, "1B": 1, "512MiB": 512 << 20, "2 GiB": 2 << 30, "1.5GB": 1.5e9, "10kB": 10e3, "1TiB": 1 << 40,
			"10": bad, "-1MiB": bad, "MiB": bad, "1e30TiB": bad, "1 XiB": bad, "0x10MiB": bad, "infMiB": bad, "": bad, "1MiBMiB": bad,
		}},
		{"time", seconds, map[string]float64{
			"30s": 30, "1m30s": 90, "250ms": 0.25, "12.5": 12.5, "0": 0, "1 h": 3600, "744h": 744 * 3600,
			"-1s": bad, "745h": bad, "1e300": bad, "NaN": bad, "inf": bad, "soon": bad, "": bad, "5 minutes": bad,
		}},
		{"percentage", parsePercent, map[string]float64{"20": 20, "20%": 20, "20 %": 20, "0.5%": 0.5, "0": 0, "-1%": bad, "%": bad, "": bad, "2%%": bad}},
		{"temperature", parseCelsius, map[string]float64{"85": 85, "85C": 85, "85 °C": 85, "61.5°C": 61.5, "0": bad, "500": bad, "hot": bad, "85F": bad}},
	} {
		for in, want := range c.cases {
			got, err := c.parse(in)
			if err != nil {
				got = bad
			}
			if got != want {
				t.Errorf("%s %q: %v, want %v (%v)", c.what, in, got, want, err)
			}
		}
	}
}

func TestFormats(t *testing.T) {
	for v, want := range map[float64]string{0: "0B", 1023: "1023B", 1024: "1KiB", 512 << 20: "512MiB", 1.5 * (1 << 30): "1.5GiB", 10e9: "9.3GiB"} {
		if got := FormatBytes(v); got != want {
			t.Errorf("FormatBytes(%v) = %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{30 * time.Minute: "30m", 2 * time.Hour: "2h", 90 * time.Second: "1m30s", 0: "0s", 10*time.Hour + 10*time.Minute: "10h10m"} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%v) = %s, want %s", d, got, want)
		}
	}
	for q, want := range map[Quantity]string{MemoryAvailable: "2KiB", IOPressure: "2048 %", SSDTemperature: "2048 °C", RunTime: "34m8s"} {
		if got := q.Format(2048); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"warmups": "warm_ups", "warm-up": "warm_ups", "context": "contexts", "max-token": "max_tokens", "cooldown": "cool_down",
		"temperature": "", "arm": "arms", "guards": "guard", "x": "", "minimum_seconds": "min_seconds", "requires": "require",
	} {
		if got := nearest(word, keys); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"a", ""}: 1, {"ab", "ba"}: 1, {"abc", "adc"}: 1, {"kitten", "sitting"}: 3} {
		if got := distance(pair[0], pair[1]); got != want {
			t.Errorf("distance%v = %d, want %d", pair, got, want)
		}
	}
}

// The estimate counts what the plan itself sets, and is silent about the rest.
func TestEstimate(t *testing.T) {
	for plan, want := range map[string]string{
		// 2 runs of 12 s and 2 waits of 5 s; a start, three runs of 11 minutes, two waits
		"arms: [{name: a}]\ncontexts: [512]\nrepeats: 2\nmin_seconds: 12\ncool_down: 5\nguard: {run_time: 10m}": "at least 34s, not counting loading and reading prompts; the limits end everything after 43m10s",
		"arms: [{name: a, url: \"http://x\"}]\ncontexts: [512]\nrepeats: 1\nwarm_ups: 0\nguard: {run_time: 1m}": "not known: loading, reading prompts and generating, whose rate is not known (min_seconds would set it); the limits end everything after 2m",
	} {
		p := mustParse(t, plan)
		if got := fmt.Sprint(p.Estimate(p.Schedule())); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", plan, got, want)
		}
	}
}
