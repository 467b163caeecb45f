package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/kit/bundle"
	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
)

// rowInput reads rows from the places that a command was given.
type rowInput struct {
	stdin  io.Reader
	stderr io.Writer
	take   func(r *row.Row)
	seen   map[[sha256.Size]byte]bool // sha256 of the lines so far
	twice  int
	broken []error // the first of them
	bad    int     // how many there are

	counter *tokens.Counter // nil: rows are taken as they are
	counted int             // rows whose text it counted
}

// newRowInput gives every row that is read to take, each once.
func newRowInput(env *Env, take func(r *row.Row)) *rowInput {
	return &rowInput{stdin: env.Stdin, stderr: env.Stderr, take: take, seen: map[[sha256.Size]byte]bool{}}
}

// mostBroken is how many broken lines are told of.
const mostBroken = 10

// add reads the rows of one argument: a file, a bundle, - for standard input, a folder
// of a run, or one that holds folders of runs. Its error is one of the files; what
// is wrong in lines is collected, so that all of it can be shown at once.
func (in *rowInput) add(arg string) error {
	if arg == "-" {
		in.read(in.stdin, "stdin", "")
		return nil
	}
	paths, err := rowFiles(arg)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := in.addFile(path); err != nil {
			return err
		}
	}
	return nil
}

// report sums up the rows of all arguments, which in gives to builder. Rows that are
// broken, and none at all, are wrong usage.
func (in *rowInput) report(builder *report.Builder, args []string) (*report.Report, error) {
	for _, arg := range args {
		if err := in.add(arg); err != nil {
			return nil, &exitError{ExitUsage, err}
		}
	}
	if err := in.err(); err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	rep := builder.Report()
	if rep.Rows == 0 {
		return nil, usagef("there are no rows in %q", args)
	}
	return rep, nil
}

func (in *rowInput) addFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if is, err := bundle.Is(f); is || err != nil {
		return errors.Join(err, in.addBundle(path))
	}
	in.read(f, path, filepath.Dir(path))
	return nil
}

// isBundle says whether a path is that of a bundle.
func isBundle(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	is, err := bundle.Is(f)
	return is && err == nil
}

// addBundle reads the rows of a bundle, whose seal, signature and hashes must hold.
// Its texts are not counted: what was redacted of them counts as something else.
func (in *rowInput) addBundle(path string) error {
	dir, err := os.MkdirTemp("", "assay-rows-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o, err := bundle.Open(context.Background(), path, dir)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, row.RowsFile))
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(in.stderr, "assay: %s: signed by %s; assay verify checks its figures\n", path, o.Key)
	in.read(f, path+"/"+row.RowsFile, "")
	return nil
}

// rowFiles are the files of rows that an argument stands for.
func rowFiles(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	path := filepath.Join(arg, row.RowsFile)
	_, err = os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return []string{path}, err
	}
	entries, readErr := os.ReadDir(arg)
	if readErr != nil {
		return nil, readErr
	}
	var out []string
	for _, e := range entries { // sorted by name
		below := filepath.Join(arg, e.Name(), row.RowsFile)
		if info, err := os.Stat(below); err == nil && info.Mode().IsRegular() {
			out = append(out, below)
		}
	}
	if out == nil {
		return nil, err
	}
	return out, nil
}

// read reads rows whose evidence lies below dir; "" is nowhere.
func (in *rowInput) read(r io.Reader, name, dir string) {
	for line := range row.Lines(r) {
		parsed, err := line.Row()
		if err == nil && parsed != nil {
			err = readable(parsed)
		}
		if err == nil && parsed != nil && in.counter != nil && dir != "" {
			parsed, err = in.later(parsed, dir)
		}
		switch {
		case err != nil:
			if in.bad++; in.bad <= mostBroken {
				in.broken = append(in.broken, fmt.Errorf("%s:%d: %w", name, line.Number, err))
			}
		case parsed == nil: // a blank line
		case in.isNew(line.Bytes):
			in.take(parsed)
		}
	}
}

// later counts the text of a row now, if the run could not, and returns the row
// with what follows from the count.
func (in *rowInput) later(r *row.Row, dir string) (*row.Row, error) {
	if r.Schema == "" || r.Evidence.Dir == nil {
		return r, nil // another tool's, or without evidence
	}
	at, err := filepath.Localize(*r.Evidence.Dir)
	if err != nil {
		return nil, fmt.Errorf("evidence.dir: %w", err)
	}
	at = filepath.Join(dir, at)
	if wrong := evidence.Check(at, r.Evidence.Files); len(wrong) > 0 {
		return nil, fmt.Errorf("its evidence is not what it was (assay verify tells more): %w", wrong[0])
	}
	rec, err := evidence.Read(at)
	if err != nil {
		return nil, err
	}
	facts, err := derive.ReadFacts(rec)
	if err != nil {
		return nil, err
	}
	counted, err := derive.Later(rec, *facts, in.counter)
	if err != nil || counted == nil {
		return r, err
	}
	in.counted++
	counted.Evidence, counted.Seq, counted.PrevSHA256 = r.Evidence, r.Seq, r.PrevSHA256
	return counted, nil
}

// isNew says whether these bytes were not seen before.
func (in *rowInput) isNew(line []byte) bool {
	sum := sha256.Sum256(line)
	if in.seen[sum] {
		in.twice++
		return false
	}
	in.seen[sum] = true
	return true
}

// readable refuses what is JSON but no row that this version understands.
func readable(r *row.Row) error {
	switch {
	case r.Schema != "" && r.Schema != row.Schema:
		return fmt.Errorf("schema: %q is not known, want %q: was it written by a newer assay?", r.Schema, row.Schema)
	case r.Arm == "":
		return errors.New("arm: missing: this is no row")
	case r.Status == "":
		return errors.New("status: missing: this is no row")
	}
	return nil
}

// err tells of the broken lines.
func (in *rowInput) err() error {
	if more := in.bad - len(in.broken); more > 0 {
		return errors.Join(append(in.broken, fmt.Errorf("and %d more lines", more))...)
	}
	return errors.Join(in.broken...)
}
