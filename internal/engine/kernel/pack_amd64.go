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

// packRows packs the 16 rows of src by assembly; false: there is none.
func (m *Matrix) packRows(dst, src []byte) bool {
	f := packFuncs[level][m.Type]
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
