// Package modelfile knows the files of a model that a target loads: which they
// are, and their sha256, by which a row says what was measured. Hashing a large
// model takes minutes, so sums are kept from one call to the next, for as long as
// a file is the same: of the same size, the same times of change, and the same
// inode.
package modelfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"assay/internal/gguf"
)

// Files are the files of a model by the name of its first: all shards of a split
// GGUF model, else the file itself, of whatever format. A file that is called .gguf
// must be one.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a file (want the model's file, of a split model the first)", path)
	}
	is, err := IsGGUF(path)
	if err != nil || !is && !strings.EqualFold(filepath.Ext(path), ".gguf") {
		return []string{path}, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for _, shard := range f.Shards() {
		out = append(out, shard.Path)
	}
	return out, nil
}

// Size is the size in bytes of all of a model's files.
func Size(path string) (int64, error) {
	files, err := Files(path)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

// IsGGUF says whether a file begins as GGUF files do.
func IsGGUF(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return string(magic[:]) == "GGUF", err
}

// Options are how files are hashed. The zero value keeps nothing and tells
// nobody.
type Options struct {
	Dir string // folder of the sums that are kept, see CacheDir; empty: none are
	// Progress is told of the bytes that were read, of all that have to be; nil: nobody
	// listens.
	Progress func(done, total int64)
}

// Sums are the sha256 of a model's files in lower-case hex, numbered from "1". An
// error names the file. Sums that can't be kept are no error: they are computed
// again next time.
func Sums(ctx context.Context, files []string, o Options) (map[string]string, error) {
	known := make([]string, len(files))
	before := make([]stamp, len(files))
	var left, done int64
	for i, file := range files {
		var err error
		if before[i], err = stampOf(file); err != nil {
			return nil, err
		}
		if known[i] = o.recall(before[i]); known[i] == "" {
			left += before[i].Size
		}
	}
	out := map[string]string{}
	for i, file := range files {
		if known[i] == "" {
			sum, err := hash(ctx, file, func(n int64) {
				if done += n; o.Progress != nil {
					o.Progress(done, left)
				}
			})
			if err != nil {
				return nil, err
			}
			after, err := stampOf(file)
			if err != nil {
				return nil, err
			}
			if after != before[i] {
				return nil, fmt.Errorf("%s: it was changed while it was read", file)
			}
			o.keep(after, sum)
			known[i] = sum
		}
		out[strconv.Itoa(i+1)] = known[i]
	}
	return out, nil
}

// hash reads a file to its end, and tells of each piece.
func hash(ctx context.Context, path string, read func(n int64)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 4<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		read(int64(n))
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// young is the age under which a file's times say nothing: it may be written to
// again within the same tick of the file system's clock.
const young = 2 * time.Second
