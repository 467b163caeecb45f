package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"assay/internal/chat"
	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/mtp"
	"assay/internal/engine/pool"
	"assay/internal/engine/quant"
	"assay/internal/engine/reuse"
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
	pass        *model.Pass
	rounds      *rounds
	reuse       *reuse.Cache // nil: nothing is kept
	slots       chan *slot   // those that are free
	all         []*slot
	store       *expert.Store // of experts; nil: weights has them
	waiting     atomic.Int64  // requests that wait for a slot
	experts     atomic.Int64  // that passes computed
	closed      chan struct{} // closed by Close
	closing     sync.Once

	head    *mtp.Head    // drafts; nil: the model has no such block, or it is not asked for
	headSet *weights.Set // its tensors; nil: they are among the model's

	passing sync.Mutex // held by who uses the pool: a round's pass, or a drafter that computes
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

// Load reads a model into memory; f may be closed when it returns. progress, if
// not nil, is told how many bytes of the weights are in memory.
func Load(ctx context.Context, f *gguf.File, o Options, progress func(done, total int64)) (*Engine, error) {
	config, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	o, shape, err := o.settle(f, config)
	if err != nil {
		return nil, err
	}
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
	o.beforeHead(f, config, &how)
	if err := o.beforeExperts(f, config, &how); err != nil {
		return nil, err
	}
	w, err := weights.Load(ctx, f, how)
	if err != nil {
		return nil, err
	}
	experts, err := o.openExperts(f, config)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	m, err := model.New(config, w, experts)
	if err != nil {
		return nil, errors.Join(err, closeStore(experts), w.Close())
	}
	store := kv.NewStore(shape)
	head, headSet, err := o.openHead(ctx, m, f, w)
	var kept *reuse.Cache
	if err == nil {
		o.ReuseBytes = reuseBytes(o.ReuseBytes)
		kept, err = openReuse(f, store, o)
	}
	if err != nil {
		return nil, errors.Join(err, closeStore(experts), w.Close(), closeSet(headSet))
	}
	// The pool's goroutines spin inside a pass; HTTP must not wait behind them. Each of
	// those that read experts has its own place too: else the next read begins only when
	// the scheduler sees that the one before waits for the disk.
	n := o.Threads + 2
	if experts != nil {
		n += expert.DefaultReaders
	}
	if runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	e := &Engine{
		options: o, tokenizer: tok, weights: w, pool: pool.New(o.Threads), reuse: kept,
		closed: make(chan struct{}), info: info(f, config, o), headSet: headSet, store: experts,
	}
	e.template, e.templateErr = chat.FromGGUF(f)
	e.pass = model.NewPass(m, e.pool)
	if head != nil {
		e.head = mtp.New(head, e.pool, o.cacheFormat(), &e.passing)
	}
	e.rounds = newRounds(e.runPass, e.closed, o.Slots, o.Batch)
	e.settleMemory()
	e.newSlots(store)
	if err := e.warmExperts(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
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
// Options.ReuseDir gets what is kept in memory.
func (e *Engine) Close() error { return e.CloseWithin(context.Background()) }

// CloseWithin is Close, but writes to ReuseDir only until ctx ends.
func (e *Engine) CloseWithin(ctx context.Context) error {
	var err error
	e.closing.Do(func() {
		close(e.closed)
		for range e.options.Slots {
			<-e.slots
		}
		e.rounds.late.Stop()
		e.closeReuse(ctx)
		e.pool.Close()
		err = errors.Join(e.closeExperts(), e.weights.Close(), closeSet(e.headSet))
	})
	return err
}

// closeStore closes a store of experts, if there is one.
func closeStore(s *expert.Store) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

// closeSet closes a set of tensors, if there is one.
func closeSet(w *weights.Set) error {
	if w == nil {
		return nil
	}
	return w.Close()
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
