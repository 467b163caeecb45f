package gguf

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Keys by which the shards of a split model know their place.
const (
	keySplitNo      = "split.no" // counts from 0; file names count from 1
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count" // of all shards together
)

// maxShards is what five digits in a file name can count.
const maxShards = 99999

var shardName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})(\.gguf)$`)

// split is a shard's place. count is 0 or 1 for an unsplit file.
type split struct{ no, count, tensors uint64 }

func (f *File) splitInfo() (split, error) {
	var s split
	var err error
	s.count, err = f.Uint(keySplitCount)
	switch {
	case errors.Is(err, ErrMissing):
		return split{}, nil
	case err != nil:
		return split{}, err
	case s.count <= 1:
		return split{}, nil
	case s.count > maxShards:
		return split{}, fmt.Errorf("%s: key %q: %d shards; want at most %d", f.name, keySplitCount, s.count, maxShards)
	}
	if s.no, err = f.Uint(keySplitNo); err != nil {
		return split{}, err
	}
	if s.no >= s.count {
		return split{}, fmt.Errorf("%s: key %q: %d, but %q is %d; want less", f.name, keySplitNo, s.no, keySplitCount, s.count)
	}
	s.tensors, err = f.Uint(keySplitTensors)
	if errors.Is(err, ErrMissing) {
		s.tensors, err = math.MaxUint64, nil // nothing to compare with
	}
	return s, err
}

// openOtherShards opens the rest of a split model, of which f is the first
// shard so far. It does nothing for an unsplit one.
func (f *File) openOtherShards() error {
	first, err := f.splitInfo()
	if err != nil || first.count <= 1 {
		return err
	}
	dir, base := filepath.Split(f.name)
	m := shardName.FindStringSubmatch(base)
	if m == nil {
		return fmt.Errorf("%s: shard %d of %d of a split model, but its name does not end in -%05d-of-%05d.gguf, by which the others are found: rename it",
			f.name, first.no+1, first.count, first.no+1, first.count)
	}
	path := func(no uint64) string {
		return filepath.Join(dir, fmt.Sprintf("%s-%05d-of-%05d%s", m[1], no+1, first.count, m[4]))
	}
	if no, _ := strconv.ParseUint(m[2], 10, 64); no != first.no+1 {
		return fmt.Errorf("%s: the name says shard %d, key %q says %d (counted from 0): rename the shards as they were made",
			f.name, no, keySplitNo, first.no)
	}
	if n, _ := strconv.ParseUint(m[3], 10, 64); n != first.count {
		return fmt.Errorf("%s: the name says %d shards, key %q says %d: rename the shards as they were made",
			f.name, n, keySplitCount, first.count)
	}
	if first.no != 0 {
		return fmt.Errorf("%s: shard %d of %d of a split model; open the first, %s", f.name, first.no+1, first.count, path(0))
	}
	for no := uint64(1); no < first.count; no++ {
		want := split{no: no, count: first.count, tensors: first.tensors}
		if err := f.openShard(path(no), want); err != nil {
			return err
		}
	}
	if n := uint64(len(f.tensors)); first.tensors != math.MaxUint64 && n != first.tensors {
		return fmt.Errorf("%s: key %q is %d, but the %d shards hold %d tensors",
			f.name, keySplitTensors, first.tensors, first.count, n)
	}
	return nil
}

// openShard adds one shard's tensors to f, which closes it.
func (f *File) openShard(path string, want split) error {
	src, err := openSource(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: shard %d of %d is missing: %w", f.name, want.no+1, want.count, err)
	}
	if err != nil {
		return err
	}
	g, err := parseSource(src)
	if err != nil {
		_ = src.close() // the parse error says more
		return err
	}
	f.shards = append(f.shards, src)
	found, err := g.splitInfo()
	if err != nil {
		return err
	}
	if found != want {
		return fmt.Errorf("%s: not the shard that %s asks for: %s is %d (want %d), %s is %d (want %d), %s is %d (want %d)",
			path, f.name, keySplitNo, found.no, want.no, keySplitCount, found.count, want.count,
			keySplitTensors, found.tensors, want.tensors)
	}
	for _, t := range g.tensors {
		if other, ok := f.byName[t.Name]; ok {
			return fmt.Errorf("%s: tensor %q is in %s too; want each once", path, t.Name, f.shards[other.Shard].path)
		}
		t.Shard = len(f.shards) - 1
		f.byName[t.Name] = t
		f.tensors = append(f.tensors, t)
	}
	return nil
}
