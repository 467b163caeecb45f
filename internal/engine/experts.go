package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"assay/internal/engine/expert"
	"assay/internal/engine/model"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// ExpertAuto as Options.ExpertRAM gives experts what memory is free, less a reserve,
// and gives it back when others need it.
const ExpertAuto = -1

// checkExperts says what of the options on experts can't be, for the model of f.
func (o *Options) checkExperts(f *gguf.File, c *model.Config) error {
	switch {
	case o.ExpertRAM == 0 && o.ExpertProfile != "":
		return fmt.Errorf("expert profile: %s is for experts that are read when they are needed, and all are in memory (give --expert-ram)", o.ExpertProfile)
	case o.ExpertRAM == 0:
		return nil
	case o.ExpertRAM < ExpertAuto:
		return fmt.Errorf("expert RAM: %d bytes; want more than 0", o.ExpertRAM)
	case o.Mmap:
		return fmt.Errorf("expert RAM: with mmap the system chooses what of the file is in memory; leave one of --expert-ram and --mmap out")
	case c.Experts == 0:
		return fmt.Errorf("expert RAM: %s has no experts; leave --expert-ram out", f.Name())
	case !f.Mapped():
		return fmt.Errorf("expert RAM: %s is no file on a disk that experts could be read from; leave --expert-ram out", f.Name())
	}
	return nil
}

// expertRoom is the memory that a model takes whose experts are read when they are
// needed, in bytes.
type expertRoom struct {
	name    string
	dense   int64 // weights that every token needs
	buffers int64 // passes, logits, tokenizer and runtime, about
	least   int64 // that experts need for anything to run
	all     int64 // that all experts take
}

// room says what f needs under o.
func (o *Options) room(f *gguf.File, c *model.Config, how weights.Options) (expertRoom, error) {
	least, all, err := expert.Sizes(f, c.ExpertShape(), expert.Options{})
	return expertRoom{f.Name(), int64(weights.MemoryBytes(f, how)), buffers(c, *o), least, all}, err
}

// check compares that with what is free before anything is loaded: the system would
// end a program that takes more. asked is Options.ExpertRAM.
func (r expertRoom) check(asked int64, free expert.Free) error {
	const mib = 1 << 20
	if asked != ExpertAuto {
		if need := r.dense + r.buffers + asked; need > free.Bytes {
			return fmt.Errorf("%s: --expert-ram asks for %d MiB, and the weights that every token needs and buffers take %d MiB more, but only %d MiB of memory are free: give at most %d MiB, or auto",
				r.name, asked/mib, (r.dense+r.buffers)/mib, free.Bytes/mib, max(0, free.Bytes-r.dense-r.buffers)/mib)
		}
		return nil
	}
	tenth, reserve := max(r.least, r.all/10), expert.Reserve(free.Limit)
	if need := r.dense + r.buffers + tenth + reserve; need > free.Bytes {
		return fmt.Errorf("%s: %d MiB of memory are free, but at least %d MiB are needed: %d for the weights that every token needs, %d for a tenth of the experts (all take %d), %d for buffers, and %d that are left for others; free memory or raise the limit",
			r.name, free.Bytes/mib, need/mib+1, r.dense/mib, tenth/mib, r.all/mib, r.buffers/mib, reserve/mib)
	}
	return nil
}

// beforeExperts has weights leave the experts out, when a store is to hold them, and
// checks that there is room.
func (o *Options) beforeExperts(f *gguf.File, c *model.Config, how *weights.Options) error {
	if o.ExpertRAM == 0 {
		return nil
	}
	how.Elsewhere = append(how.Elsewhere, expert.Tensors(f, c.ExpertShape())...)
	r, err := o.room(f, c, *how)
	if err != nil {
		return err
	}
	free, err := expert.Machine(string(os.PathSeparator)).Free()
	if err != nil {
		return nil // nobody can tell; the store asks again where it must know
	}
	return r.check(o.ExpertRAM, free)
}

// openExperts opens the store. nil: all experts are among the weights.
func (o *Options) openExperts(f *gguf.File, c *model.Config) (*expert.Store, error) {
	if o.ExpertRAM == 0 {
		return nil, nil
	}
	s, err := expert.Open(f, c.ExpertShape(), expert.Options{Bytes: max(0, o.ExpertRAM), Reader: o.expertReader})
	if err != nil || o.ExpertProfile == "" {
		return s, err
	}
	if err := s.LoadProfile(o.ExpertProfile); err != nil && !errors.Is(err, fs.ErrNotExist) { // else it begins now
		return nil, errors.Join(fmt.Errorf("expert profile: %w", err), s.Close())
	}
	return s, nil
}

// garbage is how much of the memory in use Go may let come as garbage, in percent,
// beside experts that take what is free.
const garbage = 25

// settleMemory takes what memory passes will want, and gives back what loading needed,
// before experts fill what is free.
func (e *Engine) settleMemory() {
	if e.store == nil {
		return
	}
	e.pass.Touch()
	if e.head != nil {
		e.head.Touch()
	}
	if was := debug.SetGCPercent(garbage); was < garbage { // the user asked for less, or for none to be collected
		debug.SetGCPercent(was)
	}
	debug.FreeOSMemory()
}

// warmExperts reads the experts that the profile says are used most.
func (e *Engine) warmExperts(ctx context.Context) error {
	if e.store == nil || e.options.ExpertProfile == "" {
		return nil
	}
	return e.store.Warm(ctx)
}

// closeExperts saves the profile and closes the store, if there is one.
func (e *Engine) closeExperts() (err error) {
	if e.store == nil {
		return nil
	}
	if e.options.ExpertProfile != "" {
		if err = e.store.SaveProfile(e.options.ExpertProfile); err != nil {
			err = fmt.Errorf("expert profile: %w", err)
			if e.options.Log != nil {
				e.options.Log("%v", err)
			}
		}
	}
	return errors.Join(err, e.store.Close())
}

// ExpertStats says how experts came to hand since the Engine was loaded; false: all
// are in memory for good.
func (e *Engine) ExpertStats() (expert.Stats, bool) {
	if e.store == nil {
		return expert.Stats{}, false
	}
	return e.store.Stats(), true
}

// ExpertUses appends how often each expert was looked up, layer by layer: nothing
// where all are in memory.
func (e *Engine) ExpertUses(to []int64) []int64 {
	if e.store == nil {
		return to
	}
	return e.store.Uses(to)
}

// lookups is the store's count so far.
func (e *Engine) lookups() (c expert.Count) {
	if e.store != nil {
		c = e.store.Count()
	}
	return c
}

// looked tells those in the pass that ran of its lookups.
func (r *rounds) looked(c expert.Count) {
	for _, t := range r.now {
		t.looked = c
	}
}

// HitRate is ExpertHits/ExpertLookups: the share of experts that were in memory when a
// pass asked for them. A pass asks for an expert of a layer once, however many of its
// tokens want it; what several requests share is counted for each of them. false:
// nothing was looked up, since all experts are in memory.
func (t Timings) HitRate() (float64, bool) {
	if t.ExpertLookups == 0 {
		return 0, false
	}
	return float64(t.ExpertHits) / float64(t.ExpertLookups), true
}
