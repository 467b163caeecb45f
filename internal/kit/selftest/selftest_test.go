package selftest

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	o := ownServer(t)
	o.Levels = []Level{{1, 200}, {3, 100}}
	o.Window, o.TTFT = 500*time.Millisecond, 100*time.Millisecond
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(os.Stdout)
	for _, l := range rep.Levels {
		e.Encode(l)
	}
	for _, l := range rep.Hostile {
		e.Encode(l)
	}
	e.Encode(rep)
}
