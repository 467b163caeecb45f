package gguf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/gguf"
)

// shard describes one file of a split model for writeShards.
type shard struct {
	file               string
	no, count, tensors any // nil leaves the key out
	tensor             string
	fill               byte
}

func writeShards(t *testing.T, shards []shard) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range shards {
		data := build(t, func(b *gguf.Builder) {
			b.Set("name", s.file)
			for _, kv := range []struct {
				key   string
				value any
			}{{"split.no", s.no}, {"split.count", s.count}, {"split.tensors.count", s.tensors}} {
				if kv.value != nil {
					b.Set(kv.key, kv.value)
				}
			}
			b.Tensor(s.tensor, gguf.I8, []uint64{3}, []byte{s.fill, s.fill, s.fill})
		})
		if err := os.WriteFile(filepath.Join(dir, s.file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func threeShards() []shard {
	var out []shard
	for i := range 3 {
		out = append(out, shard{
			file: fmt.Sprintf("m-%05d-of-00003.gguf", i+1), no: uint16(i), count: uint16(3), tensors: int32(3),
			tensor: fmt.Sprintf("t%d", i), fill: byte(10 + i),
		})
	}
	return out
}

// Opening the first shard opens all; each tensor's bytes come from its shard.
func TestSplit(t *testing.T) {
	dir := writeShards(t, threeShards())
	f, err := gguf.Open(filepath.Join(dir, "m-00001-of-00003.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Shards()) != 3 || len(f.Tensors()) != 3 || len(f.KVs()) != 4 {
		t.Fatalf("%d shards, %d tensors, %d pairs", len(f.Shards()), len(f.Tensors()), len(f.KVs()))
	}
	var size int64
	for i, s := range f.Shards() {
		name := fmt.Sprintf("m-%05d-of-00003.gguf", i+1)
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if s.Path != filepath.Join(dir, name) || s.Size != int64(len(data)) {
			t.Errorf("shard %d: %+v", i, s)
		}
		size += s.Size
		x, ok := f.Tensor(fmt.Sprintf("t%d", i))
		if !ok || x.Shard != i {
			t.Fatalf("tensor %d: %+v", i, x)
		}
		want := string([]byte{byte(10 + i), byte(10 + i), byte(10 + i)})
		if string(x.Data()) != want || string(data[x.Offset:x.Offset+3]) != want {
			t.Errorf("tensor %d: data %v", i, x.Data())
		}
	}
	if f.Size() != size {
		t.Errorf("size %d, want %d", f.Size(), size)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if x, _ := f.Tensor("t2"); x.Data() != nil {
		t.Error("data after Close")
	}
	if _, err := f.String("name"); !errors.Is(err, gguf.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestSplitErrors(t *testing.T) {
	change := func(f func(s []shard) []shard) []shard { return f(threeShards()) }
	const first, second = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf"
	tests := []struct {
		name   string
		shards []shard
		open   string
		want   []string
	}{
		{"not the first", threeShards(), second, []string{second + ": shard 2 of 3", "open the first, ", first}},
		{"second missing", change(func(s []shard) []shard { return append(s[:1], s[2]) }), first, []string{first + ": shard 2 of 3 is missing", second}},
		{"renamed", change(func(s []shard) []shard { s[0].file = "model.gguf"; return s }), "model.gguf", []string{"does not end in -00001-of-00003.gguf"}},
		{"name with another count", change(func(s []shard) []shard { s[0].file = "m-00001-of-00002.gguf"; return s }), "m-00001-of-00002.gguf", []string{"the name says 2 shards", `"split.count" says 3`}},
		{"name with another number", change(func(s []shard) []shard { s[0].file = "m-00003-of-00003.gguf"; return s[:1] }), "m-00003-of-00003.gguf", []string{"the name says shard 3", `"split.no" says 0`}},
		{"two shards swapped", change(func(s []shard) []shard { s[1].file, s[2].file = s[2].file, s[1].file; return s }), first, []string{second + ": not the shard that", "split.no is 2 (want 1)"}},
		{"counts disagree", change(func(s []shard) []shard { s[2].count = uint16(4); return s }), first, []string{"m-00003-of-00003.gguf: not the shard", "split.count is 4 (want 3)"}},
		{"shard of no split", change(func(s []shard) []shard { s[1].count = nil; return s }), first, []string{second, "split.count is 0 (want 3)"}},
		{"tensor counts disagree", change(func(s []shard) []shard { s[1].tensors = int32(9); return s }), first, []string{second, "split.tensors.count is 9 (want 3)"}},
		{"fewer tensors than promised", change(func(s []shard) []shard {
			for i := range s {
				s[i].tensors = int32(4)
			}
			return s
		}), first, []string{first, `"split.tensors.count" is 4, but the 3 shards hold 3 tensors`}},
		{"tensor in two shards", change(func(s []shard) []shard { s[2].tensor = "t0"; return s }), first, []string{"m-00003-of-00003.gguf: tensor \"t0\" is in", first}},
		{"number past the count", change(func(s []shard) []shard { s[0].no = uint16(3); return s }), first, []string{`key "split.no": 3, but "split.count" is 3`}},
		{"count past five digits", change(func(s []shard) []shard { s[0].count = uint32(1 << 31); return s }), first, []string{`key "split.count": 2147483648 shards; want at most 99999`}},
		{"number missing", change(func(s []shard) []shard { s[0].no = nil; return s }), first, []string{`key "split.no"`, "not in the file"}},
		{"count as text", change(func(s []shard) []shard { s[0].count = "3"; return s }), first, []string{`key "split.count" at byte`, `found string "3"`}},
		{"negative tensor count", change(func(s []shard) []shard { s[0].tensors = int32(-1); return s }), first, []string{`key "split.tensors.count" at byte`, "found int32 -1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeShards(t, tt.shards)
			_, err := gguf.Open(filepath.Join(dir, tt.open))
			wantError(t, err, tt.want...)
		})
	}
	t.Run("damaged shard", func(t *testing.T) {
		dir := writeShards(t, threeShards())
		if err := os.Truncate(filepath.Join(dir, second), 100); err != nil {
			t.Fatal(err)
		}
		_, err := gguf.Open(filepath.Join(dir, first))
		wantError(t, err, second+": metadata pair 3 of 4 at byte ", "of 11 bytes, but only")
	})
	t.Run("missing names the cause", func(t *testing.T) {
		dir := writeShards(t, threeShards()[:1])
		if _, err := gguf.Open(filepath.Join(dir, first)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v does not wrap ErrNotExist", err)
		}
	})
	t.Run("in memory", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(writeShards(t, threeShards()), first))
		if err != nil {
			t.Fatal(err)
		}
		_, err = gguf.Parse("mem", data)
		wantError(t, err, "mem: shard 1 of 3 of a split model")
	})
}

// A split of one, or one whose shards leave out the tensor count, is fine.
func TestSplitTolerated(t *testing.T) {
	one := writeShards(t, []shard{{file: "one.gguf", no: uint16(0), count: uint16(1), tensors: int32(1), tensor: "t"}})
	f, err := gguf.Open(filepath.Join(one, "one.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	shards := threeShards()
	for i := range shards {
		shards[i].tensors = nil
	}
	f, err = gguf.Open(filepath.Join(writeShards(t, shards), "m-00001-of-00003.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Tensors()) != 3 {
		t.Errorf("%d tensors", len(f.Tensors()))
	}
}
