//go:build !amd64

package kernel

import "assay/internal/engine/quant"

func round32(to []byte, x []float32)  { round32Generic(to, x) }
func round256(to []byte, x []float32) { round256Generic(to, x) }

func roundHalf(to, x []float32) {
	for i, v := range x {
		to[i] = quant.FromHalf(quant.ToHalf(v))
	}
}
