//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"assay/internal/kit/stats"
)

// check is what llama-bench itself says beside our driver of it.
type check struct {
	File       string    `json:"file"`
	Threads    int       `json:"threads"`
	Test       test      `json:"test"`
	Driver     []float64 `json:"driver_tok_s"`
	LlamaBench []float64 `json:"llama_bench_tok_s"`
}

// checkRuns is how often each is run.
const checkRuns = 3

// checkDriver runs the driver, llama-bench, and the driver again on a group's
// file and threads, on huge pages: a driver slower than llama-bench would
// flatter us.
func checkDriver(ctx context.Context, p *peer, g group) ([]check, error) {
	n := g.threads[len(g.threads)-1]
	g.column = "huge"
	checks := []check{
		{File: g.name, Threads: n, Test: test{"tg", 64, 0}},
		{File: g.name, Threads: n, Test: test{"pp", 512, 0}},
	}
	drive := func() (err error) {
		c, err := g.startPeer(ctx, p, n, 512)
		if err != nil {
			return err
		}
		defer func() {
			if e := c.close(); err == nil {
				err = e
			}
		}()
		for i := range checks {
			for j := range checkRuns {
				ns, err := c.time(checks[i].Test)
				if err != nil {
					return err
				}
				if j > 0 { // the first is a warm-up
					checks[i].Driver = append(checks[i].Driver, float64(checks[i].Test.N)/float64(ns)*1e9)
				}
			}
		}
		return nil
	}
	if err := drive(); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, filepath.Join(filepath.Dir(p.driver), "out/bin/llama-bench"),
		"-m", g.file, "-p", "512", "-n", "64", "-t", strconv.Itoa(n), "-r", strconv.Itoa(checkRuns), "-lm", "none", "-o", "jsonl")
	c.Env = append(os.Environ(), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1")
	c.SysProcAttr = dieWithParent()
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("llama-bench: %w", err)
	}
	for line := range bytes.Lines(out) {
		var r struct {
			Prompt int       `json:"n_prompt"`
			Gen    int       `json:"n_gen"`
			TokS   []float64 `json:"samples_ts"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("llama-bench's output: %w", err)
		}
		for i, t := range checks {
			if t.Test.Kind == "pp" && r.Prompt == t.Test.N || t.Test.Kind == "tg" && r.Gen == t.Test.N {
				checks[i].LlamaBench = r.TokS
			}
		}
	}
	return checks, drive()
}

// checkTable shows the newest check.
func checkTable(w *bytes.Buffer, all []*results) {
	var newest []check
	for _, r := range all {
		if len(r.Check) > 0 {
			newest = r.Check
		}
	}
	if len(newest) == 0 {
		return
	}
	fmt.Fprint(w, "### Our driver of llama.cpp against llama-bench\n\nRuns alternate through `benchmarks/peer/driver.cpp`, which keeps the model loaded; llama-bench of the same build must not be faster. In turn, on 2 MiB pages:\n\n| file | test | -t | driver, tok/s | llama-bench, tok/s |\n|---|---|---|---|---|\n")
	for _, c := range newest {
		fmt.Fprintf(w, "| %s | %s | %d | %s | %s |\n", c.File, c.Test, c.Threads, spread(c.Driver), spread(c.LlamaBench))
	}
	fmt.Fprintln(w)
}

// spread writes the median of rates with the smallest and the largest.
func spread(tokS []float64) string {
	s, ok := stats.Summarize(tokS)
	if !ok {
		return "none"
	}
	return fmt.Sprintf("**%s** (%s-%s)", three(s.Median), three(s.Min), three(s.Max))
}
