// Package gguf reads GGUF model files: metadata, the list of tensors, and the
// tensors' bytes.
//
// It trusts nothing in the file. Every count, length, dimension and offset is
// checked against the bytes that are really there before anything is allocated
// or indexed, so a truncated or hostile file gives an error that names the
// file, the field and the byte offset. Metadata arrays stay in the file as they
// are and are decoded when asked for; memory is bounded by a small multiple of
// what the file holds.
//
// GGUF versions 2 and 3 are read, little-endian only. Split files
// (NAME-00001-of-00003.gguf) are opened through their first shard. Tensors of a
// type unknown here are listed but have no data.
//
// On Linux, macOS and other Unix systems the file is mapped, elsewhere it is read
// whole. Byte slices from
// [Tensor.Data] must not be written to, nor used after [File.Close]. Nobody may
// truncate the file while it is open: touching a page that is gone kills the
// process, which no check made here can prevent.
package gguf

import (
	"errors"
	"fmt"
)

// ErrMissing is wrapped by the accessors' errors when the key is not in the file.
var ErrMissing = errors.New("not in the file")

// ErrClosed is wrapped by the accessors' errors after Close.
var ErrClosed = errors.New("file is closed")

// FormatError says what is wrong with a file and where.
type FormatError struct {
	File   string // as given to Open or Parse; of a split file, the shard
	Field  string // e.g. `key "general.alignment"` or `tensor "output.weight"`
	Offset uint64 // byte offset in File of what is wrong
	Reason string // what was found and what was expected
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %s at byte %d: %s", e.File, e.Field, e.Offset, e.Reason)
}

// File is an open GGUF file, or all the shards of a split one. Its methods may
// be called from several goroutines at once, Close excepted.
type File struct {
	name    string
	version uint32
	kvs     []KV
	index   map[string]int // key -> place in kvs
	tensors []*Tensor
	byName  map[string]*Tensor
	shards  []*source
	closed  bool
}

// KV is one metadata pair.
type KV struct {
	Key   string
	Value Value
}

// Shard is one file of a split model. An unsplit model has one.
type Shard struct {
	Path string
	Size int64 // bytes
}

// source is the bytes of one shard. data becomes nil when the file is closed,
// so that a Value or Tensor kept too long finds nothing instead of faulting.
type source struct {
	path    string
	size    int64
	data    []byte
	release func() error // nil when there is nothing to release
}

func (s *source) close() error {
	s.data = nil
	if s.release == nil {
		return nil
	}
	release := s.release
	s.release = nil
	if err := release(); err != nil {
		return fmt.Errorf("%s: unmapping: %w", s.path, err)
	}
	return nil
}

// Open opens the GGUF file at path. When it is the first shard of a split
// model, the others are opened too, from the same folder.
func Open(path string) (*File, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err
	}
	f, err := parseSource(src)
	if err == nil {
		err = f.openOtherShards()
	}
	if err != nil {
		if f == nil {
			_ = src.close() // the parse error says more
		} else {
			_ = f.Close()
		}
		return nil, err
	}
	return f, nil
}

// Parse reads a GGUF file that is already in memory. name is what errors call
// it. data must not change while the File is in use.
func Parse(name string, data []byte) (*File, error) {
	f, err := parseSource(&source{path: name, size: int64(len(data)), data: data})
	if err != nil {
		return nil, err
	}
	s, err := f.splitInfo()
	if err != nil {
		return nil, err
	}
	if s.count > 1 {
		return nil, fmt.Errorf("%s: shard %d of %d of a split model; open it from its folder, where the other shards are",
			name, s.no+1, s.count)
	}
	return f, nil
}

// Close releases the file. Tensor data must not be used afterwards. A second
// Close does nothing.
func (f *File) Close() error {
	f.closed = true
	var errs []error
	for _, s := range f.shards {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// Name is the path or name that the file was opened by.
func (f *File) Name() string { return f.name }

// Size is the size in bytes, of all shards together.
func (f *File) Size() int64 {
	var n int64
	for _, s := range f.shards {
		n += s.size
	}
	return n
}

// Mapped reports whether the bytes are those of files that lie on a disk, mapped
// into memory. They are not where the system can't map, nor after Parse.
func (f *File) Mapped() bool { return len(f.shards) > 0 && f.shards[0].release != nil }

// Version is the GGUF version of the (first) file: 2 or 3.
func (f *File) Version() uint32 { return f.version }

// Shards lists the files, one for an unsplit model.
func (f *File) Shards() []Shard {
	out := make([]Shard, len(f.shards))
	for i, s := range f.shards {
		out[i] = Shard{Path: s.path, Size: s.size}
	}
	return out
}

// KVs returns the metadata in file order. Of a split model it is the first
// shard's: the others only repeat the split.* keys.
func (f *File) KVs() []KV { return f.kvs }

// Lookup returns the value of a metadata key.
func (f *File) Lookup(key string) (Value, bool) {
	i, ok := f.index[key]
	if !ok {
		return Value{}, false
	}
	return f.kvs[i].Value, true
}

// Tensors returns the tensors in file order, shard after shard.
func (f *File) Tensors() []*Tensor { return f.tensors }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.byName[name]
	return t, ok
}
