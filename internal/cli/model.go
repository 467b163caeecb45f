package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/catalog"
	"assay/internal/engine"
	"assay/internal/engine/kernel"
	"assay/internal/gguf"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// modelHelp is what -m takes.
const modelHelp = "GGUF `file`, a model's name (see assay models), or " + seedling.Name

// openModel opens the model that -m names: a GGUF file, the first shard of a
// split one, a model that another program keeps here, or builtin:seedling, which is
// in this binary.
func openModel(env *Env, name string) (*gguf.File, error) {
	if name == seedling.Name {
		return gguf.Parse(seedling.Name, seedling.GGUF)
	}
	if name == "" {
		return nil, usagef("--model: no model named (want a GGUF file, a name that assay models lists, or %s)", seedling.Name)
	}
	path, err := findModel(env, name)
	if err != nil {
		return nil, err
	}
	return gguf.Open(path)
}

// findModel is the path of the model that a user named: a path itself, if there is
// such a file, else a name that package catalog finds.
func findModel(env *Env, name string) (string, error) {
	if name == "" || name == seedling.Name {
		return name, nil
	}
	_, err := os.Stat(name)
	switch {
	case err == nil:
		return name, nil
	case !errors.Is(err, fs.ErrNotExist) || filepath.IsAbs(name) || strings.HasPrefix(name, "."):
		return "", err // it can only be a path
	}
	m, notFound := catalog.Read(catalog.Places(env.Getenv)).Find(name)
	var none *catalog.NotFoundError
	switch {
	case errors.As(notFound, &none):
		return "", fmt.Errorf("%w, and no store of models here has one of that name (assay models lists what they have: %d)", err, none.Known)
	case notFound != nil:
		return "", &exitError{ExitUsage, notFound}
	}
	return m.Path, nil
}

// modelNames finds the models that a plan names in place of files. The stores are
// read once, and only when there is such a name.
func modelNames(env *Env) func(name string) (string, error) {
	models := sync.OnceValue(func() *catalog.Catalog { return catalog.Read(catalog.Places(env.Getenv)) })
	return func(name string) (string, error) {
		m, err := models().Find(name)
		var none *catalog.NotFoundError
		if errors.As(err, &none) {
			return "", fs.ErrNotExist
		}
		return m.Path, err
	}
}

// openCounter reads the tokenizer, and the chat template if there is one, of a
// model file, of the built-in model, or of a Hugging Face tokenizer.json.
func openCounter(env *Env, name string) (*tokens.Counter, error) {
	file, err := findModel(env, name)
	if err != nil {
		return nil, err
	}
	if file != seedling.Name {
		return tokens.FromFile(file, modelBase(file))
	}
	f, err := openModel(env, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tokens.FromGGUF(f, modelBase(file))
}

// engineFlags are the flags of every command that runs the engine.
type engineFlags struct {
	model     string
	context   int
	threads   int
	gpuLayers int
	keyType   string
	valueType string
	mmap      bool
	drafts    draftFlags
	experts   expertFlags
}

func (o *engineFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", seedling.Name, modelHelp)
	f.IntVarP(&o.context, "context", "c", 0, "positions of a context, prompt and answer together (0: the model's own, at most 8192)")
	f.IntVarP(&o.threads, "threads", "t", 0, "compute threads (0: one a core)")
	f.IntVar(&o.gpuLayers, "gpu-layers", 0, "accepted for llama-server's sake: there is no GPU support yet")
	f.StringVar(&o.keyType, "cache-type-k", cacheType, "`format` of the keys that are kept: f16, q8_0 or f32")
	f.StringVar(&o.valueType, "cache-type-v", cacheType, "`format` of the values that are kept: that of the keys")
	f.BoolVar(&o.mmap, "mmap", false, "use the file's own pages instead of a copy in huge ones: a quicker start, slower tokens")
	o.drafts.register(cmd)
	o.experts.register(cmd)
}

// cacheType is the format in which keys and values are kept unless another one is
// asked for, as in llama-server.
const cacheType = "f16"

// cacheTypes are those that the engine has.
var cacheTypes = []string{"f16", "q8_0", "f32"}

func (o *engineFlags) check() error {
	switch {
	case o.context < 0:
		return usagef("--context: %d is not a number of positions (want 0 for the model's own, or more)", o.context)
	case o.threads < 0:
		return usagef("--threads: %d is not a number of threads (want 0 for one a core, or more)", o.threads)
	case !slices.Contains(cacheTypes, o.keyType):
		return usagef("--cache-type-k: keys can't be kept as %q (want %s)", o.keyType, strings.Join(cacheTypes, ", "))
	case o.valueType != o.keyType:
		return usagef("--cache-type-v: values are kept as the keys are (want %s, or --cache-type-k %s as well)", o.keyType, o.valueType)
	}
	if o.mmap && o.experts.ram != "" {
		return usagef("--expert-ram: with --mmap the system chooses what of the file is in memory (want one of the two)")
	}
	if err := o.experts.check(); err != nil {
		return err
	}
	return o.drafts.check()
}

// open opens the model and loads it, for one request at a time.
func (o *engineFlags) open(ctx context.Context, env *Env) (*engine.Engine, error) {
	f, err := openModel(env, o.model)
	if err != nil {
		return nil, err
	}
	if !o.mmap { // else the engine goes on reading it, as long as the program runs
		defer f.Close()
	}
	return o.load(ctx, env, f, engine.Options{ReuseBytes: engine.ReuseAuto})
}

// load loads a model that has been opened, with progress on a terminal where it
// takes more than a moment. The flags are put into options.
func (o *engineFlags) load(ctx context.Context, env *Env, f *gguf.File, options engine.Options) (*engine.Engine, error) {
	if o.gpuLayers > 0 {
		fmt.Fprintf(env.Stderr, "assay: --gpu-layers %d: there is no GPU support yet, all layers run on the CPU\n", o.gpuLayers)
	}
	if l, err := kernel.Active(); err == nil && l == kernel.None && env.Getenv("ASSAY_SIMD") == "" {
		fmt.Fprintf(env.Stderr, "assay: there are no fast kernels for this processor (%s): plain Go computes, many times slower\n", runtime.GOARCH)
	}
	bar := newProgress(env, "loading the model")
	defer bar.clear()
	options.Threads, options.Context, options.CacheType, options.Mmap = o.threads, o.context, o.keyType, o.mmap
	o.experts.set(&options)
	if options.Log == nil {
		options.Log = func(format string, args ...any) { fmt.Fprintf(env.Stderr, "assay: "+format+"\n", args...) }
	}
	release, err := o.drafts.set(env, &options)
	if err != nil {
		return nil, err
	}
	defer release()
	return engine.Load(ctx, f, options, bar.update)
}

// progress redraws one line of a terminal, at most ten times a second.
type progress struct {
	to    io.Writer // nil: draw nothing
	what  string
	last  time.Time
	drawn bool
}

func newProgress(env *Env, what string) *progress {
	p := &progress{what: what, last: time.Now()}
	if env.StderrIsTerminal {
		p.to = env.Stderr
	}
	return p
}

func (p *progress) update(done, total int64) {
	if p.to == nil || total <= 0 || time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.drawn = time.Now(), true
	fmt.Fprintf(p.to, "\r%s: %3d %%", p.what, done*100/total)
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
