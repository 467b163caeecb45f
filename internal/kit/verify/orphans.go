package verify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/kit/evidence"
)

// orphans looks for evidence that no row names: what a row that was deleted
// leaves behind, and a crash just before its row was written.
func (c *check) orphans() error {
	root := filepath.Join(c.dir, evidence.Folder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == root:
			return fs.SkipAll
		case err != nil:
			return err
		case path == root:
			return nil
		}
		if _, ok := c.dirs[path]; ok {
			return fs.SkipDir // evidence.Check has looked at its files
		}
		if !d.IsDir() {
			c.add(Finding{Kind: File, File: path, Problem: "no row knows this file"})
			return nil
		}
		whole, err := holdsFiles(path)
		if err != nil || !whole {
			return err
		}
		c.add(Finding{Kind: File, File: path, Problem: orphan(d.Name())})
		return fs.SkipDir
	})
	return err
}

func orphan(name string) string {
	if strings.HasPrefix(name, ".") {
		return "left behind by a crash while evidence was written; it may be deleted"
	}
	return "evidence that no row names: its row was deleted, or a crash kept it from being written"
}

// holdsFiles says whether a folder is one of evidence rather than of folders.
func holdsFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			return true, nil
		}
	}
	return false, err
}
