package stream

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// calm keeps Go's runtime from making readers wait: its own threads are ordinary
// ones, which may be a long time without a processor where an engine keeps all of
// them busy, while a reader waits for what they hold.
var calm struct {
	sync.Mutex
	streams   int
	gcPercent int
	limit     int64
}

// calmHeap is what streams may add to the heap before the collector runs all the same.
const calmHeap = 512 << 20

// calmly stops garbage collection until the last of those who called it ends that,
// and sees to it that a reader never waits for one of the scheduler's turns (Ps),
// which a thread that the kernel has put aside may hold.
func calmly() (end func()) {
	calm.Lock()
	defer calm.Unlock()
	if calm.streams++; calm.streams == 1 {
		runtime.GC() // what came before is not the stream's burden
		heap := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		metrics.Read(heap)
		calm.gcPercent = debug.SetGCPercent(-1)
		calm.limit = debug.SetMemoryLimit(-1)
		debug.SetMemoryLimit(min(calm.limit, int64(heap[0].Value.Uint64())+calmHeap))
	}
	if n := runtime.NumCPU() + 4 + calm.streams; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	return func() {
		calm.Lock()
		defer calm.Unlock()
		if calm.streams--; calm.streams == 0 {
			debug.SetGCPercent(calm.gcPercent)
			debug.SetMemoryLimit(calm.limit)
		}
	}
}
