package machine

import (
	"context"
	"runtime"
	"testing"
)

// Every pass of a read gives a rate that memory can have: above what a disk
// gives, below what a cache does.
func TestRead(t *testing.T) {
	for _, huge := range []bool{false, true} {
		r, err := NewReader(64<<20+5, huge)
		if err != nil {
			t.Fatal(err)
		}
		for threads := 1; threads <= 2; threads++ {
			got := r.Read(context.Background(), threads, 3)
			if len(got.Passes) != 3 || got.Bytes != 64<<20 || got.How == "" {
				t.Errorf("%+v", got)
			}
			for _, v := range got.Passes {
				if v < 1e8 || v > 2e12 {
					t.Errorf("%d threads read %g bytes a second", threads, v)
				}
			}
			if runtime.GOOS == "linux" && !huge && got.Huge != 0 {
				t.Errorf("%d bytes in huge pages that were not wanted", got.Huge)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestArithmetic(t *testing.T) {
	got := Arithmetic(context.Background(), 1, 3)
	if len(got.Passes) != 3 || got.How == "" {
		t.Errorf("%+v", got)
	}
	for _, v := range got.Passes {
		if v < 1e7 || v > 1e14 {
			t.Errorf("%g operations a second", v)
		}
	}
}

// Nothing is measured once it was cancelled.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := Arithmetic(ctx, 1, 3); len(got.Passes) != 0 {
		t.Errorf("%+v", got)
	}
}

// The loops end where they should: read stays within a guarded buffer's bytes.
func TestLoops(t *testing.T) {
	b := make([]byte, chunk)
	read(b)
	readGeneric(b)
	dot(1)
	dotGeneric(1)
}
