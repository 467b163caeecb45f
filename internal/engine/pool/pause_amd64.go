package pool

// pause tells the processor n times that this is a spin loop. n is at least 1.
//
//go:noescape
func pause(n int)
