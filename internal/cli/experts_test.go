package cli

import "testing"

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"8GiB": 8 << 30, "900MB": 900e6, "1.5 GiB": 3 << 29, "512KiB": 512 << 10, "7B": 7, "0B": 0,
		"": -1, "8": -1, "GiB": -1, "-1GiB": -1, "8Gib": -1, "1e3MB": 1e9, "auto": -1, "9999999999TiB": -1, "NaNGB": -1, "1.2.3MB": -1,
	} {
		got, ok := parseSize(s)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v, want %d", s, got, ok, want)
		}
	}
}
