package machine

import "golang.org/x/sys/cpu"

// The loops of loops_amd64.s. n is a multiple of 1024.

//go:noescape
func read512(p *byte, n int)

//go:noescape
func read256(p *byte, n int)

func dot512(rounds int)

func dot256(rounds int)

const dotRounds = 2500

var (
	has512, has256 = cpu.X86.HasAVX512F, cpu.X86.HasAVX2
	hasVNNI        = has512 && cpu.X86.HasAVX512VNNI

	readHow = choose(has512, "64-byte loads (AVX-512)", has256, "32-byte loads (AVX2)")
	dotHow  = choose(hasVNNI, "VPDPBUSD (AVX-512 VNNI)", has256, "VPMADDUBSW (AVX2)")
	dotOps  = dotOpsOf()
)

func choose(best bool, a string, good bool, b string) string {
	switch {
	case best:
		return a
	case good:
		return b
	}
	return "plain Go"
}

// dotOpsOf is how many operations one round of dot makes.
func dotOpsOf() float64 {
	switch {
	case hasVNNI:
		return 16 * 64 * 2
	case has256:
		return 8 * 32 * 2
	}
	return dotOpsGeneric
}

func read(b []byte) {
	switch {
	case has512:
		read512(&b[0], len(b))
	case has256:
		read256(&b[0], len(b))
	default:
		readGeneric(b)
	}
}

func dot(rounds int) {
	switch {
	case hasVNNI:
		dot512(rounds)
	case has256:
		dot256(rounds)
	default:
		dotGeneric(rounds)
	}
}
