package expert

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A reader's thread asks for the shortest slice, and keeps its policy and niceness.
func TestHurry(t *testing.T) {
	done := make(chan error)
	var before, after *unix.SchedAttr
	go func() { // its thread ends with it
		runtime.LockOSThread()
		var err error
		if before, err = unix.SchedGetAttr(0, 0); err == nil {
			hurry()
			after, err = unix.SchedGetAttr(0, 0)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skipf("the scheduler doesn't tell: %v", err)
	}
	if after.Policy != before.Policy || after.Nice != before.Nice {
		t.Errorf("policy %d, nice %d; they were %d and %d", after.Policy, after.Nice, before.Policy, before.Nice)
	}
	if before.Runtime == 0 { // Linux before 6.12 tells of no slice
		return
	}
	if after.Runtime != uint64(slice) {
		t.Errorf("a slice of %d ns; it was %d, and %d was asked for", after.Runtime, before.Runtime, uint64(slice))
	}
}
