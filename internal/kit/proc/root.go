// Package proc reads what the kernel tells of a machine in files: /proc, /sys and
// control groups, below a root that is "/" but in tests. It is where these formats
// are known; what their numbers mean for a run is known elsewhere.
package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Root is the folder below which /proc and /sys are: "/" but in tests.
type Root string

// Read returns a whole file. The error names the path as it is on the machine.
func (r Root) Read(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(string(r), path))
	if err != nil {
		return "", named(path, err)
	}
	return string(data), nil
}

// named puts the machine's path into an error in place of the test's.
func named(path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("/%s: %w", strings.TrimPrefix(path, "/"), err)
}

// Line returns a file of one line, without its end.
func (r Root) Line(path string) (string, error) {
	s, err := r.Read(path)
	return strings.TrimSpace(s), err
}

// Number reads a file that holds one number.
func (r Root) Number(path string) (float64, error) {
	s, err := r.Line(path)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v != v {
		return 0, fmt.Errorf("/%s: %q is not a number", path, Clip(s))
	}
	return v, nil
}

// Glob lists what matches below the root, without the root, in the order of the
// numbers in the names.
func (r Root) Glob(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(string(r), pattern)) // the only error is a bad pattern
	for i, f := range found {
		if rel, err := filepath.Rel(string(r), f); err == nil {
			found[i] = rel
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return found
}

// Exists says whether a path is there.
func (r Root) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(r), path))
	return err == nil
}

// Trimmed is a short file's text without the space around it; empty when it can't
// be read.
func (r Root) Trimmed(path string) string {
	s, _ := r.Line(path)
	return s
}

// Resolve follows the links of a path below the root; "" when it leads nowhere.
func (r Root) Resolve(path string) string {
	base, err := filepath.EvalSymlinks(string(r))
	if err != nil {
		return ""
	}
	p, err := filepath.EvalSymlinks(filepath.Join(base, path))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(base, p)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	return rel
}

// Clip shortens what is quoted in a reason.
func Clip(s string) string {
	const most = 120
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
