// Package guard watches the machine while a run is measured, and has the run
// stopped before it does harm: memory, pressure, temperatures, disk, time.
//
// The decision is a pure function of readings (Judge), so that it can be made
// again from what was kept. The watch around it (Watch) never makes the
// measurement wait: readings are taken beside it, one that hangs is passed over
// with the clock still running, and the stop is the caller's own.
//
// A figure that can't be read trips nothing: the report names it, with the
// reason, so that no one believes it was watched.
package guard

import (
	"fmt"
	"time"

	"assay/internal/kit/plan"
)

// Reading is what was read at one moment. A quantity is in Values, in its own
// unit, or in Why.
type Reading struct {
	At     time.Duration             `json:"at"` // since the watch began, by the monotonic clock
	Values map[plan.Quantity]float64 `json:"values"`
	Why    map[plan.Quantity]string  `json:"why,omitempty"`
}

// Trip is a limit that was reached, with the figures.
type Trip struct {
	Limit    plan.Limit    `json:"limit"`
	Value    float64       `json:"value"`    // the reading that decided it
	Worst    float64       `json:"worst"`    // the furthest beyond the limit of those that count
	Since    time.Duration `json:"since"`    // At of the first of them
	At       time.Duration `json:"at"`       // At of the last
	Readings int           `json:"readings"` // how many they are
}

// String says what happened: "memory_available was 100MiB, under the limit of
// 256MiB; beyond it from 12s on, in 3 readings, 90MiB at worst".
func (t Trip) String() string {
	q := t.Limit.Quantity
	if q == plan.RunTime {
		return fmt.Sprintf("the run took %s, over the limit of %s", q.Format(t.Value), q.Format(t.Limit.Value))
	}
	side := "over"
	if q.TooLow() {
		side = "under"
	}
	s := fmt.Sprintf("%s was %s, %s the limit of %s", q, q.Format(t.Value), side, q.Format(t.Limit.Value))
	if t.Readings > 1 {
		s += fmt.Sprintf("; beyond it from %v on, in %d readings, %s at worst", t.Since.Round(time.Millisecond), t.Readings, q.Format(t.Worst))
	}
	return s
}

// Judge decides, reading by reading. Readings come in the order of their time.
type Judge struct {
	limits []plan.Limit
	beyond []Trip // of each limit, the readings in a row beyond it; Readings 0: none
}

// NewJudge returns a judge that has seen nothing.
func NewJudge(limits []plan.Limit) *Judge {
	return &Judge{limits: limits, beyond: make([]Trip, len(limits))}
}

// See takes one reading and says whether a limit has been reached: beyond it in
// every reading for as long as the limit says. A reading without the figure
// neither counts nor breaks the row. Of several limits, one that ends the plan
// goes before one that does not, and then the first of the plan.
//
// The time of the run needs no reading: it is the reading's own.
func (j *Judge) See(r Reading) (Trip, bool) {
	best := -1
	for i, l := range j.limits {
		v, ok := r.Values[l.Quantity]
		if l.Quantity == plan.RunTime {
			v, ok = r.At.Seconds(), true
		}
		if !ok {
			continue
		}
		if !l.Beyond(v) {
			j.beyond[i].Readings = 0
			continue
		}
		t := &j.beyond[i]
		if t.Readings == 0 {
			*t = Trip{Limit: l, Worst: v, Since: r.At}
		}
		t.Value, t.At = v, r.At
		t.Readings++
		if l.Quantity.TooLow() {
			t.Worst = min(t.Worst, v)
		} else {
			t.Worst = max(t.Worst, v)
		}
		if t.At-t.Since >= l.For && (best < 0 || l.Then == plan.End && j.limits[best].Then != plan.End) {
			best = i
		}
	}
	if best < 0 {
		return Trip{}, false
	}
	return j.beyond[best], true
}

// First is the first limit that a series of readings reaches, nil when none is.
func First(limits []plan.Limit, readings []Reading) *Trip {
	j := NewJudge(limits)
	for _, r := range readings {
		if t, tripped := j.See(r); tripped {
			return &t
		}
	}
	return nil
}
