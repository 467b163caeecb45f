package weights

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"assay/internal/engine/kernel"
	"assay/internal/gguf"
)

// Options say how tensors are kept.
type Options struct {
	// Lookup names tensors whose rows are read one by one, as the table of
	// embeddings is: they lie as in the file. Where Both is set they are also
	// multiplied, and are kept twice if panels want it.
	Lookup []string
	Both   bool
	// Disk names tensors that stay in the file, for Set.Table; Elsewhere those that
	// somebody else holds, as a store of experts does.
	Disk, Elsewhere []string
	// Mmap uses the file's own pages instead of a copy; the file must then stay
	// open. Nothing is repacked ahead.
	Mmap bool
	// Progress, if not nil, is told how many bytes of the file are done. It is
	// called from several goroutines, but never twice at the same time.
	Progress func(done, total int64)
}

// align keeps every tensor, and so every panel, on its own cache lines.
const align = 64

// unitBytes is about how much is read at once. Disks are at their best with 1 to
// 2 MB.
const unitBytes = 2 << 20

// unit is a piece of a tensor that one worker reads and puts in its place.
type unit struct {
	src    *gguf.Tensor
	o, n   int            // bytes of the tensor's data
	rows   []byte         // copied here, if not nil
	matrix *kernel.Matrix // packed into this one's panels, if not nil
	panel  int            // from this one on
}

// Load reads all tensors of f into memory; f may be closed afterwards, unless
// it is mapped.
func Load(ctx context.Context, f *gguf.File, o Options) (*Set, error) {
	if err := Check(f); err != nil {
		return nil, err
	}
	s := &Set{file: f.Name(), tensors: make(map[string]*tensor, len(f.Tensors()))}
	if err := s.openTables(f, o.Disk); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.Mmap {
		s.tensors = View(f).tensors
		return s, nil
	}
	rows, panels, total := sizes(f, o)
	a, err := newArena(total)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %d bytes of memory for the weights: %w", f.Name(), total, err), s.Close())
	}
	s.arena = a
	units := s.plan(f, rows, panels)
	if err := read(ctx, f, units, o.Progress); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), errors.Join(err, s.Close()))
	}
	return s, nil
}

// View is the tensors of f where they lie, without loading or checking anything: to
// look at their dimensions and formats, or to use the file's own pages. The file
// must stay open.
func View(f *gguf.File) *Set {
	s := &Set{file: f.Name(), tensors: make(map[string]*tensor, len(f.Tensors()))}
	for _, t := range f.Tensors() {
		s.tensors[t.Name] = &tensor{kind: t.Type, dims: t.Dims, rows: t.Data()}
	}
	return s
}

// sizes says how many bytes each tensor needs as it lies in the file and in
// panels, and all together.
func sizes(f *gguf.File, o Options) (rows, panels []int, total int) {
	lookup := map[string]bool{}
	for _, name := range o.Lookup {
		lookup[name] = true
	}
	for _, src := range f.Tensors() {
		t := tensor{kind: src.Type, dims: src.Dims}
		row, panel := len(src.Data()), 0
		if slices.Contains(o.Disk, src.Name) || slices.Contains(o.Elsewhere, src.Name) {
			rows, panels = append(rows, 0), append(panels, 0)
			continue
		}
		if len(src.Dims) > 1 && kernel.Packs(src.Type) && (!lookup[src.Name] || o.Both) {
			n, rowsEach := t.matrices()
			panel = n * padded(kernel.PanelBytes(src.Type, rowsEach, int(src.Dims[0])))
			if !lookup[src.Name] {
				row = 0
			}
		}
		rows, panels = append(rows, row), append(panels, panel)
		total += padded(row) + panel
	}
	return rows, panels, total
}

func padded(n int) int { return (n + align - 1) / align * align }

// MemoryBytes is the size of the mapping that Load would make for f.
func MemoryBytes(f *gguf.File, o Options) int {
	if o.Mmap {
		return 0
	}
	_, _, total := sizes(f, o)
	return total
}

// plan gives every tensor its place and cuts the work into units.
func (s *Set) plan(f *gguf.File, rows, panels []int) []unit {
	free := s.arena.mem
	take := func(n int) []byte {
		b := free[:n:n]
		free = free[padded(n):]
		return b
	}
	var units []unit
	for i, src := range f.Tensors() {
		t := &tensor{kind: src.Type, dims: src.Dims}
		s.tensors[src.Name] = t
		if rows[i] > 0 {
			t.rows = take(rows[i])
			for o := 0; o < len(t.rows); o += unitBytes {
				n := min(unitBytes, len(t.rows)-o)
				units = append(units, unit{src: src, o: o, n: n, rows: t.rows[o:][:n]})
			}
		}
		if panels[i] > 0 {
			t.panels = take(panels[i])
			n, rowsEach := t.matrices()
			bytesEach := len(src.Data()) / n
			panelRows := bytesEach / rowsEach * kernel.PanelRows
			step := max(1, unitBytes/panelRows)
			for e, m := range t.stack(n, rowsEach, int(src.Dims[0])) {
				for p := 0; p < m.Panels(); p += step {
					o := p * panelRows
					units = append(units, unit{
						src: src, o: e*bytesEach + o, n: min(step*panelRows, bytesEach-o),
						matrix: m, panel: p,
					})
				}
			}
		}
	}
	return units
}

// read does all units, several at a time.
func read(ctx context.Context, f *gguf.File, units []unit, progress func(done, total int64)) error {
	var total int64
	for i := range units {
		total += int64(units[i].n)
	}
	files, err := openShards(f)
	if err != nil {
		return err
	}
	defer files.close()
	var (
		next   atomic.Int64
		mu     sync.Mutex // of what follows
		done   int64
		failed error
		wg     sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// More workers than processors: those that wait for the disk need none.
	for range min(len(units), max(4, runtime.NumCPU())) {
		wg.Go(func() {
			var buf buffer
			for {
				i := int(next.Add(1)) - 1
				if i >= len(units) {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = units[i].do(files, &buf)
				}
				mu.Lock()
				switch {
				case err != nil && failed == nil:
					failed = err
					cancel()
				case err == nil:
					done += int64(units[i].n)
					if progress != nil {
						progress(done, total)
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return fmt.Errorf("loading stopped: %w", failed)
	}
	return nil
}

func (u *unit) do(files *shards, buf *buffer) error {
	data, err := files.read(u.src, u.o, u.n, buf)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", u.src.Name, err)
	}
	if u.rows != nil {
		copy(u.rows, data)
	}
	if u.matrix != nil {
		u.matrix.Pack(data, u.panel)
	}
	return nil
}
