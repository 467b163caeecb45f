// Package nvml is what the program assay-nvml says to its reader: lines of JSON
// on its standard output. The program is apart because NVIDIA's library has to
// be loaded at run time, which a static binary can't do.
//
// The first line is a Hello, or a Hello that has nothing but Error. After it
// comes one Tick a period. A newline on the program's standard input asks for a
// Tick at once, and the end of that input ends the program, so it never outlives
// its reader.
package nvml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Protocol is the version of these lines.
const Protocol = 1

// Hello is the first line.
type Hello struct {
	Protocol int    `json:"assay_nvml"`
	Library  string `json:"library,omitempty"`
	Driver   string `json:"driver,omitempty"`
	GPUs     []GPU  `json:"gpus,omitempty"`
	Error    string `json:"error,omitempty"` // why there will be no ticks
}

// GPU is one board.
type GPU struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
}

// Tick is one reading of all boards.
type Tick struct {
	// MonoNS is the monotonic clock of the machine at the moment of reading, which
	// a reader on the same machine shares; 0 where there is none.
	MonoNS int64     `json:"mono_ns"`
	GPUs   []Reading `json:"gpus"`
}

// Reading is one board at one moment. What was not read is null, and Why says
// why under the field's JSON name; what is read less often than each tick is
// null without a reason in between.
type Reading struct {
	Index     int               `json:"index"`
	EnergyMJ  *float64          `json:"energy_mj,omitempty"`
	InstantMW *float64          `json:"instant_mw,omitempty"` // at the moment
	PowerMW   *float64          `json:"power_mw,omitempty"`   // mean of a second on most boards since Ampere
	MemUsed   *float64          `json:"mem_used,omitempty"`   // bytes
	TempC     *float64          `json:"temp_c,omitempty"`
	SMMHz     *float64          `json:"sm_mhz,omitempty"`
	MemMHz    *float64          `json:"mem_mhz,omitempty"`
	Throttle  *uint64           `json:"throttle,omitempty"`
	LimitMW   *float64          `json:"limit_mw,omitempty"`
	BusyPct   *float64          `json:"busy_pct,omitempty"`
	Procs     []Proc            `json:"procs,omitempty"`
	HasProcs  bool              `json:"has_procs,omitempty"` // Procs was read, even if it is empty
	Why       map[string]string `json:"why,omitempty"`
}

// Proc is a process that uses the board.
type Proc struct {
	PID   int      `json:"pid"`
	Bytes *float64 `json:"bytes"` // null: the driver does not tell
}

// ParseHello reads the first line.
func ParseHello(line []byte) (*Hello, error) {
	h := new(Hello)
	if err := decode(line, h); err != nil {
		return nil, err
	}
	switch {
	case h.Protocol != Protocol:
		return nil, fmt.Errorf("assay-nvml speaks protocol %d, want %d: install both programs from one release", h.Protocol, Protocol)
	case h.Error == "" && len(h.GPUs) == 0:
		return nil, errors.New("assay-nvml names no GPU and no error")
	}
	seen := map[int]bool{}
	for _, g := range h.GPUs {
		if g.Index < 0 || seen[g.Index] {
			return nil, fmt.Errorf("assay-nvml: gpus: index %d comes twice or is negative", g.Index)
		}
		seen[g.Index] = true
	}
	return h, nil
}

// ParseTick reads a line after the first.
func ParseTick(line []byte) (*Tick, error) {
	t := new(Tick)
	if err := decode(line, t); err != nil {
		return nil, err
	}
	if t.MonoNS < 0 {
		return nil, fmt.Errorf("assay-nvml: mono_ns is %d", t.MonoNS)
	}
	for i := range t.GPUs {
		g := &t.GPUs[i]
		for _, f := range []struct {
			name string
			v    **float64
		}{
			{"energy_mj", &g.EnergyMJ},
			{"instant_mw", &g.InstantMW},
			{"power_mw", &g.PowerMW},
			{"mem_used", &g.MemUsed},
			{"sm_mhz", &g.SMMHz},
			{"mem_mhz", &g.MemMHz},
			{"limit_mw", &g.LimitMW},
			{"busy_pct", &g.BusyPct},
		} {
			if *f.v != nil && (**f.v < 0 || math.IsInf(**f.v, 0)) {
				return nil, fmt.Errorf("assay-nvml: gpu %d: %s is %g", g.Index, f.name, **f.v)
			}
		}
	}
	return t, nil
}

func decode(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("assay-nvml: %w", err)
	}
	if d.More() {
		return errors.New("assay-nvml: more than one object in a line")
	}
	return nil
}
