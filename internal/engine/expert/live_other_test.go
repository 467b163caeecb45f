//go:build !linux

package expert

// The live test of a memory limit is for Linux.
const childEnv = "ASSAY_EXPERT_CHILD"

func child() int { return 0 }

// buffered is what reads are here.
func buffered(Reader) bool { return false }
