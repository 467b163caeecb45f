package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Packing reads nothing behind the rows and writes nothing behind the panels.
func TestPackStaysInside(t *testing.T) {
	atEachPacking(t, func(t *testing.T) {
		for _, typ := range quantFormats {
			if !Packs(typ) {
				continue
			}
			const rows = 32
			cols := 512
			if elements, _ := typ.Block(); elements == 32 {
				cols = 7 * 32
			}
			data := randomRows(rand.New(rand.NewPCG(9, uint64(typ))), typ, rows, cols)
			want := packed(typ, rows, cols, data)
			m := NewPanels(typ, rows, cols, atPageEnd(t, make([]byte, len(want))))
			m.Pack(atPageEnd(t, data), 0)
			if !bytes.Equal(m.data, want) {
				t.Errorf("%s: panels differ", typ)
			}
		}
	})
}
