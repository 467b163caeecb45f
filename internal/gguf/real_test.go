package gguf_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/gguf"
	"assay/models/seedling"
)

// Files that other programs made are read whole, and their tensors fill them:
// nothing but alignment lies between the end of the header and the file's end.
func TestRealFiles(t *testing.T) {
	for _, pattern := range []string{
		"../../models/seedling/*.gguf",
		"../../models/seedling/formats/*.gguf",
		"../../../shared/models/arch/models/*.gguf",
		"../../../shared/data/vocab/*.gguf",
	} {
		t.Run(filepath.ToSlash(filepath.Dir(pattern)), func(t *testing.T) {
			paths, err := filepath.Glob(pattern)
			if err != nil || len(paths) == 0 {
				t.Skipf("no files %s in this checkout (%v)", pattern, err)
			}
			for _, path := range paths {
				f, err := gguf.Open(path)
				if err != nil {
					t.Error(err)
					continue
				}
				use(t, f, int(f.Size()))
				if arch, err := f.String("general.architecture"); err != nil || arch == "" {
					t.Errorf("%s: architecture %q, %v", path, arch, err)
				}
				s := f.Stats()
				if s.Tensors > 0 {
					padding := uint64(f.Size()) - f.Tensors()[0].Offset - s.Bytes
					if s.Unknown > 0 || padding >= uint64(32*(s.Tensors+1)) {
						t.Errorf("%s: %d bytes are no tensor's, %d types unknown", path, padding, s.Unknown)
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The built-in model, as the commands open it.
func TestBuiltin(t *testing.T) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil || len(tokens) != 4096 || tokens[0] != "!" || tokens[4095] != "<|im_end|>" {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
	x, ok := f.Tensor("token_embd.weight")
	if !ok || x.Type != gguf.IQ3_S || x.Dims[0] != 256 || x.Dims[1] != 4096 || x.RowBytes() != 110 || len(x.Data()) != 4096*110 {
		t.Errorf("%+v", x)
	}
	if bpw, ok := f.Stats().BitsPerWeight(); !ok || bpw < 3.6 || bpw > 3.8 {
		t.Errorf("%.2f bits per weight", bpw)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// Ids and block sizes are those that llama.cpp's own quantiser wrote.
func TestTypesAgainstReference(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/models/quant/*.json")
	if err != nil || len(paths) == 0 {
		t.Skipf("no ../shared/models/quant beside this checkout (%v)", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var ref struct {
			Type     string `json:"type"`
			ID       uint32 `json:"type_id"`
			Elements int    `json:"block_elements"`
			Bytes    int    `json:"block_bytes"`
		}
		if err := json.Unmarshal(data, &ref); err != nil {
			t.Fatal(err)
		}
		typ := gguf.Type(ref.ID)
		if e, b := typ.Block(); typ.String() != ref.Type || e != ref.Elements || b != ref.Bytes {
			t.Errorf("%s (%d): have %s with %d elements in %d bytes, want %d in %d", ref.Type, ref.ID, typ, e, b, ref.Elements, ref.Bytes)
		}
	}
}

// The numbers that ggml gave to types and later took out are unknown.
func TestUnknownTypes(t *testing.T) {
	for _, id := range []gguf.Type{4, 5, 31, 32, 33, 36, 37, 38, 43, 1 << 31} {
		if e, b := id.Block(); id.Known() || e != 0 || b != 0 {
			t.Errorf("%d is known as %s", uint32(id), id)
		}
	}
}
