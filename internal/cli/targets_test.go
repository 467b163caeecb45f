package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/target/adapters"
)

var updateDocs = flag.Bool("update", false, "write the tables in docs/ anew")

const (
	tableBegin = "<!-- assay targets --md -->\n"
	tableEnd   = "<!-- end -->\n"
)

// The table of docs/engines.md is what the adapters say.
func TestEnginesPage(t *testing.T) {
	const page = "../../docs/engines.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table (%s ... %s)", page, tableBegin, tableEnd)
	}
	var out bytes.Buffer
	if err := runTargets(&Env{Stdout: &out}, targetsOptions{md: true}, ""); err != nil {
		t.Fatal(err)
	}
	if *updateDocs {
		if err := os.WriteFile(page, []byte(before+tableBegin+out.String()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, out.String()); diff != "" {
		t.Errorf("%s is behind the adapters (go test ./internal/cli -run EnginesPage -update writes it): page -, adapters +:\n%s", page, diff)
	}
}

// Every adapter says what it is and how it is to be measured.
func TestTargetsAreDocumented(t *testing.T) {
	for _, a := range adapters.All {
		f := a.Facts()
		for what, text := range map[string]string{"About": f.About, "Exactly": f.Exactly, "CacheOff": f.CacheOff, "Counts": strings.Join(f.Counts, "")} {
			if text == "" {
				t.Errorf("%s: Facts.%s is empty", a.Name(), what)
			}
		}
		if strings.ContainsAny(f.About+f.Exactly+f.CacheOff+strings.Join(f.Counts, ""), "\n|") {
			t.Errorf("%s: a text of its facts does not fit into a table", a.Name())
		}
		var out bytes.Buffer
		if err := runTargets(&Env{Stdout: &out}, targetsOptions{}, a.Name()); err != nil || !strings.HasPrefix(out.String(), "engine             "+a.Name()+": ") {
			t.Errorf("%s: %v, %s", a.Name(), err, out.String())
		}
	}
}
