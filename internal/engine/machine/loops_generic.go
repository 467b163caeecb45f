package machine

import (
	"encoding/binary"
	"sync/atomic"
)

// sink keeps the compiler from leaving a loop out whose result nobody needs.
var sink atomic.Uint64

// readGeneric is the loop where there is no assembly: 8 bytes a load.
func readGeneric(b []byte) {
	var x, y uint64
	for ; len(b) >= 64; b = b[64:] {
		x += binary.LittleEndian.Uint64(b) + binary.LittleEndian.Uint64(b[8:]) + binary.LittleEndian.Uint64(b[16:]) + binary.LittleEndian.Uint64(b[24:])
		y += binary.LittleEndian.Uint64(b[32:]) + binary.LittleEndian.Uint64(b[40:]) + binary.LittleEndian.Uint64(b[48:]) + binary.LittleEndian.Uint64(b[56:])
	}
	sink.Store(x + y)
}

// dotOpsGeneric is how many operations one round of dotGeneric makes.
const dotOpsGeneric = 4 * 2

func dotGeneric(rounds int) {
	a, b, c, d := int32(1), int32(2), int32(3), int32(4)
	w := int32(sink.Load() & 127)
	for i := range int32(rounds) {
		x := i & 127
		a, b, c, d = a+w*x, b+w*(x^1), c+w*(x^2), d+w*(x^3)
	}
	sink.Store(uint64(a + b + c + d))
}
