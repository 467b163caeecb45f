package adapters

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/target"
)

// What a plan asks for reaches every engine: under one name or another each value
// stands in the request. One that an adapter leaves out would silently be the
// server's own.
func TestSamplingReachesEveryEngine(t *testing.T) {
	a := target.Ask{
		Prompt: "Hi", MaxTokens: 17, Temperature: new(0.25), Seed: new(int64(1234)), TopP: new(0.75),
		PresencePenalty: new(0.375), FrequencyPenalty: new(0.625), TopK: new(29), MinP: new(0.0625), RepeatPenalty: new(1.125),
	}
	for _, ad := range All {
		data, err := json.Marshal(ad.Body(a, "m"))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"17", "0.25", "1234", "0.75", "0.375", "0.625", "29", "0.0625", "1.125"} {
			if !strings.Contains(string(data), ":"+value) {
				t.Errorf("%s: no %s in %s", ad.Name(), value, data)
			}
		}
	}
}

// Every engine says what users ask first, and the one that takes any server for
// its own comes last.
func TestFactsAreStated(t *testing.T) {
	names := Names()
	for i, ad := range All {
		f := ad.Facts()
		if f.About == "" || f.Exactly == "" || f.CacheOff == "" || len(f.Counts) == 0 {
			t.Errorf("%s: %+v", ad.Name(), f)
		}
		if slices.Index(names, ad.Name()) != i {
			t.Errorf("two adapters are called %s", ad.Name())
		}
	}
	if names[len(names)-1] != "openai" {
		t.Errorf("%s comes last", names[len(names)-1])
	}
}
