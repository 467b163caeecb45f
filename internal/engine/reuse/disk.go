package reuse

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"assay/internal/engine/kv"
)

// Identity is what keys and values belong to, besides the tokens. A file of another
// one is never used.
type Identity struct {
	Model  string // which weights: a hash of them
	Layout string // shape and format of keys and values
}

// Disk is a folder of files, one a sequence. It may be used from several goroutines,
// and the folder by several programs: files appear whole, under names made from
// their content, and one that is gone is as good as none.
type Disk struct {
	dir   string
	limit int64 // of the bytes of all files
	id    Identity
	store *kv.Store

	mu    sync.Mutex
	files []*file // the one that was not used for the longest time first
	bytes int64

	slow func(io.Writer) io.Writer // of tests: a disk that takes its time
}

type file struct {
	path   string
	size   int64
	tokens []int32 // nil: of another model: only its size counts
	whole  bool    // it has a recurrent state, and is used as a whole or not at all
}

// OpenDisk reads what is in a folder, which is made if there is none. Files of other
// models stay, and count against the limit. log is told of files that are broken;
// these are removed.
func OpenDisk(dir string, limit int64, id Identity, store *kv.Store, log func(format string, args ...any)) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &Disk{dir: dir, limit: limit, id: id, store: store}
	d.sweep()
	names, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, err
	}
	used := map[*file]time.Time{}
	for _, path := range names {
		f, at, err := d.open(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // another program's doing
		case err != nil:
			log("reuse: %s: %v; it is removed", path, err)
			_ = os.Remove(path) // else it is met again the next time
		default:
			d.files, d.bytes = append(d.files, f), d.bytes+f.size
			used[f] = at
		}
	}
	slices.SortStableFunc(d.files, func(a, b *file) int { return cmp.Or(used[a].Compare(used[b]), cmp.Compare(a.path, b.path)) })
	return d, nil
}

// sweep removes what writers left that did not come to an end.
func (d *Disk) sweep() {
	parts, _ := filepath.Glob(filepath.Join(d.dir, partial)) // the pattern is a good one
	for _, path := range parts {
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > time.Hour { // else somebody may be at it
			_ = os.Remove(path)
		}
	}
}

// partial is how files are named while they are written.
const partial = "new-*.part"

// open reads the header of a file, and when it was used last.
func (d *Disk) open(path string) (*file, time.Time, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !st.Mode().IsRegular() {
		return nil, time.Time{}, errors.New("it is no regular file")
	}
	h, tokens, _, err := readHeader(in, st.Size())
	if err != nil {
		return nil, time.Time{}, err
	}
	f := &file{path: path, size: st.Size()}
	if h.Model == d.id.Model && h.Layout == d.id.Layout {
		f.tokens, f.whole = tokens, h.StateBytes > 0
	}
	return f, st.ModTime(), nil
}

func (d *Disk) holds() (entries int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.files), d.bytes
}

// find is the file that has most of the prompt's first tokens, and how many, at most
// most.
func (d *Disk) find(prompt []int32, most int) (best *file, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		m := min(commonPrefix(f.tokens, prompt), most)
		if f.whole && m < len(f.tokens) {
			continue
		}
		if m > n {
			best, n = f, m
		}
	}
	return best, n
}

// read is the first n positions of a file. A file that is broken is removed.
func (d *Disk) read(ctx context.Context, f *file, n int) (*kv.Snapshot, error) {
	s, err := d.readFile(ctx, f, n)
	switch {
	case err == nil:
		d.used(f)
		return s, nil
	case ctx.Err() == nil:
		d.remove(f)
	}
	return nil, fmt.Errorf("%s: %w", f.path, err)
}

func (d *Disk) readFile(ctx context.Context, f *file, n int) (*kv.Snapshot, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return nil, err
	}
	h, tokens, at, err := readHeader(in, st.Size())
	switch {
	case err != nil:
		return nil, err
	case h.Model != d.id.Model:
		return nil, fmt.Errorf("it is of model %s, not of %s", h.Model, d.id.Model)
	case h.Layout != d.id.Layout:
		return nil, fmt.Errorf("its layout is %q, not %q", h.Layout, d.id.Layout)
	case commonPrefix(tokens, f.tokens) < n:
		return nil, errors.New("it has other tokens than it had")
	}
	if _, err := in.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	state := make([]byte, h.StateBytes) // the file has as much
	if h.StateBytes > 0 {
		if err := readPiece(in, state); err != nil {
			return nil, fmt.Errorf("the state: %w", err)
		}
	}
	return d.store.Import(n, func(i int, page []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i >= h.Pages || len(page) != h.PageBytes {
			return fmt.Errorf("it has %d pages of %d bytes, but page %d has %d", h.Pages, h.PageBytes, i, len(page))
		}
		if err := readPiece(in, page); err != nil {
			return fmt.Errorf("page %d: %w", i, err)
		}
		return nil
	}, state)
}

// used makes f the file that was used last, for the next start too.
func (d *Disk) used(f *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.files, f); i >= 0 {
		d.files = append(slices.Delete(d.files, i, i+1), f)
		now := time.Now()
		_ = os.Chtimes(f.path, now, now) // else the next start has it a little older
	}
}

func (d *Disk) remove(f *file) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.files, f); i >= 0 {
		d.files = slices.Delete(d.files, i, i+1)
		d.bytes -= f.size
		_ = os.Remove(f.path) // it may have gone, which is why
	}
}

// write makes a file of a sequence, unless there is one that has it. It ends with
// stop's error once it has one.
func (d *Disk) write(tokens []int32, state *kv.Snapshot, stop func() error) (wrote bool, err error) {
	d.mu.Lock()
	var covered []*file // by the new one
	var gone []*file    // removed by somebody else
	for _, f := range d.files {
		switch n := commonPrefix(f.tokens, tokens); {
		case n == len(tokens) && (!f.whole || n == len(f.tokens)):
			if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
				gone = append(gone, f)
				continue
			}
			d.mu.Unlock()
			return false, nil
		case f.tokens != nil && n == len(f.tokens) && !f.whole:
			covered = append(covered, f)
		}
	}
	d.mu.Unlock()
	for _, f := range gone {
		d.remove(f)
	}
	f := &file{path: filepath.Join(d.dir, d.name(tokens)), tokens: slices.Clone(tokens), whole: state.Recurrent()}
	if need := size(state); need > d.limit {
		return false, fmt.Errorf("writing %s: its %d bytes are more than the limit of the folder, %d", f.path, need, d.limit)
	}
	if f.size, err = d.writeFile(f, state, stop); err != nil {
		return false, fmt.Errorf("writing %s: %w", f.path, err)
	}
	for _, old := range covered {
		d.remove(old)
	}
	d.mu.Lock()
	d.files, d.bytes = append(d.files, f), d.bytes+f.size
	var old []*file
	for rest, i := d.bytes, 0; rest > d.limit && i < len(d.files); i++ {
		old = append(old, d.files[i])
		rest -= d.files[i].size
	}
	d.mu.Unlock()
	for _, f := range old {
		d.remove(f)
	}
	return true, nil
}

// name is a file's, from what it belongs to and its tokens.
func (d *Disk) name(tokens []int32) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", d.id.Model, d.id.Layout)
	_ = binary.Write(h, binary.LittleEndian, tokens) // to a hash
	return hex.EncodeToString(h.Sum(nil)[:16]) + extension
}

// writeFile writes to another name first, so that no half of a file is ever met. It
// is not synced: what a crash leaves has wrong sums.
func (d *Disk) writeFile(f *file, state *kv.Snapshot, stop func() error) (size int64, err error) {
	out, err := os.CreateTemp(d.dir, partial)
	if errors.Is(err, fs.ErrNotExist) { // the folder has been removed
		if err = os.MkdirAll(d.dir, 0o700); err == nil {
			out, err = os.CreateTemp(d.dir, partial)
		}
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = out.Close() // err says more
			_ = os.Remove(out.Name())
		}
	}()
	pages, recurrent := state.Pages(), state.State()
	var to io.Writer = out
	if d.slow != nil {
		to = d.slow(out)
	}
	w := bufio.NewWriterSize(to, chunk)
	if err := writeHeader(w, header{
		Model: d.id.Model, Layout: d.id.Layout, Tokens: len(f.tokens),
		Pages: len(pages), PageBytes: len(pages[0]), StateBytes: len(recurrent),
	}, f.tokens); err != nil {
		return 0, err
	}
	if len(recurrent) > 0 {
		if err := writePiece(w, recurrent, stop); err != nil {
			return 0, err
		}
	}
	for _, p := range pages {
		if err := writePiece(w, p, stop); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	if size, err = out.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	if err := out.Close(); err != nil {
		return 0, err
	}
	return size, os.Rename(out.Name(), f.path)
}
