// Package telemetry watches the machine around a run: energy and power, memory,
// pressure, temperatures, disks, what else runs, and the kit itself.
//
// A Recorder reads every source at its own rate, below a root that is "/" but in
// tests. Its Record is evidence. Figures are pure functions of it (Compute), so
// they can be computed again; integrals are taken in one place (integrate.go).
//
// A figure is a value with its unit, source, number of readings, longest gap and
// coverage. What is missing is nil with a reason and never zero.
package telemetry
