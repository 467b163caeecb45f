package kernel

import "assay/internal/gguf"

// packFunc packs 16 rows from src on, of rowBytes bytes and nb blocks each, into
// the panel at dst. It writes all of the panel, but for the room of the second block's
// scales where the last pair has only one.
type packFunc func(dst, src *byte, rowBytes, nb int)

var packFuncs = [...]map[gguf.Type]packFunc{
	None: nil,
	AVX2: {
		gguf.Q8_0: packQ8AVX2, gguf.Q5_0: packQ5AVX2, gguf.Q4_0: packNibbles32AVX2, gguf.IQ4_NL: packNibbles32AVX2, gguf.MXFP4: packMXFP4AVX2,
		gguf.Q2_K: packQ2KAVX2, gguf.Q3_K: packQ3KAVX2, gguf.Q4_K: packQ4KAVX2, gguf.Q5_K: packQ5KAVX2, gguf.Q6_K: packQ6KAVX2,
		gguf.IQ3_XXS: packIQ3XXSAVX2, gguf.IQ3_S: packIQ3SAVX2, gguf.IQ4_XS: packIQ4XSAVX2,
	},
	AVX512: {
		gguf.Q8_0: packQ8AVX512, gguf.Q5_0: packQ5AVX512, gguf.Q4_0: packNibbles32AVX512, gguf.IQ4_NL: packNibbles32AVX512, gguf.MXFP4: packMXFP4AVX512,
		gguf.Q2_K: packQ2KAVX512, gguf.Q3_K: packQ3KAVX512, gguf.Q4_K: packQ4KAVX512, gguf.Q5_K: packQ5KAVX512, gguf.Q6_K: packQ6KAVX512,
		gguf.IQ3_XXS: packIQ3XXSAVX512, gguf.IQ3_S: packIQ3SAVX512, gguf.IQ4_XS: packIQ4XSAVX512,
	},
}

// iq3sBytes are three tables of 256 bytes that hold iq3sNibbles without the fourth bits,
// which are all 1: values 0 and 1 of entry i, those of entry 256+i, and value 2 of both.
// A nibble's fourth bit is a bit of value 3: its lowest with value 0, then 1, then 2.
//
//lint:ignore U1000 only packIQ3SVBMI reads it
var iq3sBytes = func() (t [3 * 256]byte) {
	for i, n := range iq3sNibbles {
		value := func(j int) uint32 { return n>>(8*j)&7 | n>>(24+j)&1<<3 }
		t[i] = byte(value(0) | value(1)<<4)
		t[512+i%256] |= byte(value(2) << (i / 256 * 4))
	}
	return
}()

// packRows packs the 16 rows of src by assembly; false: there is none.
func (m *Matrix) packRows(dst, src []byte) bool {
	f := packFuncs[level][m.Type]
	if m.Type == gguf.IQ3_S && level == AVX512 && hasVBMI {
		f = packIQ3SVBMI
	}
	if f == nil {
		return false
	}
	nb := m.Cols / m.layout.elements
	if m.layout.elements == 32 && nb%2 == 1 {
		scales, lines := m.layout.at(nb - 1)
		clear(dst[scales+32 : lines])
	}
	_ = src[PanelRows*m.rowBytes-1]
	f(&dst[0], &src[0], m.rowBytes, nb)
	return true
}
