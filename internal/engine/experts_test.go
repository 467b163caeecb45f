package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"assay/internal/engine/expert"
	"assay/internal/engine/model"
	"assay/internal/engine/sample"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// seedlingFile is the built-in model as a file, which experts can be read from.
func seedlingFile(t *testing.T) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seedling.gguf")
	if err := os.WriteFile(path, seedling.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// expertSizes are the least memory that experts of f can have, and what all of them
// take.
func expertSizes(t *testing.T, f *gguf.File) (least, all int64) {
	t.Helper()
	c, err := model.ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	least, all, err = expert.Sizes(f, c.ExpertShape(), expert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return least, all
}

func opened(t *testing.T, f *gguf.File, o Options) *Engine {
	t.Helper()
	e, err := Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// written is what a request gives: its tokens and the bits of their log probabilities.
func written(e *Engine, r Request) (string, error) {
	var b strings.Builder
	_, err := e.Generate(context.Background(), r, func(tok Token) error {
		fmt.Fprintf(&b, "%d:%08x", tok.ID, math.Float32bits(tok.Logprob))
		for _, p := range tok.Top {
			fmt.Fprintf(&b, ",%d:%08x", p.ID, math.Float32bits(p.Logprob))
		}
		b.WriteByte(' ')
		return nil
	})
	return b.String(), err
}

// What experts may have of memory changes no bit: any budget from the least to all,
// any number of threads, slots and drafts, greedy and drawn, many requests at once.
func TestExpertRAMChangesNoBit(t *testing.T) {
	draws := 6
	if os.Getenv("ASSAY_WIDE") != "" {
		draws = 200
	}
	if testing.Short() {
		draws = 2
	}
	t.Run("seedling", func(t *testing.T) { expertRAMChangesNoBit(t, seedlingFile(t), draws) })
	// All experts of the tiny models have room in the least; each is read when it is wanted first.
	for _, name := range []string{"gpt-oss", "qwen35moe", "qwen4exp", "glm4moe"} {
		t.Run(name, func(t *testing.T) {
			f, err := gguf.Open(filepath.Join("../../../shared/models/arch/models", name+".gguf"))
			if err != nil {
				t.Skipf("the models of other architectures are not on this machine: %v", err)
			}
			defer f.Close()
			expertRAMChangesNoBit(t, f, draws)
		})
	}
}

func expertRAMChangesNoBit(t *testing.T, f *gguf.File, draws int) {
	least, all := expertSizes(t, f)
	resident := opened(t, f, Options{Threads: 2, Context: 256})
	first, ids := int32(300), 1000
	if n := resident.Info().Vocabulary; n < int(first)+ids {
		first, ids = 0, n
	}
	r := rand.New(rand.NewPCG(8, 1))
	for i := range draws {
		share := []float64{0, 0.05, 0.1, 0.25, 0.5, 0.75, 1}[r.IntN(7)]
		o := Options{
			Threads: 1 + r.IntN(3), Context: 256, Slots: 1 + r.IntN(3), Batch: 1 + r.IntN(64), Drafts: 4 * r.IntN(2),
			ExpertRAM: least + int64(share*float64(all-least)),
		}
		e, err := Load(context.Background(), f, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		var together sync.WaitGroup
		for k := range o.Slots {
			prompt := make([]int32, 1+r.IntN(60))
			for j := range prompt {
				prompt[j] = first + r.Int32N(int32(ids))
			}
			q := Request{Prompt: prompt, MaxTokens: 12, Sampling: greedy(), IgnoreEOS: true, Logprobs: 3}
			if r.IntN(2) == 0 {
				q.Sampling = sample.Defaults()
				q.Sampling.Seed = r.Uint64()
			}
			together.Go(func() {
				want, err := written(resident, q)
				if err != nil {
					t.Error(err)
				}
				if got, err := written(e, q); got != want || err != nil {
					t.Errorf("draw %d, request %d, %+v: %v\ngot  %s\nwant %s", i, k, o, err, got, want)
				}
			})
		}
		together.Wait()
		if st, ok := e.ExpertStats(); !ok || st.Lookups == 0 || st.Hits == st.Lookups || st.Bytes > o.ExpertRAM {
			t.Errorf("%+v, %v", st, ok)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A request is told what its passes looked up; alone, that is what the store counts.
func TestHitRate(t *testing.T) {
	f := seedlingFile(t)
	least, all := expertSizes(t, f)
	e := opened(t, f, Options{Threads: 1, Context: 256, ExpertRAM: least + (all-least)/3})
	r := Request{Prompt: []int32{400, 401, 402}, MaxTokens: 10, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1, NoReuse: true}
	for range 2 {
		before, _ := e.ExpertStats()
		_, result := collect(t, e, r)
		after, _ := e.ExpertStats()
		rate, ok := result.Timings.HitRate()
		lookups, hits := after.Lookups-before.Lookups, after.Hits-before.Hits
		if !ok || result.Timings.ExpertLookups != lookups || result.Timings.ExpertHits != hits || rate != float64(hits)/float64(lookups) {
			t.Errorf("%d of %d at hand, %g, %v; the store counted %d of %d", result.Timings.ExpertHits, result.Timings.ExpertLookups, rate, ok, hits, lookups)
		}
	}
	uses := e.ExpertUses(nil)
	sum := int64(0)
	for _, n := range uses {
		sum += n
	}
	if st, _ := e.ExpertStats(); sum != st.Lookups {
		t.Errorf("the experts were looked up %d times, the store counted %d", sum, st.Lookups)
	}
	resident := load(t, Options{Threads: 1, Context: 256})
	if _, result := collect(t, resident, r); result.Timings.ExpertLookups != 0 {
		t.Errorf("%+v of experts that are all in memory", result.Timings)
	}
}

// When all that a token wants is in memory, it allocates nothing.
func TestExpertsAtHandAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	f := seedlingFile(t)
	_, all := expertSizes(t, f)
	e := opened(t, f, Options{Threads: 2, Context: 512, ExpertRAM: all})
	cost := func(n int) float64 {
		r := Request{Prompt: []int32{42}, MaxTokens: n, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
		return testing.AllocsPerRun(5, func() {
			if _, err := e.Generate(context.Background(), r, func(Token) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
	}
	cost(102) // the store warms up
	if few, many := cost(2), cost(102); many > few+1 {
		t.Errorf("100 tokens more make %.0f allocations more", many-few)
	}
}

// unsteady is a disk that breaks.
type unsteady struct {
	expert.Reader
	broken atomic.Bool
}

func (r *unsteady) ReadAt(shard int, b []byte, off int64) (int, error) {
	if r.broken.Load() {
		return 0, syscall.EIO
	}
	return r.Reader.ReadAt(shard, b, off)
}

// A disk that can't be read is an error for who wanted what it has; then all goes on,
// and what comes is what always came.
func TestExpertFaults(t *testing.T) {
	f := seedlingFile(t)
	least, _ := expertSizes(t, f)
	files, err := expert.OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	disk := &unsteady{Reader: files}
	t.Cleanup(func() {
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	e := opened(t, f, Options{Threads: 2, Context: 256, Slots: 2, ExpertRAM: least, expertReader: disk})
	r := Request{Prompt: []int32{400, 500, 600, 700}, MaxTokens: 8, Sampling: greedy(), IgnoreEOS: true, Logprobs: 0, NoReuse: true}
	want, err := written(e, r)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		disk.broken.Store(true)
		var both sync.WaitGroup
		for k := range 2 {
			both.Go(func() {
				q := r
				q.Prompt = slices.Clone(r.Prompt)
				q.Prompt[0] += int32(97 * (k + 1))
				if _, err := written(e, q); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "tensor blk.") {
					t.Errorf("request %d of a broken disk: %v", k, err)
				}
			})
		}
		both.Wait()
		disk.broken.Store(false)
		if got, err := written(e, r); got != want || err != nil {
			t.Errorf("after a fault: %v\ngot  %s\nwant %s", err, got, want)
		}
	}
}

// So is a file that is cut short under us.
func TestTruncatedUnderUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seedling.gguf")
	if err := os.WriteFile(path, seedling.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	least, _ := expertSizes(t, f)
	e := opened(t, f, Options{Threads: 1, Context: 64, ExpertRAM: least})
	if err := f.Close(); err != nil { // the engine needs it no more
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = written(e, Request{Prompt: []int32{400}, MaxTokens: 4, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1})
		if err == nil || !strings.Contains(err.Error(), "the file ends before; it was longer when it was opened") {
			t.Errorf("%v", err)
		}
	}
}

// The profile is written when the engine is closed, and what it names is read before
// the first request.
func TestExpertProfile(t *testing.T) {
	f := seedlingFile(t)
	_, all := expertSizes(t, f)
	path := filepath.Join(t.TempDir(), "profile.json")
	r := Request{Prompt: []int32{400, 401, 402}, MaxTokens: 10, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	o := Options{Threads: 1, Context: 64, ExpertRAM: all, ExpertProfile: path}
	e, err := Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, result := collect(t, e, r); result.Timings.ExpertHits == result.Timings.ExpertLookups {
		t.Errorf("without a profile: %+v", result.Timings)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	warm := opened(t, f, o)
	if _, result := collect(t, warm, r); result.Timings.ExpertHits != result.Timings.ExpertLookups {
		t.Errorf("with a profile: %+v", result.Timings)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), f, o, nil); err == nil || !strings.Contains(err.Error(), "delete the file to start a new profile") {
		t.Errorf("a profile of nothing: %v", err)
	}
}

func TestExpertOptionsRefused(t *testing.T) {
	f := seedlingFile(t)
	builtin, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file *gguf.File
		o    Options
		want string
	}{
		{f, Options{ExpertProfile: "p"}, "give --expert-ram"},
		{f, Options{ExpertRAM: -2}, "want more than 0"},
		{f, Options{ExpertRAM: 64 << 20, Mmap: true}, "leave one of --expert-ram and --mmap out"},
		{f, Options{ExpertRAM: 1 << 16}, "of memory for experts are too few: it takes"},
		{f, Options{ExpertRAM: 1 << 60}, "of memory are free: give at most"},
		{builtin, Options{ExpertRAM: ExpertAuto}, "is no file on a disk"},
	} {
		if e, err := Load(context.Background(), c.file, c.o, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			if err == nil {
				err = e.Close()
			}
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

// With what is free, auto needs the other weights, a tenth of the experts, buffers and
// a reserve; a fixed limit needs itself.
func TestExpertRoom(t *testing.T) {
	const mib = 1 << 20
	r := expertRoom{name: "m.gguf", dense: 80 * mib, buffers: 40 * mib, least: 10 * mib, all: 1400 * mib}
	for _, c := range []struct {
		asked, free int64 // MiB; -1: auto
		want        string
	}{
		{-1, 900, ""},
		{-1, 80 + 40 + 140 + 32, ""},
		{-1, 291, "m.gguf: 291 MiB of memory are free, but at least 293 MiB are needed: 80 for the weights that every token needs, 140 for a tenth of the experts (all take 1400), 40 for buffers, and 32 that are left for others"},
		{700, 900, ""},
		{800, 900, "m.gguf: --expert-ram asks for 800 MiB, and the weights that every token needs and buffers take 120 MiB more, but only 900 MiB of memory are free: give at most 780 MiB, or auto"},
		{800, 100, "give at most 0 MiB, or auto"},
	} {
		asked := c.asked * mib
		if c.asked < 0 {
			asked = ExpertAuto
		}
		err := r.check(asked, expert.Free{Bytes: c.free * mib, Limit: c.free * mib})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d MiB: %v, want %q", c.asked, c.free, err, c.want)
		}
	}
}
