//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peer is llama.cpp as it was built here.
type peer struct {
	Package  string `json:"package"` // where its source came from
	SHA256   string `json:"sha256"`  // of that
	Flags    string `json:"flags"`   // of the compiler
	Settings string `json:"settings"`
	driver   string
}

// buildPeer builds llama.cpp if it is not there.
func buildPeer(ctx context.Context) (*peer, error) {
	c := exec.CommandContext(ctx, "benchmarks/peer/build.sh")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("benchmarks/peer/build.sh (run this from the repository's root): %w", err)
	}
	dir := strings.TrimSpace(string(out))
	p := &peer{driver: filepath.Join(dir, "driver"), Settings: "flash attention auto, keys and values f16, repacking on (llama.cpp's default)"}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		return nil, fmt.Errorf("%s: want one archive of the source, found %v", dir, archives)
	}
	p.Package = strings.TrimSuffix(filepath.Base(archives[0]), ".tar.gz")
	f, err := os.Open(archives[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	flags, err := os.ReadFile(filepath.Join(dir, "out/ggml/src/CMakeFiles/ggml-cpu.dir/flags.make"))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(flags))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "CXX_FLAGS = "); ok {
			var keep []string
			for _, s := range strings.Fields(v) {
				if !strings.HasPrefix(s, "-W") {
					keep = append(keep, s)
				}
			}
			p.Flags = strings.Join(keep, " ")
		}
	}
	return p, lines.Err()
}

// makeModels makes the files that are missing.
func makeModels(ctx context.Context, o options, groups []group) error {
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return err
	}
	for _, g := range groups {
		if _, err := os.Stat(g.file); err == nil {
			continue
		}
		path, err := filepath.Abs(g.file)
		if err != nil {
			return err
		}
		c := exec.CommandContext(ctx, "go", "-C", "tools", "run", "./synth", "-preset", "2.5b", "-quant", g.name, "-o", path)
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
		}
	}
	return nil
}
