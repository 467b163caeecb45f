package kernel

import "assay/internal/engine/quant"

//go:noescape
func round32AVX512(x *float32, blocks int, to *byte)

//go:noescape
func round256AVX512(x *float32, blocks int, to *byte)

//go:noescape
func roundHalfAVX512(to, x *float32, n16 int)

func round32(to []byte, x []float32) {
	if level == AVX512 && len(x) >= 32 {
		round32AVX512(&x[0], len(x)/32, &to[0])
		return
	}
	round32Generic(to, x)
}

func round256(to []byte, x []float32) {
	if level == AVX512 && len(x) >= 256 {
		round256AVX512(&x[0], len(x)/256, &to[0])
		return
	}
	round256Generic(to, x)
}

// roundHalf rounds to half floats and back.
func roundHalf(to, x []float32) {
	done := 0
	if level == AVX512 && len(x) >= 16 {
		done = len(x) &^ 15
		_ = to[done-1]
		roundHalfAVX512(&to[0], &x[0], done/16)
	}
	for i, v := range x[done:] {
		to[done+i] = quant.FromHalf(quant.ToHalf(v))
	}
}
