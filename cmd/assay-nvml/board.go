package main

import (
	"encoding/binary"
	"math"

	"assay/internal/kit/telemetry/nvml"
)

// Numbers of NVIDIA's nvml.h.
const (
	fieldPowerInstant = 186
	sensorGPU         = 0 // NVML_TEMPERATURE_GPU
	clockSM           = 1
	clockMem          = 2
	notAvailable      = math.MaxUint64 // NVML_VALUE_NOT_AVAILABLE
	mostProcesses     = 1024
)

// The kinds of a field's value.
const (
	kindDouble = iota
	kindUint
	kindUlong
	kindUlonglong
	kindLonglong
	kindInt
)

// board is one GPU.
type board struct {
	lib    *library
	index  int
	handle handle
	lost   string // why it has no handle
}

// fields of a reading, by their names in JSON.
var everyField = []string{"energy_mj", "instant_mw", "power_mw", "mem_used", "temp_c", "sm_mhz", "mem_mhz", "throttle", "limit_mw", "busy_pct", "procs"}

// read takes one reading; all says whether the slow half is read as well.
func (b *board) read(all bool) nvml.Reading {
	r := nvml.Reading{Index: b.index, Why: map[string]string{}}
	if b.lost != "" {
		for _, f := range everyField {
			r.Why[f] = b.lost
		}
		return r
	}
	l := b.lib
	read64(b, &r, "energy_mj", &r.EnergyMJ, l.energy)
	b.instant(&r)
	read32(b, &r, "power_mw", &r.PowerMW, l.power)
	if !all {
		return r
	}
	read32(b, &r, "limit_mw", &r.LimitMW, l.limit)
	read32(b, &r, "temp_c", &r.TempC, with(l.temperature, sensorGPU))
	read32(b, &r, "sm_mhz", &r.SMMHz, with(l.clock, clockSM))
	read32(b, &r, "mem_mhz", &r.MemMHz, with(l.clock, clockMem))
	if l.throttle != nil {
		var bits uint64
		if st := l.throttle(b.handle, &bits); st == success {
			r.Throttle = &bits
		} else {
			r.Why["throttle"] = l.errorString(st)
		}
	} else {
		r.Why["throttle"] = tooOld
	}
	if l.memory != nil {
		var m memoryInfo
		if st := l.memory(b.handle, &m); st == success {
			r.MemUsed = new(float64(m.used))
		} else {
			r.Why["mem_used"] = l.errorString(st)
		}
	} else {
		r.Why["mem_used"] = tooOld
	}
	if l.utilization != nil {
		var u utilization
		if st := l.utilization(b.handle, &u); st == success {
			r.BusyPct = new(float64(u.gpu))
		} else {
			r.Why["busy_pct"] = l.errorString(st)
		}
	} else {
		r.Why["busy_pct"] = tooOld
	}
	b.processes(&r)
	return r
}

const tooOld = "this version of the library has no such function"

func read32(b *board, r *nvml.Reading, name string, to **float64, get func(handle, *uint32) status) {
	if get == nil {
		r.Why[name] = tooOld
		return
	}
	var v uint32
	if st := get(b.handle, &v); st != success {
		r.Why[name] = b.lib.errorString(st)
		return
	}
	*to = new(float64(v))
}

func read64(b *board, r *nvml.Reading, name string, to **float64, get func(handle, *uint64) status) {
	if get == nil {
		r.Why[name] = tooOld
		return
	}
	var v uint64
	if st := get(b.handle, &v); st != success {
		r.Why[name] = b.lib.errorString(st)
		return
	}
	*to = new(float64(v))
}

// with sets the middle argument.
func with(get func(handle, uint32, *uint32) status, which uint32) func(handle, *uint32) status {
	if get == nil {
		return nil
	}
	return func(h handle, v *uint32) status { return get(h, which, v) }
}

// instant reads the power at the moment, which older boards do not tell.
func (b *board) instant(r *nvml.Reading) {
	if b.lib.fieldValues == nil {
		r.Why["instant_mw"] = tooOld
		return
	}
	f := fieldValue{id: fieldPowerInstant}
	st := b.lib.fieldValues(b.handle, 1, &f)
	if st == success {
		st = f.status
	}
	if st != success {
		r.Why["instant_mw"] = b.lib.errorString(st)
		return
	}
	v, ok := f.number()
	if !ok {
		r.Why["instant_mw"] = "the value is of an unknown kind"
		return
	}
	r.InstantMW = &v
}

// number reads the value by its kind.
func (f *fieldValue) number() (float64, bool) {
	bits := binary.NativeEndian.Uint64(f.value[:])
	low := binary.NativeEndian.Uint32(f.value[:])
	switch f.kind {
	case kindDouble:
		v := math.Float64frombits(bits)
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case kindUint:
		return float64(low), true
	case kindUlong, kindUlonglong:
		return float64(bits), true
	case kindLonglong:
		return float64(int64(bits)), true
	case kindInt:
		return float64(int32(low)), true
	}
	return 0, false
}

// processes reads who uses the board. A process that computes and draws is in
// both lists with the same memory.
func (b *board) processes(r *nvml.Reading) {
	used := map[uint32]uint64{}
	var order []uint32
	for _, list := range []func(handle, *uint32, *processInfo) status{b.lib.compute, b.lib.graphics} {
		if list == nil {
			r.Why["procs"] = tooOld
			return
		}
		buf := make([]processInfo, 64)
		for {
			n := uint32(len(buf))
			st := list(b.handle, &n, &buf[0])
			if st == errInsufficientBuf && len(buf) < mostProcesses {
				buf = make([]processInfo, mostProcesses)
				continue
			}
			if st == errNotSupported {
				break // a board without graphics
			}
			if st != success {
				r.Why["procs"] = b.lib.errorString(st)
				return
			}
			for _, p := range buf[:min(int(n), len(buf))] {
				if _, ok := used[p.pid]; !ok {
					order = append(order, p.pid)
				}
				used[p.pid] = max(used[p.pid], p.used)
			}
			break
		}
	}
	for _, pid := range order {
		p := nvml.Proc{PID: int(pid)}
		if used[pid] != notAvailable {
			p.Bytes = new(float64(used[pid]))
		}
		r.Procs = append(r.Procs, p)
	}
	r.HasProcs = true
}
