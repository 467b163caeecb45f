package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"assay/internal/kit/evidence"
	"assay/internal/kit/plan"
	"assay/internal/kit/row"
)

// PlanFile is the name of the plan in the folder of its rows.
const PlanFile = "plan.json"

// AsideFolder gets evidence of which no row can be made.
const AsideFolder = "set-aside"

const (
	planForm = "assay-plan-1"
	newExt   = ".new" // of a plan that is being written
)

// kept is what PlanFile holds.
type kept struct {
	Form string `json:"form"`
	// From is the working directory that the plan's relative paths start from;
	// empty: it has none.
	From string    `json:"from,omitempty"`
	Plan plan.Plan `json:"plan"`
}

// ReadPlan reads the plan of the rows in dir. It fails where the plan names files
// that start from another working directory.
func ReadPlan(dir string) (*plan.Plan, error) {
	file := filepath.Join(dir, PlanFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no %s: is it a folder that assay run has written?", dir, PlanFile)
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if k.Form != planForm {
		return nil, fmt.Errorf("%s: form %q (want %q)", file, k.Form, planForm)
	}
	if err := k.Plan.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if now, err := os.Getwd(); k.From != "" && (err != nil || now != k.From) {
		return nil, fmt.Errorf("%s: the plan's files (%s) start from %s: go there first", file, k.Plan.Relative(), k.From)
	}
	return &k.Plan, nil
}

// writePlan keeps a plan, as a whole or not at all.
func writePlan(dir string, p *plan.Plan) error {
	k := kept{Form: planForm, Plan: *p}
	if p.Relative() != "" {
		var err error
		if k.From, err = os.Getwd(); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, PlanFile)
	f, err := os.Create(file + newExt)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(file+newExt, file)
}

// history is what the rows so far say of the plan's runs.
type history struct {
	plan   *plan.Plan
	rows   map[string]bool      // by row_id
	done   map[string]plan.Done // by plan.Key
	tokens map[string]int       // to generate, by the size's label, where min_seconds says how long that takes
}

func newHistory(p *plan.Plan) *history {
	return &history{plan: p, rows: map[string]bool{}, done: map[string]plan.Done{}, tokens: map[string]int{}}
}

// see takes the next row.
func (h *history) see(r *row.Row) {
	h.rows[r.RowID] = true
	key := plan.Key(r.Cell, r.Phase == row.Warmup, r.Repeat)
	d := h.done[key]
	h.done[key] = plan.Done{Attempts: max(d.Attempts, r.Attempt), OK: d.OK || r.Status == row.OK}
	if _, set := h.tokens[r.Ctx]; set || r.Phase != row.Warmup || r.Status != row.OK || h.plan.MinSeconds <= 0 {
		return
	}
	// A rate that may not be shown is good enough to choose a length by.
	for _, rate := range []*float64{r.DecodeTokS, r.DecodeTokSWithheld, r.DecodeTokSServer} {
		if rate != nil && *rate > 0 {
			h.tokens[r.Ctx] = h.plan.TokensFor(*rate)
			return
		}
	}
}

// tokensFor is how many tokens a run asks for: max_tokens, or as many as the first
// warm-up at its size, of whatever arm, showed to take min_seconds.
func (h *history) tokensFor(r plan.Run) int {
	if n, ok := h.tokens[r.Label()]; ok {
		return n
	}
	return h.plan.MaxTokens
}

// Done reads what the rows in dir say of the runs of their plan, for Remaining.
func Done(dir string, p *plan.Plan) (map[string]plan.Done, error) {
	h := newHistory(p)
	err := eachRow(dir, h.see)
	return h.done, err
}

// eachRow reads the rows of a folder; none where there is no file of rows yet.
func eachRow(dir string, see func(*row.Row)) error {
	file := filepath.Join(dir, row.RowsFile)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for r, err := range row.Read(f, file) {
		if err != nil {
			return err
		}
		see(r)
	}
	return nil
}

// takeUp reads the rows of an earlier try, and settles what a crash between
// evidence and row has left.
func (s *session) takeUp() error {
	known := map[string]bool{}
	err := eachRow(s.Dir, func(r *row.Row) {
		s.past.see(r)
		if s.sum.Before++; r.Evidence.Dir != nil {
			known[*r.Evidence.Dir] = true
		}
	})
	if err != nil {
		return err
	}
	return s.orphans(known)
}

// orphans are folders of evidence that no row names. Evidence appears whole or not
// at all, so a row is made of it; what was still being written is taken away, and
// what no row can be made of is set aside.
func (s *session) orphans(known map[string]bool) error {
	root := filepath.Join(s.Dir, evidence.Folder)
	var whole, broken []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && file == root:
			return fs.SkipAll
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), "."):
			broken = append(broken, file)
			return fs.SkipDir
		}
		rel, err := filepath.Rel(s.Dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if known[name] {
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(file, evidence.MetaFile)); err == nil {
			whole = append(whole, name)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range broken {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	for _, name := range whole {
		if err := s.adopt(name); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes the row of evidence that has none, or sets the evidence aside.
func (s *session) adopt(name string) error {
	dir := filepath.Join(s.Dir, filepath.FromSlash(name))
	rec, err := evidence.Read(dir)
	if err == nil && path.Join(evidence.Folder, rec.Meta.Row) == name {
		var files map[string]string
		if files, err = evidence.Sums(dir); err == nil {
			if _, err = s.appendRow(name, files); err == nil {
				s.sum.Adopted++
				return nil
			}
		}
	}
	aside := filepath.Join(s.Dir, AsideFolder, strings.ReplaceAll(strings.TrimPrefix(name, evidence.Folder+"/"), "/", "-"))
	to := aside
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s-%d", aside, n)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(dir, to)
}
