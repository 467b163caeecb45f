package pool

// pause tells the processor n times that this is a spin loop. n is at least 1.
//
//go:noescape
func pause(n int)

// prefetch asks for n bytes from p + off, for the second-level cache. They need not be
// there.
//
//go:noescape
func prefetch(p *byte, off, n int64)
