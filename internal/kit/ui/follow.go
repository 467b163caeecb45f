package ui

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/kit/page"
	"assay/internal/kit/row"
)

// follower reads rows as they are appended.
type follower struct {
	dir     string
	builder *page.Builder
	files   []*followed
}

// followed is one file of rows, as far as it was read.
type followed struct {
	path   string
	folder *page.Folder
	info   os.FileInfo
	offset int64
	lines  int
}

func newFollower(dir string, b *page.Builder) *follower { return &follower{dir: dir, builder: b} }

// look reads what was added since the last look and says whether there was
// anything. A file that was replaced or cut makes it begin anew.
func (f *follower) look() bool {
	paths := f.paths()
	for _, old := range f.files {
		info, err := os.Stat(old.path)
		if err != nil || !os.SameFile(info, old.info) || info.Size() < old.offset || !slices.Contains(paths, old.path) {
			f.files = nil
			f.builder.Reset()
			f.read(paths)
			return true
		}
	}
	return f.read(paths)
}

// paths are the files of rows of the folder, or of those right below it.
func (f *follower) paths() []string {
	own := filepath.Join(f.dir, row.RowsFile)
	if _, err := os.Stat(own); err == nil {
		return []string{own}
	}
	below, err := filepath.Glob(filepath.Join(escapeGlob(f.dir), "*", row.RowsFile))
	if err != nil {
		return nil
	}
	return below
}

// escapeGlob keeps the folder's own name from being a pattern.
func escapeGlob(s string) string {
	var b bytes.Buffer
	for _, c := range s {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (f *follower) read(paths []string) bool {
	more := false
	for _, path := range paths {
		i := slices.IndexFunc(f.files, func(o *followed) bool { return o.path == path })
		if i < 0 {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			dir := filepath.Dir(path)
			f.files = append(f.files, &followed{path: path, info: info, folder: &page.Folder{Name: dir, Path: dir}})
			i = len(f.files) - 1
		}
		n, err := f.files[i].more(f.builder)
		if err != nil && !errors.Is(err, io.EOF) {
			f.builder.AddBroken(fmt.Errorf("%s: %w", path, err))
			n++
		}
		more = more || n > 0
	}
	return more
}

// more reads the whole lines that were added, and returns their number. A line
// without its line feed is being written: it is left for later.
func (f *followed) more(b *page.Builder) (int, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if _, err := in.Seek(f.offset, io.SeekStart); err != nil {
		return 0, err
	}
	n := 0
	for line := range row.Lines(bufio.NewReader(in)) {
		if line.Torn {
			break
		}
		f.offset += line.Size
		f.lines++
		n++
		r, err := line.Row()
		switch {
		case err != nil:
			b.AddBroken(fmt.Errorf("%s:%d: %w", f.path, f.lines, err))
		case r == nil:
		case r.Arm == "" || r.Status == "" || r.Schema != "" && r.Schema != row.Schema:
			b.AddBroken(fmt.Errorf("%s:%d: not a row that this version knows", f.path, f.lines))
		default:
			b.Add(r, f.folder)
		}
	}
	return n, nil
}
