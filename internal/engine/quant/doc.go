// Package quant is the plain-Go truth about number formats: how the blocks of
// GGUF tensors are decoded, how activations are rounded before they meet them,
// and in which order a dot product accumulates. It is written to be read, not
// to be fast; every kernel must give the same bits (kernel's tests compare).
//
// The order of accumulation is part of a format. Each multiply, add and
// subtract rounds to float32 on its own (never fused), and blocks come in
// order:
//
//	F32, F16, BF16  64 partial sums, k modulo 64, then folded (DotF32)
//	Q4_1, Q5_1, IQ1_*, IQ2_*, TQ*, NVFP4 and what else is rare
//	                decoded to float32, then as F32
//	Q8_0, Q4_0, Q5_0, IQ4_NL, MXFP4
//	                per 32:  acc = acc + isum*(dw*dx)                 isum: exact int32
//	Q2_K, Q4_K, Q5_K
//	                per 256: acc = acc + (isum*(dw*dx) - imin*(mw*dx))  isum = sum of scale*dot, imin = sum of min*sum(x)
//	Q3_K, Q6_K, IQ3_XXS, IQ3_S, IQ4_XS
//	                per 256: acc = acc + isum*(dw*dx)                 isum = sum of scale*dot
//
// IQ3_XXS's dw is a quarter of the block's d, its scale 2s+1.
//
// Activations are rounded as ggml rounds them: to F16 or BF16 for weights of
// that format, to 8-bit blocks of 32 (Q8_0) or 256 (Q8_K) for quantised ones; for
// those that are decoded first, not at all.
//
// Attention is apart from that: its products are added by FMA, see Look.Attend.
package quant
