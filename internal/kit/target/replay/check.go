package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"assay/internal/kit/target"
)

// Check sees to it that a block can be written: every null in it, and nothing else,
// has a reason, its own or that of an object above it.
func Check(t testing.TB, b *target.Block) {
	t.Helper()
	data, err := json.Marshal(b.Fields)
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, path := range nulls("", root) {
		found := false
		for reason, why := range b.Why {
			if why != "" && (reason == path || strings.HasPrefix(path, reason+".") || strings.HasPrefix(path, reason+"[")) {
				found, used[reason] = true, true
			}
		}
		if !found {
			t.Errorf("%s is null without a reason", path)
		}
	}
	for reason := range b.Why {
		if !used[reason] {
			t.Errorf("there is a reason for %s, but nothing there is null", reason)
		}
	}
}

func nulls(path string, v any) []string {
	var out []string
	switch v := v.(type) {
	case nil:
		return []string{path}
	case map[string]any:
		for name, e := range v {
			out = append(out, nulls(strings.TrimPrefix(path+"."+name, "."), e)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, nulls(fmt.Sprintf("%s[%d]", path, i), e)...)
		}
	}
	return out
}
