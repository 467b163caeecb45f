package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// PageCache is how much of some files the kernel holds in memory, in percent of
// their bytes, without reading any of them. Of a folder it is the files that lie
// in it.
func PageCache(paths ...string) (percent float64, err error) {
	var cached, all int64
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return 0, err
		}
		for _, file := range files {
			c, n, err := cachedPages(file)
			if err != nil {
				return 0, err
			}
			cached, all = cached+c, all+n
		}
	}
	if all == 0 {
		return 0, errors.New("the model's files are empty")
	}
	return 100 * float64(cached) / float64(all), nil
}

// filesOf is a file itself, or the files in a folder.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if info.Mode().IsRegular() {
		return []string{path}, nil
	}
	if !info.IsDir() {
		return nil, errors.New("the model is neither a file nor a folder")
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	var out []string
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // behind a link as well
			out = append(out, file)
		}
	}
	return out, nil
}

// withoutPath leaves a path out of an error: rows are published.
func withoutPath(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("the model's file: %s: %w", pe.Op, pe.Err)
	}
	return err
}
