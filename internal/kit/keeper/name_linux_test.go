package keeper

import (
	"sync"
	"testing"
)

// However many start and end at once, nobody takes the cgroup of another for its own:
// a program that sleeps is killed by nothing but its own Stop.
func TestCgroupsAreNotMixedUp(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 12 {
				p, err := Start(Command{Argv: []string{"sleep", "0.02"}})
				if err != nil {
					t.Error(err)
					return
				}
				<-p.Done()
				if !p.Clean() {
					t.Errorf("it ended by %s", p.Ending())
				}
			}
		})
	}
	all.Wait()
}
