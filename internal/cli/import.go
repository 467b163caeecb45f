package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/kit/imported"
	"assay/internal/kit/row"
)

const importLong = `Take over what other tools measured, as rows.

  assay import llama-bench.jsonl --out theirs
  assay import benchmarks.json --out theirs --engine vllm --arm vllm-fp8
  assay import results/2026-10-01-community/ --out theirs
  assay summary theirs

FILE is a result of llama-bench (-o json or jsonl), guidellm (json), AIPerf
(profile_export.jsonl or profile_export_aiperf.json), vllm bench serve (json; with
--save-detailed every request is a row), Ollama's bench (csv, benchstat or markdown)
or Strata (matrix.json or a recorded run). Which it is, is told by its form. Of a
folder, every file below it is read that is one of these; one that is, but is broken,
is told on stderr and left out.

The rows are marked imported. They have the tool's own timing rule, no evidence,
and the tool's record as it was; what a file has beside its runs is in the first row.
They are never compared with what Assay measured, unless you say assay compare
--allow imported.

EXIT STATUS
  0  ok
  1  --out can't be written
  2  wrong usage, or a file can't be read as a result`

type importOptions struct {
	out, arm, engine string
	json             bool
}

func newImportCommand(env *Env) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE... --out DIR",
		Short: "Take over other tools' results as rows",
		Long:  importLong,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return runImport(env, o, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "`folder` to add the rows to")
	f.StringVar(&o.arm, "arm", "", "`name` of the arm (default: the tool's and the model's)")
	f.StringVar(&o.engine, "engine", "", "`name` of the engine that was measured, where the file does not say")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// importedFile is what was taken over of one file.
type importedFile struct {
	File string `json:"file"`
	*imported.Result
	Rows int `json:"rows"`
}

func runImport(env *Env, o importOptions, args []string) error {
	if o.out == "" {
		return usagef("--out: missing: the folder to add the rows to")
	}
	var files []importedFile
	var rows []*row.Row
	for _, arg := range args {
		more, err := readResults(env, arg, imported.Options{Version: Version, Arm: o.arm, Engine: o.engine})
		if err != nil {
			return &exitError{ExitUsage, err}
		}
		for _, f := range more {
			rows = append(rows, f.Result.Rows...)
		}
		files = append(files, more...)
	}
	if err := appendRows(o.out, rows); err != nil {
		return err
	}
	if o.json {
		return printJSON(env, files)
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(env.Stdout, "%s: %s: %s\n", f.File, f.Tool, plural(f.Rows, "row")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(env.Stdout, "%s: imported, of other tools' measuring\n", filepath.Join(o.out, row.RowsFile))
	return err
}

// appendRows adds rows to a folder, which they number anew.
func appendRows(dir string, rows []*row.Row) error {
	j, err := row.OpenJournal(dir)
	if err != nil {
		return err
	}
	for _, r := range rows {
		r.Run = j.Runs() + 1
		if j.Rows() > 0 { // ids are unique in their journal
			r.RowID = fmt.Sprintf("%s/imported/a1/run-%03d", r.Cell, r.Run)
		}
		if err := j.Append(r); err != nil {
			return errors.Join(err, j.Close())
		}
	}
	return j.Close()
}

// readResults reads a file, or all of a folder that are results.
func readResults(env *Env, arg string, o imported.Options) ([]importedFile, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		f, err := readResult(arg, filepath.Base(arg), info, o)
		return []importedFile{f}, err
	}
	var out []importedFile
	err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if d.Name() == "profile_export_aiperf.json" {
			// The summary of the requests that lie beside it.
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), "profile_export.jsonl")); err == nil {
				return nil
			}
		}
		switch filepath.Ext(path) {
		case ".json", ".jsonl", ".csv", ".md", ".markdown", ".benchstat", ".txt":
		default:
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(arg, path)
		if err != nil {
			return err
		}
		f, err := readResult(path, filepath.ToSlash(name), info, o)
		switch {
		case err == nil:
			out = append(out, f)
		case !errors.Is(err, imported.ErrUnknown):
			fmt.Fprintf(env.Stderr, "assay: left out: %v\n", err)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: no file in it is a result (of %s)", arg, strings.Join(imported.Tools(), ", "))
	}
	return out, err
}

func readResult(path, name string, info fs.FileInfo, o imported.Options) (importedFile, error) {
	if !info.Mode().IsRegular() || info.Size() > imported.MaxFile {
		return importedFile{}, fmt.Errorf("%s: not a file, or of more than %d bytes: split it, or import its summary", path, imported.MaxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return importedFile{}, err
	}
	r, err := imported.Read(name, data, o)
	if err != nil {
		return importedFile{}, err
	}
	return importedFile{path, r, len(r.Rows)}, nil
}
