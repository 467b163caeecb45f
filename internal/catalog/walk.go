package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What is looked at, at most: more than any user has, and little enough that a
// folder made to be endless ends soon.
const (
	maxNodes  = 200_000 // names in folders, a place
	maxDepth  = 8       // folders below a place's own
	maxModels = 10_000  // a place
	maxSmall  = 1 << 20 // bytes of a manifest or a reference
)

// reader looks through one place.
type reader struct {
	catalog *Catalog
	place   Place
	left    int             // names that may still be looked at
	models  int             // that were found
	seen    map[string]bool // folders that were entered, without links
	full    bool            // and that was said
}

func (r *reader) problem(format string, args ...any) {
	if n := len(r.catalog.Problems); n < maxProblems {
		r.catalog.Problems = append(r.catalog.Problems, Problem{r.place.Store, clean(fmt.Sprintf(format, args...))})
	}
}

// folder lists a folder in order; nothing where there is none. A folder that was listed
// before, by way of a link, is not listed again.
func (r *reader) folder(dir string) []string {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		r.problem("%v", err)
		return nil
	}
	if r.seen[real] {
		return nil
	}
	r.seen[real] = true
	f, err := os.Open(real)
	if err != nil {
		r.problem("%v", err)
		return nil
	}
	defer f.Close()
	var out []string
	for r.left > 0 {
		names, err := f.Readdirnames(min(1024, r.left))
		r.left -= len(names)
		for _, n := range names {
			if printable(n) {
				out = append(out, n)
			} else {
				r.problem("%q: the name is not printable UTF-8, so no model can be asked for by it: rename it, or give -m the path", filepath.Join(dir, n))
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.problem("%v", err)
			}
			slices.Sort(out)
			return out
		}
	}
	r.stop("more than %d files: the others are not looked at", maxNodes)
	slices.Sort(out)
	return out
}

func (r *reader) stop(format string, args ...any) {
	if !r.full {
		r.full = true
		r.problem("%s: %s", r.place.Dir, fmt.Sprintf(format, args...))
	}
}

// files walks a folder and calls found with every regular file's path below it,
// with / between its parts, and its size.
func (r *reader) files(root string, found func(rel string, size int64)) {
	r.walk(root, "", 0, found)
}

func (r *reader) walk(dir, rel string, depth int, found func(rel string, size int64)) {
	for _, n := range r.folder(dir) {
		path, name := filepath.Join(dir, n), n
		if rel != "" {
			name = rel + "/" + n
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isGGUF(n):
		case err != nil:
			r.problem("%v", err)
		case info.IsDir() && strings.HasPrefix(n, "."): // what a program hides is not for us
		case info.IsDir() && depth == maxDepth:
			r.problem("%s: folders within folders, more than %d deep: not looked at", path, maxDepth)
		case info.IsDir():
			r.walk(path, name, depth+1, found)
		case info.Mode().IsRegular():
			found(name, info.Size())
		case isGGUF(n):
			r.problem("%s: not a regular file", path)
		}
	}
}

// readSmall reads a small text file.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: a named pipe would block there
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > maxSmall:
		return nil, fmt.Errorf("%s: %d bytes (at most %d)", path, info.Size(), maxSmall)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("%s: more than %d bytes", path, maxSmall)
	}
	return data, err
}

// readPointer is the path that a file of one line holds; empty where it holds none.
func readPointer(path string) string {
	if path == "" {
		return ""
	}
	data, err := readSmall(path)
	line := strings.TrimSpace(string(data))
	if err != nil || !filepath.IsAbs(line) || !printable(line) {
		return ""
	}
	return line
}

func isGGUF(name string) bool { return strings.EqualFold(filepath.Ext(name), ".gguf") }

// printable says whether a name can be shown and typed.
func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return !strconv.IsPrint(c) }) < 0
}

// clean is a text, quoted where it would spoil a terminal.
func clean(s string) string {
	if printable(s) {
		return s
	}
	return strconv.Quote(s)
}

var (
	shardOf = regexp.MustCompile(`(?i)^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)
	// A label is what people call a quantisation by, as in NAME-UD-Q4_K_XL.gguf.
	label = regexp.MustCompile(`(?i)(?:^|[-._])((?:UD-)?(?:I?Q[1-8](?:_[0-9A-Z]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))$`)
)

// labelOf is the quantisation that a file's name ends with; empty: it names none.
func labelOf(rel string) string {
	base := filepath.Base(rel)
	if m := shardOf.FindStringSubmatch(base); m != nil {
		base = m[1]
	} else {
		base = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if m := label.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	return ""
}

// file is one that was found, by its path in a repository.
type file struct {
	path string
	size int64
}

// repository adds the models among the files of one repository, by their paths in it,
// shards joined.
func (r *reader) repository(repo string, files map[string]file) {
	headless := map[string]bool{} // split models without a first file
	for _, rel := range sortedKeys(files) {
		f := files[rel]
		m := Model{
			Name: repo + "/" + rel, Store: r.place.Store, Path: f.path, Files: []string{f.path}, Bytes: f.size,
			Projector: strings.Contains(strings.ToLower(filepath.Base(rel)), "mmproj"),
		}
		if s := shardOf.FindStringSubmatch(rel); s != nil {
			if s[2] != "00001" {
				first := shardName(s[1], 1, s[3], rel)
				if _, ok := files[first]; !ok && !headless[first] {
					headless[first] = true
					r.problem("%s: the first of its %s files is missing", f.path, s[3])
				}
				continue
			}
			if !r.join(&m, s, rel, files) {
				continue
			}
		}
		short := ""
		if l := labelOf(rel); l != "" {
			short = repo + ":" + l
		}
		m.others = []string{short, repo}
		r.add(m)
	}
}

// join adds the other shards to the first.
func (r *reader) join(m *Model, s []string, rel string, files map[string]file) bool {
	count, _ := strconv.Atoi(s[3])
	for i := 2; i <= count; i++ {
		f, ok := files[shardName(s[1], i, s[3], rel)]
		if !ok {
			r.problem("%s: file %d of its %d is missing", m.Path, i, count)
			return false
		}
		m.Files = append(m.Files, f.path)
		m.Bytes += f.size
	}
	return true
}

func shardName(stem string, i int, of, rel string) string {
	return fmt.Sprintf("%s-%05d-of-%s%s", stem, i, of, filepath.Ext(rel))
}

func (r *reader) add(m Model) {
	if r.models == maxModels {
		r.stop("more than %d models: the others are not listed", maxModels)
		return
	}
	r.models++
	r.catalog.Models = append(r.catalog.Models, m)
}
