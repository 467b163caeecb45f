package pool

import (
	"testing"
	"time"
)

// Who waits asks for all of what comes next, and not for what came before.
func TestAhead(t *testing.T) {
	p := New(2)
	defer p.Close()
	slow := func(chunk int) {
		if chunk == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	for _, n := range []int{1, aheadStep, 10*aheadStep + 7} {
		p.Ahead(make([]byte, n))
		p.Run(2, slow)
		if at := p.ahead.at.Load(); at < int64(n) {
			t.Errorf("of %d bytes only %d were asked for", n, at)
		}
	}
	p.Ahead(nil)
	p.Run(2, slow)
	if at := p.ahead.at.Load(); at != 0 {
		t.Errorf("%d bytes of nothing were asked for", at)
	}
}
