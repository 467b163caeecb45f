package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"assay/internal/gguf"
)

// packed are panels as pack.go makes them, row by row.
func packed(t gguf.Type, rows, cols int, data []byte) []byte {
	m := NewPanels(t, rows, cols, aligned(PanelBytes(t, rows, cols)))
	for r := range rows {
		m.layout.pack(m.layout, m.data[r/PanelRows*m.panel:][:m.panel], data[r*m.rowBytes:][:m.rowBytes], r%PanelRows)
	}
	return m.data
}

// atEachPacking is atEachLevel, and the best level once more without VBMI.
func atEachPacking(t *testing.T, f func(t *testing.T)) {
	atEachLevel(t, f)
	if hasVBMI {
		t.Run("without VBMI", func(t *testing.T) {
			hasVBMI = false
			defer func() { hasVBMI = true }()
			f(t)
		})
	}
}

// Assembly makes the panels that pack.go makes, of any number of rows and blocks, at
// any address, whatever the memory held before.
func TestPackHasTheBytesOfPlainPacking(t *testing.T) {
	atEachPacking(t, func(t *testing.T) {
		for _, typ := range quantFormats {
			if !Packs(typ) {
				continue
			}
			widths := []int{256, 512, 1280}
			if elements, _ := typ.Block(); elements == 32 {
				widths = []int{32, 64, 96, 512, 544}
			}
			for _, cols := range widths {
				for _, rows := range []int{1, 15, 16, 33, 64} {
					r := rand.New(rand.NewPCG(uint64(cols), uint64(rows)))
					data := randomRows(r, typ, rows, cols)
					want := packed(typ, rows, cols, data)
					src := append(make([]byte, 1+r.IntN(64)), data...)
					src = src[len(src)-len(data):]
					m := NewPanels(typ, rows, cols, aligned(PanelBytes(typ, rows, cols)))
					for i := range m.data {
						m.data[i] = byte(r.Uint32())
					}
					m.Pack(src, 0)
					for i, w := range want {
						if g := m.data[i]; g != w {
							t.Fatalf("%s, %d x %d: byte %d of panel %d is %#x, want %#x", typ, rows, cols, i%m.panel, i/m.panel, g, w)
						}
					}
				}
			}
		}
	})
}

// Packing by parts is packing at once.
func TestPackByParts(t *testing.T) {
	atEachPacking(t, func(t *testing.T) {
		const rows, cols = 70, 512
		for _, typ := range quantFormats {
			if !Packs(typ) {
				continue
			}
			data := randomRows(rand.New(rand.NewPCG(3, 4)), typ, rows, cols)
			m := NewPanels(typ, rows, cols, aligned(PanelBytes(typ, rows, cols)))
			m.Pack(data[48*m.rowBytes:], 3)
			m.Pack(data[:16*m.rowBytes], 0)
			m.Pack(data[16*m.rowBytes:48*m.rowBytes], 1)
			if want := packed(typ, rows, cols, data); !bytes.Equal(m.data, want) {
				t.Errorf("%s: panels packed in three parts differ", typ)
			}
		}
	})
}

// BenchmarkPack repacks the matrix of an expert, within the second-level cache.
func BenchmarkPack(b *testing.B) {
	for _, typ := range quantFormats {
		b.Run(typ.String(), func(b *testing.B) {
			if !Packs(typ) {
				b.Skip("no panels at this level")
			}
			const rows, cols = 512, 1024
			data := randomRows(rand.New(rand.NewPCG(6, 7)), typ, rows, cols)
			m := NewPanels(typ, rows, cols, aligned(PanelBytes(typ, rows, cols)))
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				m.Pack(data, 0)
			}
		})
	}
}
