package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryPackageIsNamed: the page on architecture has each package below internal
// in its tables, and no other.
func TestEveryPackageIsNamed(t *testing.T) {
	all, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `internal/([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	for _, p := range all {
		if !slices.Contains(named, p.path) {
			t.Errorf("%s does not name internal/%s: go -C tools run ./packages -w ..", page, p.path)
		}
		if p.says == "" {
			t.Errorf("internal/%s has no package comment", p.path)
		}
	}
	for _, n := range named {
		if !slices.ContainsFunc(all, func(p pkg) bool { return p.path == n }) {
			t.Errorf("%s names internal/%s, which is not there: go -C tools run ./packages -w ..", page, n)
		}
	}
}

// TestDraw: an import that follows from others is not drawn, and adapters are one box.
func TestDraw(t *testing.T) {
	got := draw([]pkg{
		{path: "gguf", says: "Package gguf reads."},
		{path: "kit/a", imports: []string{"kit/b", "kit/c", "gguf"}},
		{path: "kit/b", imports: []string{"kit/c"}},
		{path: "kit/c"},
		{path: "kit/target"},
		{path: "kit/target/vllm", imports: []string{"kit/target"}},
	})
	for _, want := range []string{"kit_a --> kit_b", "kit_b --> kit_c", "kit_target_adapters --> kit_target", "| `internal/gguf` | Package gguf reads. |", "| `internal/kit/target/vllm` |"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "kit_a --> kit_c") {
		t.Errorf("an import that follows is drawn:\n%s", got)
	}
}
