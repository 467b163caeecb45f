package engine

import (
	"fmt"
	"runtime"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/spec"
	"assay/internal/gguf"
)

const (
	// defaultContext is the context where neither the user nor a short model says
	// otherwise: enough for most uses, without gigabytes of keys and values.
	defaultContext = 8192

	defaultQueue     = 256
	defaultReuseDisk = 16 << 30
)

// settle fills in defaults and checks that the options hold for the model of f. The
// shape is that of its sequences.
func (o Options) settle(f *gguf.File, config *model.Config) (Options, kv.Shape, error) {
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Slots == 0 {
		o.Slots = 1
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.Batch == 0 {
		o.Batch = model.MaxBatch
	}
	if o.Context == 0 {
		o.Context = min(config.Context, defaultContext)
	}
	if o.ReuseDiskBytes == 0 {
		o.ReuseDiskBytes = defaultReuseDisk
	}
	switch {
	case o.Threads < 1 || o.Threads > 1024:
		return o, kv.Shape{}, fmt.Errorf("threads: %d is not between 1 and 1024", o.Threads)
	case o.Slots < 1 || o.Slots > 1024:
		return o, kv.Shape{}, fmt.Errorf("slots: %d is not between 1 and 1024", o.Slots)
	case o.Batch < 0 || o.Batch > model.MaxBatch:
		return o, kv.Shape{}, fmt.Errorf("batch: %d is not between 1 and %d", o.Batch, model.MaxBatch)
	case o.Context < 2 || o.Context > config.Context:
		return o, kv.Shape{}, fmt.Errorf("context: %d is not between 2 and the %d that %s declares", o.Context, config.Context, f.Name())
	case o.Drafts < 0 || o.Drafts > spec.MaxDrafts:
		return o, kv.Shape{}, fmt.Errorf("drafts: %d is not between 0 and %d", o.Drafts, spec.MaxDrafts)
	case !(o.DraftMinP >= 0 && o.DraftMinP <= 1):
		return o, kv.Shape{}, fmt.Errorf("draft min p: %g is not between 0 and 1", o.DraftMinP)
	case o.ReuseBytes < ReuseAuto || o.ReuseDiskBytes < 0:
		return o, kv.Shape{}, fmt.Errorf("reuse: %d bytes of memory and %d of disk; neither may be less than 0", o.ReuseBytes, o.ReuseDiskBytes)
	case o.ReuseDir != "" && o.ReuseBytes == 0:
		return o, kv.Shape{}, fmt.Errorf("reuse: there is a folder, %s, but no memory to keep anything in first", o.ReuseDir)
	}
	if o.Drafts == 0 {
		o.Drafter = ""
	} else if o.Drafter == "" {
		if o.Drafter = spec.KindSuffix; o.Head != nil {
			o.Drafter = spec.KindMTP
		}
	}
	if err := o.checkExperts(f, config); err != nil {
		return o, kv.Shape{}, err
	}
	if err := o.checkDrafter(f, config); err != nil {
		return o, kv.Shape{}, err
	}
	format, err := kernel.ParseKVFormat(o.CacheType)
	if err != nil {
		return o, kv.Shape{}, err
	}
	shape := config.KVShape(format)
	for _, l := range shape.Layers {
		if format == kernel.KVQ8 && (l.Layout.Dim%32 != 0 || l.Layout.ValueDim()%32 != 0) {
			return o, kv.Shape{}, fmt.Errorf("cache type: q8_0 needs heads of a multiple of 32 dimensions, and those of %s have %d; use f16", f.Name(), l.Layout.Dim)
		}
	}
	o.CacheType = format.String()
	return o, shape, nil
}

// cacheFormat is CacheType, once that was settled.
func (o *Options) cacheFormat() kernel.KVFormat {
	f, _ := kernel.ParseKVFormat(o.CacheType)
	return f
}
