// Command lint checks what the design asks of the source tree and no common
// linter knows:
//
//   - internal/kit and internal/engine do not import each other, and the
//     packages that both may read import neither;
//   - only internal/cli imports from both halves;
//   - no Go file has more than 600 lines, tables of numbers aside;
//   - no package is called util, common or types.
//
// Usage: lint DIR, the root of the module. It prints what it finds as
// file:line: message and exits with 1.
package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const maxLines = 600

// longTables are files that hold nothing but a table.
var longTables = []string{"internal/engine/quant/grid.go"}

// forbidden says which imports a folder may not have.
var forbidden = []struct{ from, to, why string }{
	{"internal/kit/", "assay/internal/engine", "the kit meets an engine at HTTP and nowhere else"},
	{"internal/engine/", "assay/internal/kit", "the engine does not know who measures it"},
	{"internal/gguf/", "assay/internal/kit", "gguf is read by both halves and knows neither"},
	{"internal/gguf/", "assay/internal/engine", "gguf is read by both halves and knows neither"},
	{"internal/gguf/", "assay/internal/tokenizer", "gguf lies below the tokenizer"},
	{"internal/tokenizer/", "assay/internal/kit", "tokenizer is read by both halves and knows neither"},
	{"internal/tokenizer/", "assay/internal/engine", "tokenizer is read by both halves and knows neither"},
	{"internal/chat/", "assay/internal/kit", "chat is read by both halves and knows neither"},
	{"internal/chat/", "assay/internal/engine", "chat is read by both halves and knows neither"},
	{"internal/catalog/", "assay/internal/kit", "catalog is read by both halves and knows neither"},
	{"internal/catalog/", "assay/internal/engine", "catalog is read by both halves and knows neither"},
	{"internal/", "assay/internal/cli", "a package never calls back up to the command line"},
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := lint(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// lint returns a line for everything that is wrong below root.
func lint(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		more, err := check(rel, source)
		found = append(found, more...)
		return err
	})
	return found, err
}

// check looks at one file.
func check(rel string, source []byte) ([]string, error) {
	var found []string
	if n := bytes.Count(source, []byte("\n")); n > maxLines && !slices.Contains(longTables, rel) {
		found = append(found, fmt.Sprintf("%s:%d: %d lines, more than %d; a file is one idea", rel, maxLines, n, maxLines))
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, rel, source, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	if name := f.Name.Name; slices.Contains([]string{"util", "utils", "common", "types", "helpers"}, name) {
		found = append(found, fmt.Sprintf("%s:1: package %s says nothing; a package is one noun", rel, name))
	}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		for _, rule := range forbidden {
			if strings.HasPrefix(rel, rule.from) && !strings.HasPrefix(rel, "internal/cli/") && strings.HasPrefix(path, rule.to) {
				found = append(found, fmt.Sprintf("%s:%d: imports %s, but %s", rel, files.Position(spec.Pos()).Line, path, rule.why))
			}
		}
	}
	return found, nil
}
