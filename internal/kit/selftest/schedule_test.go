package selftest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseLevels(t *testing.T) {
	got, err := ParseLevels("1@50, 10@2000,3@0.5e2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Level{{1, 50}, {10, 2000}, {3, 50}}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "10", "10@", "@5", "0@5", "-1@5", "1@0", "1@NaN", "1@-5", "1@5x", "10001@5", "1@1e9", "1@5,,2@5"} {
		if l, err := ParseLevels(bad); err == nil {
			t.Errorf("%q: %v", bad, l)
		}
	}
}

func TestCheckRefusesWhatCannotBePlayed(t *testing.T) {
	for _, c := range []struct {
		level  Level
		window time.Duration
		want   string
	}{
		{Level{1, 50}, time.Second, ""},
		{Level{1, 50}, 100 * time.Millisecond, "6 tokens"},
		{Level{1, 20_000}, time.Hour, "72000001 tokens"},
	} {
		err := (&Options{Levels: []Level{c.level}, Window: c.window}).Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v for %v: %v, want %q", c.level, c.window, err, c.want)
		}
	}
	if (&Options{}).Check() == nil {
		t.Error("no level, no error")
	}
}

func TestScheduleIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{
			ttft:     time.Duration(rapid.Int64Range(0, int64(maxTTFT)).Draw(t, "ttft")),
			gap:      time.Duration(rapid.Int64Range(int64(minGap), int64(maxGap)).Draw(t, "gap")),
			tokens:   rapid.IntRange(1, maxTokens).Draw(t, "tokens"),
			perFrame: rapid.IntRange(1, maxTokens).Draw(t, "perFrame"),
			play:     rapid.SampledFrom(playNames()).Draw(t, "play"),
		}
		got, err := parseSchedule(s.model(), s.tokens)
		if err != nil || got != s {
			t.Fatalf("%+v, %v, want %+v", got, err, s)
		}
	})
}

func TestParseScheduleRefuses(t *testing.T) {
	for model, want := range map[string]string{
		"gpt":                    `"gpt" is not here`,
		"selftest?ttft=soon":     "ttft: ",
		"selftest?ttft=-1s":      "ttft: -1s",
		"selftest?gap=1ns":       "gap: 1ns",
		"selftest?per_frame=0":   "per_frame: 0",
		"selftest?per_frame=one": "per_frame: ",
		"selftest?play=dead":     `play: "dead" is not known (want broken, `,
		"selftest?speed=1":       "speed: not known",
		"selftest?%zz":           "invalid URL escape",
	} {
		if s, err := parseSchedule(model, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", model, s, err, want)
		}
	}
	if _, err := parseSchedule("selftest", maxTokens+1); err == nil {
		t.Error("too many tokens are taken")
	}
}

// The text of a stream can be cut into the tokens that it was made of.
func TestTokenEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, 100).Draw(t, "from")
		n := rapid.IntRange(0, 100).Draw(t, "n")
		var want []int
		for k := from; k < from+n; k++ {
			want = append(want, len(text(from, k+1)))
		}
		if diff := cmp.Diff(want, tokenEnds(text(from, from+n))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEveryPlayHasAnExpectation(t *testing.T) {
	if diff := cmp.Diff(playNames(), slices.Sorted(maps.Keys(expectations))); diff != "" {
		t.Error(diff)
	}
}

// Every script has the tokens that it should, and in time's order.
func TestScripts(t *testing.T) {
	half := map[string]bool{"error": true, "truncated": true, "broken": true}
	for _, name := range playNames() {
		s := hostileSchedule
		s.play = name
		sc := s.write()
		tokens := 0
		for i, st := range sc.steps {
			tokens += st.tokens
			if i > 0 && st.due < sc.steps[i-1].due {
				t.Errorf("%s: step %d is due before the one before it", name, i)
			}
		}
		want := s.tokens
		switch {
		case half[name]:
			want /= 2
		case name == "no-token":
			want = 0
		}
		if tokens != want {
			t.Errorf("%s: %d tokens, want %d", name, tokens, want)
		}
	}
}
