//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/host"
)

// results is one call: a file in benchmarks/results.
type results struct {
	Time    time.Time `json:"time"`
	Command []string  `json:"command"`
	Commit  string    `json:"commit"` // of this repository
	Go      string    `json:"go"`
	Host    host.Host `json:"host"`
	Huge    string    `json:"transparent_hugepage"` // the kernel's setting
	Peer    *peer     `json:"peer"`
	Cells   []*cell   `json:"cells"`
	Check   []check   `json:"check,omitempty"`
}

// cell is one test of one file in one column on one number of threads.
type cell struct {
	File       string      `json:"file"`
	Column     string      `json:"column"`
	Threads    int         `json:"threads"`
	Test       test        `json:"test"`
	Ours       []int64     `json:"ours_ns"`   // pair by pair
	Theirs     []int64     `json:"theirs_ns"` // pair by pair
	Read       []float64   `json:"read"`      // bytes a second that memory gave, after each pair
	Peak       []float64   `json:"peak"`      // int8 operations a second, after each pair
	Foreign    *float64    `json:"foreign"`   // processors that other programs used meanwhile; null: not read
	Steal      *float64    `json:"steal"`     // processors' time that the host gave to other guests
	OursHuge   *int64      `json:"ours_huge"` // bytes in huge pages
	OursRSS    *int64      `json:"ours_rss"`
	TheirsHuge *int64      `json:"theirs_huge"`
	TheirsRSS  *int64      `json:"theirs_rss"`
	OursInfo   string      `json:"ours_settings"`
	TheirsInfo string      `json:"theirs_settings"`
	Model      *modelFacts `json:"model"`
}

func newResults(command []string, p *peer) *results {
	r := &results{Time: time.Now().UTC(), Command: command, Commit: "unknown", Go: runtime.Version(), Host: host.Read("/"), Peer: p}
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		r.Commit = strings.TrimSpace(string(out))
	}
	if raw, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err == nil {
		r.Huge = strings.TrimSpace(string(raw))
	}
	return r
}

func (r *results) write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o666)
}

// readResults reads all files of a folder, the oldest first.
func readResults(dir string) ([]*results, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*results
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := &results{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no results", dir)
	}
	slices.SortFunc(all, func(a, b *results) int { return a.Time.Compare(b.Time) })
	return all, nil
}
