// Package kernel multiplies weights by activations, fast. It follows the order
// of accumulation that package quant defines, bit for bit, for every batch,
// every cut of the rows among threads and every level of SIMD.
//
// Where there is assembly for a format, its weights are repacked at load into
// panels of 16 rows (see layout.go): one 32-bit lane of a register is one row,
// its four bytes are four weights that follow each other, and the four bytes of
// activations are broadcast to all lanes. So no sum ever crosses lanes, and one
// panel serves 1 token and 512.
package kernel

import (
	"fmt"
	"os"
)

//go:generate go run ./gen

// Level is a set of instructions that kernels may use.
type Level uint8

// The levels, each holding those before it.
const (
	None   Level = iota // plain Go
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F, BW, VL and VNNI
	AMX                 // AMX-INT8: many tokens by tiles, all else as AVX512
)

func (l Level) String() string { return [...]string{"none", "avx2", "avx512", "amx"}[l] }

var (
	best             = detect()
	active, levelErr = choose(os.Getenv("ASSAY_SIMD"), best)
	level            = active.vectors()
)

// vectors is the level of all kernels but those that AMX has of its own.
func (l Level) vectors() Level { return min(l, AVX512) }

func choose(name string, best Level) (Level, error) {
	if name == "" {
		return best, nil
	}
	for l := None; l <= AMX; l++ {
		if l.String() != name {
			continue
		}
		if l > best {
			return best, fmt.Errorf("ASSAY_SIMD=%s: this processor only has %s", name, best)
		}
		return l, nil
	}
	return best, fmt.Errorf("ASSAY_SIMD=%s: want none, avx2, avx512 or amx", name)
}

// Active is the level in use: the best that the processor has, or the one that
// ASSAY_SIMD asks for; that one's error, if it can't be had.
func Active() (Level, error) { return active, levelErr }

// Levels are those that this processor has, None first.
func Levels() []Level {
	var all []Level
	for l := None; l <= best; l++ {
		all = append(all, l)
	}
	return all
}

// Use sets the level for matrices and activations that are made from now on,
// and returns the one before. It is for tests and for comparing levels; nothing
// may compute meanwhile.
func Use(l Level) Level {
	if l > best {
		panic("kernel: this processor has no " + l.String())
	}
	before := active
	active, level = l, l.vectors()
	return before
}
