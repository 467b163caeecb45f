package quant

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// Blocks of every format with the values that ggml decodes them to. They are test
// data of this machine, not of the repository.
const vectorDir = "../../../../shared/models/quant"

func TestDecodesAsGGML(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("the vectors are not on this machine: %s is empty", vectorDir)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			type vector struct{ Name, Blocks, Decoded string }
			var v struct {
				Type   uint32 `json:"type_id"`
				Rows   []vector
				Random vector  `json:"random_blocks"`
				Every  *vector `json:"every_scale_byte"`
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			typ := gguf.Type(v.Type)
			if !Supported(typ) {
				t.Fatalf("%v can't be decoded", typ)
			}
			all := append(v.Rows, v.Random)
			if v.Every != nil {
				all = append(all, *v.Every)
			}
			values := 0
			for i, x := range all {
				blocks, err := hex.DecodeString(x.Blocks)
				if err != nil {
					t.Fatal(err)
				}
				bytes, err := base64.StdEncoding.DecodeString(x.Decoded)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]float32, len(bytes)/4)
				Decode(typ, got, blocks)
				for k, g := range got {
					want := math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*k:]))
					if g != want && !(math.IsNaN(float64(g)) && math.IsNaN(float64(want))) {
						t.Fatalf("row %d %s, value %d: %v, want %v", i, x.Name, k, g, want)
					}
				}
				values += len(got)
			}
			if values < 8*512 {
				t.Errorf("only %d values", values)
			}
		})
	}
}
