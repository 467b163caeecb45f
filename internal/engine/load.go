package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"assay/internal/chat"
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/pool"
	"assay/internal/engine/quant"
	"assay/internal/engine/spec"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
	"assay/internal/tokenizer"
)

// Engine is a loaded model with its slots. Its methods may be called from any
// number of goroutines.
type Engine struct {
	options     Options
	info        Info
	tokenizer   *tokenizer.Tokenizer
	template    *chat.Template
	templateErr error
	weights     *weights.Set
	pool        *pool.Pool
	slots       chan *slot    // those that are free
	closed      chan struct{} // closed by Close

	passing sync.Mutex // held during a pass
	pass    *model.Pass

	closing sync.Once
}

// slot is the state of one request in work.
type slot struct {
	cache  *kv.Cache
	logits []float32 // [vocabulary]
	ahead  *ahead    // nil: nothing is drafted
}

// Info describes a loaded model.
type Info struct {
	Name         string // general.name, or the file's name
	Architecture string
	FileType     string // the format that most weights are in, e.g. "IQ3_S"
	Parameters   uint64
	Bytes        uint64 // of the tensors
	Context      int    // of one slot
	TrainContext int    // that the file declares
	Embedding    int
	Vocabulary   int
}

// defaultContext is the context where neither the user nor a short model says
// otherwise: enough for most uses, without gigabytes of keys and values.
const defaultContext = 8192

// Load reads a model into memory; f may be closed when it returns. progress, if
// not nil, is told how many bytes of the weights are in memory.
func Load(ctx context.Context, f *gguf.File, o Options, progress func(done, total int64)) (*Engine, error) {
	config, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Slots == 0 {
		o.Slots = 1
	}
	if o.Batch == 0 {
		o.Batch = model.MaxBatch
	}
	if o.Context == 0 {
		o.Context = min(config.Context, defaultContext)
	}
	switch {
	case o.Threads < 1 || o.Threads > 1024:
		return nil, fmt.Errorf("threads: %d is not between 1 and 1024", o.Threads)
	case o.Slots < 1 || o.Slots > 1024:
		return nil, fmt.Errorf("slots: %d is not between 1 and 1024", o.Slots)
	case o.Batch < 0 || o.Batch > model.MaxBatch:
		return nil, fmt.Errorf("batch: %d is not between 1 and %d", o.Batch, model.MaxBatch)
	case o.Context < 2 || o.Context > config.Context:
		return nil, fmt.Errorf("context: %d is not between 2 and the %d that %s declares", o.Context, config.Context, f.Name())
	case o.Drafts < 0 || o.Drafts > spec.MaxDrafts:
		return nil, fmt.Errorf("drafts: %d is not between 0 and %d", o.Drafts, spec.MaxDrafts)
	case !(o.DraftMinP >= 0 && o.DraftMinP <= 1):
		return nil, fmt.Errorf("draft min p: %g is not between 0 and 1", o.DraftMinP)
	}
	if o.Drafts == 0 {
		o.Drafter = ""
	} else if o.Drafter == "" {
		o.Drafter = spec.KindSuffix
	}
	cacheType, err := kernel.ParseKVFormat(o.CacheType)
	if err != nil {
		return nil, err
	}
	if cacheType == kernel.KVQ8 && config.HeadDim%32 != 0 {
		return nil, fmt.Errorf("cache type: q8_0 needs heads of a multiple of 32 dimensions, and those of %s have %d; use f16", f.Name(), config.HeadDim)
	}
	o.CacheType = cacheType.String()
	if _, err := kernel.Active(); err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	if tok.Size() > config.Vocabulary {
		return nil, fmt.Errorf("%s: the tokenizer has %d tokens, but token_embd.weight only %d rows", f.Name(), tok.Size(), config.Vocabulary)
	}
	how := model.WeightOptions(f)
	how.Progress, how.Mmap = progress, o.Mmap
	w, err := weights.Load(ctx, f, how)
	if err != nil {
		return nil, err
	}
	m, err := model.New(config, w)
	if err != nil {
		_ = w.Close() // err says more
		return nil, err
	}
	// The pool's goroutines spin inside a pass; HTTP must not wait behind them.
	if n := o.Threads + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	e := &Engine{
		options: o, tokenizer: tok, weights: w, pool: pool.New(o.Threads),
		slots: make(chan *slot, o.Slots), closed: make(chan struct{}),
		info: info(f, config, o),
	}
	e.template, e.templateErr = chat.FromGGUF(f)
	e.pass = model.NewPass(m, e.pool)
	store := kv.NewStore(config.KVShape(cacheType))
	for range o.Slots {
		s := &slot{cache: store.NewCache(), logits: make([]float32, m.Vocabulary)}
		if o.Drafts > 0 {
			s.ahead = newAhead(spec.NewSuffix(o.Context), o.Drafts, m.Vocabulary)
		}
		e.slots <- s
	}
	return e, nil
}

func info(f *gguf.File, c *model.Config, o Options) Info {
	i := Info{
		Name: f.Name(), Architecture: c.Architecture, Context: o.Context, TrainContext: c.Context,
		Embedding: c.Width, Vocabulary: c.Vocabulary,
	}
	if name, err := f.String("general.name"); err == nil && name != "" {
		i.Name = name
	}
	bytesOf, most := map[gguf.Type]uint64{}, uint64(0)
	for _, t := range f.Tensors() {
		i.Parameters += t.Elements()
		i.Bytes += t.Bytes()
		if bytesOf[t.Type] += t.Bytes(); bytesOf[t.Type] > most {
			most, i.FileType = bytesOf[t.Type], t.Type.String()
		}
	}
	return i
}

// Tokenizer is the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }

// Template is the model's chat template, or why there is none.
func (e *Engine) Template() (*chat.Template, error) { return e.template, e.templateErr }

// Options are the options in force, defaults filled in.
func (e *Engine) Options() Options { return e.options }

// Info describes the model.
func (e *Engine) Info() Info { return e.info }

// HugeBytes is how much of the weights' memory lies in huge pages, and its
// size.
func (e *Engine) HugeBytes() (huge, total int64, err error) {
	huge, err = e.weights.HugeBytes()
	return huge, int64(e.weights.Bytes()), err
}

// Close lets the requests in work end with ErrClosed and gives all memory back.
func (e *Engine) Close() error {
	var err error
	e.closing.Do(func() {
		close(e.closed)
		for range e.options.Slots {
			<-e.slots
		}
		e.pool.Close()
		err = e.weights.Close()
	})
	return err
}

// CanRun says why the engine can't run the model of f, or nil when it can, as
// far as the metadata and the list of tensors tell.
func CanRun(f *gguf.File) error {
	if _, err := model.ReadConfig(f); err != nil {
		return err
	}
	return weights.Check(f)
}

// CanRunType says whether the engine can compute with a tensor format.
func CanRunType(t gguf.Type) bool { return quant.Supported(t) }
