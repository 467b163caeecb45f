// Command packages draws the packages of the module: for each part of it a diagram
// of who imports whom, in Mermaid, without what follows from the rest, and a table
// with the first sentence of each package's comment. It is the part of
// docs/architecture.md below its mark.
//
// Usage: packages [-w] DIR, the root of the module; -w writes it into the page.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	page = "docs/architecture.md"
	mark = "<!-- packages: made by go -C tools run ./packages -w .. -->\n"
)

func main() {
	write := flag.Bool("w", false, "write it into "+page)
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(root, *write); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func run(root string, write bool) error {
	all, err := read(root)
	if err != nil {
		return err
	}
	text := draw(all)
	if !write {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	path := filepath.Join(root, page)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, ok := strings.Cut(string(old), mark)
	if !ok {
		return fmt.Errorf("%s: the mark is missing: %s", path, mark)
	}
	return os.WriteFile(path, []byte(before+mark+text), 0o644)
}

// pkg is one package by its path below internal.
type pkg struct {
	path, says string
	imports    []string // below internal as well
}

// read finds the packages below internal, in order.
func read(root string) ([]pkg, error) {
	found := map[string]*pkg{}
	base := filepath.Join(root, "internal")
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(base, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		p := found[dir]
		if p == nil {
			p = &pkg{path: dir}
			found[dir] = p
		}
		if f.Doc != nil {
			p.says = new(doc.Package).Synopsis(f.Doc.Text())
		}
		for _, i := range f.Imports {
			to, _ := strconv.Unquote(i.Path.Value)
			if to, ok := strings.CutPrefix(to, "assay/internal/"); ok && !slices.Contains(p.imports, to) {
				p.imports = append(p.imports, to)
			}
		}
		return nil
	})
	var out []pkg
	for _, p := range found {
		slices.Sort(p.imports)
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b pkg) int { return strings.Compare(a.path, b.path) })
	return out, err
}

// parts of the page, by what their packages' paths begin with.
var parts = []struct{ title, prefix string }{
	{"The kit", "kit"}, {"The engine", "engine"}, {"Read by both, and the command line", ""},
}

func partOf(path string) int {
	first, _, _ := strings.Cut(path, "/")
	i := slices.IndexFunc(parts, func(p struct{ title, prefix string }) bool { return p.prefix == first })
	if i < 0 {
		i = len(parts) - 1
	}
	return i
}

// box is what a package is in a diagram: adapters of engines are one.
func box(path string) string {
	if rest, ok := strings.CutPrefix(path, "kit/target/"); ok && rest != "replay" {
		return "kit/target/adapters"
	}
	return path
}

func draw(all []pkg) string {
	to := map[string][]string{}
	for _, p := range all {
		from := box(p.path)
		for _, i := range p.imports {
			if i = box(i); i != from && !slices.Contains(to[from], i) {
				to[from] = append(to[from], i)
			}
		}
	}
	var b bytes.Buffer
	for n, part := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n```mermaid\nflowchart TD\n", part.title)
		drawn := map[string]bool{}
		for _, p := range all {
			from := box(p.path)
			if partOf(from) != n || drawn[from] {
				continue
			}
			drawn[from] = true
			fmt.Fprintf(&b, "    %s[%s]\n", id(from), label(from, part.prefix))
			for _, t := range to[from] {
				if partOf(t) == n && !reaches(to, to[from], t) {
					fmt.Fprintf(&b, "    %s --> %s\n", id(from), id(t))
				}
			}
		}
		b.WriteString("```\n\n| package | what it is |\n| --- | --- |\n")
		for _, p := range all {
			if partOf(p.path) == n {
				fmt.Fprintf(&b, "| `internal/%s` | %s |\n", p.path, strings.ReplaceAll(p.says, "|", `\|`))
			}
		}
	}
	return b.String()
}

func id(path string) string { return strings.NewReplacer("/", "_", "-", "_").Replace(path) }

func label(path, prefix string) string {
	if path == "kit/target/adapters" {
		return "adapters, one an engine"
	}
	return strings.TrimPrefix(path, prefix+"/")
}

// reaches says whether one of several boxes leads to another by way of a third.
func reaches(to map[string][]string, from []string, there string) bool {
	seen := map[string]bool{there: true}
	var walk func(at string) bool
	walk = func(at string) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		return slices.ContainsFunc(to[at], func(next string) bool { return next == there || walk(next) })
	}
	return slices.ContainsFunc(from, walk)
}
