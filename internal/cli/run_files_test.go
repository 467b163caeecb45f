package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/kit/plan"
	"assay/internal/kit/runner"
)

// What is hashed is what the engine loads: of one that is started with a
// configuration the files that it names, and never the configuration.
func TestFilesThatAConfigurationNames(t *testing.T) {
	dir := t.TempDir()
	sums := map[string]string{}
	for i, name := range []string{"main.bin", "second.bin"} {
		text := []byte(strings.Repeat(name, 100))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		sums[fmt.Sprint(i+1)] = hex.EncodeToString(sum[:])
	}
	for name, c := range map[string]struct {
		config string
		files  int
		why    string // no hash, or
		err    string // nothing is started at all
	}{
		"two files":   {`{"args":["--native","main.bin","--ple-gguf","second.bin"],"cwd":%q}`, 2, "", ""},
		"one":         {`{"args":["--native","main.bin"],"cwd":%q}`, 1, "", ""},
		"not here":    {`{"args":["--native","away.bin"],"cwd":%q}`, 0, "the files that strata.json names can't be read here: no such file or directory", ""},
		"broken":      {`{"args":%q`, 0, "", "strata: the configuration"},
		"too little":  {`{"args":["--native","main.bin","--max-context","many"],"cwd":%q}`, 1, "", ""}, // the launch knows what is needed
		"no settings": {"", 0, "", "strata: the configuration: stat "},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "strata.json")
			if c.config != "" {
				if err := os.WriteFile(file, fmt.Appendf(nil, c.config, dir), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cfg := runner.Config{Plan: plan.Plan{Arms: []plan.Arm{{Name: "a", Target: "strata", Model: file}}}}
			err := openFiles(t.Context(), &Env{Getenv: func(string) string { return "" }}, &cfg)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), "arm a: "+c.err) || exitCode(err) != ExitUsage {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m := cfg.Arms["a"].Model
			if m.Why != c.why || len(m.FileSHA256) != c.files {
				t.Fatalf("%v, %q; want %d files, %q", m.FileSHA256, m.Why, c.files, c.why)
			}
			for n, sum := range m.FileSHA256 {
				if sums[n] != sum {
					t.Errorf("file %s: %s, want %s", n, sum, sums[n])
				}
			}
			if c.files > 0 && (m.Path != filepath.Join(dir, "main.bin") || len(m.More) != c.files-1) {
				t.Errorf("path %s, more %v", m.Path, m.More)
			}
		})
	}
}
