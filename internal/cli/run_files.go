package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"assay/internal/kit/modelfile"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// openFiles reads what the plan needs from files: tokenizers, texts, and the hashes
// of the models. A file that is wrong is told before anything starts.
func openFiles(ctx context.Context, env *Env, c *runner.Config) error {
	p := &c.Plan
	if c.Text = prompt.Books(); p.Text != "" {
		data, err := readText(p.Text)
		if err == nil {
			c.Text, err = prompt.NewText(runner.ModelBase(p.Text), data)
		}
		if err != nil {
			return &exitError{ExitUsage, fmt.Errorf("the text: %w", err)}
		}
	}
	c.Prompts = map[string]string{}
	for _, file := range p.Prompts {
		data, err := readText(file)
		if err != nil {
			return &exitError{ExitUsage, fmt.Errorf("the prompt: %w", err)}
		}
		c.Prompts[filepath.Clean(file)] = data
	}
	f := opened{env: env, counters: map[string]*tokens.Counter{}, models: map[string]runner.Model{}}
	c.ModelAt = func(ctx context.Context, path string) (runner.Model, error) { return f.model(ctx, path) }
	c.Arms = map[string]runner.Files{}
	for i := range p.Arms {
		files, err := f.arm(ctx, &p.Arms[i])
		if err != nil {
			return fmt.Errorf("arm %s: %w", p.Arms[i].Name, err)
		}
		c.Arms[p.Arms[i].Name] = files
	}
	return nil
}

// opened are files that were read once for all arms that name them.
type opened struct {
	env      *Env
	counters map[string]*tokens.Counter
	models   map[string]runner.Model
}

func (o *opened) arm(ctx context.Context, a *plan.Arm) (runner.Files, error) {
	var out runner.Files
	loads, err := loadedBy(a)
	switch {
	case err != nil:
		return out, err
	case len(loads) > 0:
		// They are named by the engine's own configuration, for a file system that may
		// not be this one, and whether they are there is for the engine to say.
		if out.Model, err = o.model(ctx, loads...); ctx.Err() != nil {
			return out, ctx.Err()
		} else if err != nil {
			out.Model = runner.Model{Why: fmt.Sprintf("the files that %s names can't be read here: %v", modelBase(a.Model), runner.WithoutPath(err))}
		}
	case a.Kind() == plan.Attached:
		out.Model.Why = "attached: the files that the server loaded are not known"
	case a.Model == "":
		out.Model.Why = "the plan names no model file"
	default:
		if out.Model, err = o.model(ctx, a.Model); err != nil {
			return out, err
		}
	}
	file, what := a.Tokenizer, "tokenizer"
	if file == "" {
		file, what = a.Model, "model"
	}
	if file == "" {
		return out, nil
	}
	if what == "model" && a.Target != "assay" && !strings.EqualFold(filepath.Ext(file), ".gguf") {
		// The file that an engine is started with may be none that holds a tokenizer.
		if is, err := modelfile.IsGGUF(file); err != nil || !is {
			return out, err
		}
	}
	c, ok := o.counters[file]
	if !ok {
		if c, err = openCounter(o.env, file); err != nil {
			return out, &exitError{ExitUsage, fmt.Errorf("the %s: %w", what, err)}
		}
		o.counters[file] = c
	}
	out.Tokens = c
	return out, nil
}

// loadedBy are the files of weights that an engine loads which is not started with
// them, but with a configuration; none: the arm's model is the file.
func loadedBy(a *plan.Arm) ([]string, error) {
	if a.Kind() != plan.Named {
		return nil, nil
	}
	adapter, err := adapters.ByName(a.Target)
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	c, err := adapter.Command(runner.Settings(a, plan.Launch{}, "assay"))
	if err != nil {
		return nil, &exitError{ExitUsage, fmt.Errorf("%s: %w", a.Target, err)}
	}
	return c.Models, nil
}

// model reads and hashes the files of a model, or of several that are loaded
// together, each by the name of its first.
func (o *opened) model(ctx context.Context, names ...string) (runner.Model, error) {
	key := strings.Join(names, "\x00")
	if m, ok := o.models[key]; ok {
		return m, nil
	}
	m := runner.Model{Path: names[0]}
	var err error
	files := names
	if names[0] == seedling.Name {
		m.Path, err = o.env.Executable() // which holds that model
	} else {
		files = nil
		for _, name := range names {
			more, err := modelfile.Files(name)
			if err != nil {
				return m, &exitError{ExitUsage, fmt.Errorf("the model: %w", err)}
			}
			files = append(files, more...)
		}
	}
	if err != nil {
		return m, err
	}
	m.More = files[1:]
	if m.FileSHA256, err = hashModel(ctx, o.env, files, names[0]); err != nil {
		return m, err
	}
	o.models[key] = m
	return m, nil
}

// modelBase is how rows call a model file: without the folders of this machine.
func modelBase(file string) string {
	if file == seedling.Name {
		return seedling.File
	}
	return runner.ModelBase(file)
}

// hashModel gives the sha256 of each of the model's files, numbered from 1, with
// progress on a terminal where that takes more than a moment.
func hashModel(ctx context.Context, env *Env, files []string, name string) (map[string]string, error) {
	if name == seedling.Name {
		sum := sha256.Sum256(seedling.GGUF)
		return map[string]string{"1": hex.EncodeToString(sum[:])}, nil
	}
	bar := newProgress(env, "hashing the model's files")
	defer bar.clear()
	sums, err := modelfile.Sums(ctx, files, modelfile.Options{Dir: modelfile.CacheDir(env.Getenv), Progress: bar.update})
	if err != nil {
		return nil, fmt.Errorf("the hash of the model: %w", err)
	}
	return sums, nil
}

// maxText bounds a text file: more than the longest context needs.
const maxText = 256 << 20

func readText(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.Size() > maxText:
		return "", fmt.Errorf("%s: %d bytes (at most %d)", path, info.Size(), maxText)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s: not UTF-8 text", path)
	}
	return string(data), nil
}

// readReport reads all rows of a file of rows.
func readReport(file string) (*report.Report, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows := report.NewBuilder()
	for r, err := range row.Read(f, file) {
		if err != nil {
			return nil, err
		}
		rows.Add(r)
	}
	return rows.Report(), nil
}
