package plan

import (
	"fmt"
	"strings"
	"time"
)

// Quantity is something that a guard watches.
type Quantity string

// The quantities, with their units and the direction in which they are bad.
const (
	MemoryAvailable Quantity = "memory_available" // bytes that can still be had, by the machine or by the target's cgroup; too few
	MemoryPressure  Quantity = "memory_pressure"  // % of the last 10 s in which all tasks waited for memory; too many
	IOPressure      Quantity = "io_pressure"      // % of the last 10 s in which all tasks waited for disks; too many
	GPUTemperature  Quantity = "gpu_temperature"  // °C of the hottest; too hot
	CPUTemperature  Quantity = "cpu_temperature"  // °C of the hottest; too hot
	SSDTemperature  Quantity = "ssd_temperature"  // °C of the hottest; too hot
	DiskFree        Quantity = "disk_free"        // bytes left where the rows go; too few
	RunTime         Quantity = "run_time"         // s since the run began; too long
)

// Quantities lists all of them.
var Quantities = []Quantity{
	MemoryAvailable, MemoryPressure, IOPressure, GPUTemperature, CPUTemperature, SSDTemperature, DiskFree, RunTime,
}

// TooLow says whether low values of the quantity are the bad ones.
func (q Quantity) TooLow() bool { return q == MemoryAvailable || q == DiskFree }

// Format writes a value of the quantity with its unit.
func (q Quantity) Format(v float64) string {
	switch q {
	case MemoryAvailable, DiskFree:
		return FormatBytes(v)
	case MemoryPressure, IOPressure:
		return trimFloat(v) + " %"
	case RunTime:
		return shortDuration(time.Duration(v * float64(time.Second)).Round(time.Millisecond))
	}
	return trimFloat(v) + " °C"
}

// Then is what follows when a limit has stopped a run.
type Then string

// What may follow. The target is stopped and the row written in both cases.
const (
	Next Then = "next" // go on with the next start; what this start had left is not run
	End  Then = "end"  // the plan ends
)

// Limit is one limit of the guard.
type Limit struct {
	Quantity Quantity      `json:"quantity"`
	Value    float64       `json:"value"` // in the quantity's unit; tripped beyond it, not at it
	For      time.Duration `json:"for"`   // how long the figure must stay beyond it
	Then     Then          `json:"then"`
}

// Beyond says whether v is on the bad side of the limit.
func (l Limit) Beyond(v float64) bool {
	if l.Quantity.TooLow() {
		return v < l.Value
	}
	return v > l.Value
}

// String is the limit in words: "memory_available under 512MiB for 2s".
func (l Limit) String() string {
	side := "over"
	if l.Quantity.TooLow() {
		side = "under"
	}
	s := fmt.Sprintf("%s %s %s", l.Quantity, side, l.Quantity.Format(l.Value))
	if l.For > 0 {
		s += " for " + shortDuration(l.For)
	}
	return s
}

// defaultFor is how long a quantity must stay beyond its limit where the plan
// does not say: pressure is a mean of ten seconds already, memory can go within
// a second, and a single temperature reading is often wrong.
var defaultFor = map[Quantity]time.Duration{
	MemoryPressure: 5 * time.Second,
	IOPressure:     5 * time.Second,
	GPUTemperature: 5 * time.Second,
	CPUTemperature: 5 * time.Second,
	SSDTemperature: 5 * time.Second,
}

// DefaultGuard keeps a machine alive that a plan says nothing about. A plan
// turns a limit off with "off".
func DefaultGuard() []Limit {
	return []Limit{
		{MemoryAvailable, 256 << 20, 0, End},
		{MemoryPressure, 50, defaultFor[MemoryPressure], End},
		{DiskFree, 256 << 20, 0, End},
	}
}

// Noise is how much of what disturbs a measurement the plan accepts before it
// starts. Nil and empty: anything, which is then told but refused by nobody.
type Noise struct {
	Load           *float64 `json:"load,omitempty"`            // load average of a minute
	CPU            *float64 `json:"cpu,omitempty"`             // processor time of all others, % of one processor
	BusyProcesses  *int     `json:"busy_processes,omitempty"`  // others that use more than a tenth of a processor each
	SwapUsed       *float64 `json:"swap_used,omitempty"`       // bytes
	Steal          *float64 `json:"steal,omitempty"`           // % of the processors' time that a hypervisor took away
	Governor       string   `json:"governor,omitempty"`        // that frequency scaling must have
	VirtualMachine string   `json:"virtual_machine,omitempty"` // allowed or refused
	Throttling     string   `json:"throttling,omitempty"`      // allowed or refused: a processor that has been slowed down for heat since it was started
}

// Requirement is a figure that a plan can demand. Doctor says whether the
// machine can give it.
type Requirement string

// What can be demanded.
const (
	RequireEnergy        Requirement = "energy" // any of the next three
	RequireGPUEnergy     Requirement = "gpu_energy"
	RequirePackageEnergy Requirement = "package_energy"
	RequireWallEnergy    Requirement = "wall_energy"
	RequirePressure      Requirement = "memory_pressure"
	RequireGPUMemory     Requirement = "gpu_memory"
	RequireTemperatures  Requirement = "temperatures"
	RequireDiskReads     Requirement = "disk_reads"
)

// Requirements lists them.
var Requirements = []Requirement{
	RequireEnergy, RequireGPUEnergy, RequirePackageEnergy, RequireWallEnergy,
	RequirePressure, RequireGPUMemory, RequireTemperatures, RequireDiskReads,
}

// Needs says whether the plan demands a figure.
func (p *Plan) Needs(r Requirement) bool {
	for _, s := range p.Require {
		if s == string(r) {
			return true
		}
	}
	return false
}

// join lists words for a message: "a, b and c".
func join[S ~string](words []S, last string) string {
	if len(words) == 0 {
		return ""
	}
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" " + last + " ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
