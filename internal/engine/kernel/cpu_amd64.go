package kernel

//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

//go:noescape
func xgetbv() uint32

// detect is the best level whose every instruction this processor and operating
// system have. AVX-512 kernels use F, BW, VL and VNNI, AVX2 ones AVX2, FMA, F16C
// and POPCNT, AMX ones AMX-TILE and AMX-INT8.
func detect() Level {
	bits := func(have, want uint32) bool { return have&want == want }
	if n, _, _, _ := cpuid(0, 0); n < 7 {
		return None
	}
	const fma, popcnt, osxsave, avx, f16c = 1 << 12, 1 << 23, 1 << 27, 1 << 28, 1 << 29
	if _, _, c, _ := cpuid(1, 0); !bits(c, fma|popcnt|osxsave|avx|f16c) {
		return None
	}
	_, b, c, d := cpuid(7, 0)
	const sseAVX, opmaskZMM, tiles = 0x06, 0xe0, 0x60000 // registers that the system keeps
	const amxTile, amxInt8 = 1 << 24, 1 << 25
	const avx2, f, bw, vl, vnni = 1 << 5, 1 << 16, 1 << 30, 1 << 31, 1 << 11
	switch kept := xgetbv(); {
	case !bits(kept, sseAVX) || !bits(b, avx2):
		return None
	case !bits(kept, opmaskZMM) || !bits(b, f|bw|vl) || !bits(c, vnni):
		return AVX2
	case bits(kept, tiles) && bits(d, amxTile|amxInt8) && fitsTiles() && mayUseTiles():
		return AMX
	}
	return AVX512
}

// fitsTiles says whether the processor's first palette has tiles as the kernels want
// them, eight of 16 lines of 64 bytes.
func fitsTiles() bool {
	if n, _, _, _ := cpuid(0x1d, 0); n < 1 {
		return false
	}
	_, b, c, _ := cpuid(0x1d, 1)
	return b == 8<<16|64 && c == 16
}

// hasVBMI says whether there are AVX512_VBMI (permutations of bytes) and GFNI too,
// which some kernels of level AVX512 are better with.
var hasVBMI = best >= AVX512 && detectVBMI()

func detectVBMI() bool {
	const vbmi, gfni = 1 << 1, 1 << 8
	_, _, c, _ := cpuid(7, 0)
	return c&(vbmi|gfni) == vbmi|gfni
}
