package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"assay/internal/kit/telemetry/nvml"
)

// status is what every function of the library returns.
type status int32

// The ones that are told apart.
const (
	success            status = 0
	errNotSupported    status = 3
	errInsufficientBuf status = 7
)

// handle is a board, a pointer of the library's own.
type handle uintptr

// library holds the functions that are used. One that this version of the
// library does not have is nil.
type library struct {
	name string

	init, shutdown  func() status
	errorString     func(status) string
	driverVersion   func(*byte, uint32) status
	count           func(*uint32) status
	byIndex         func(uint32, *handle) status
	uuid, boardName func(handle, *byte, uint32) status

	energy      func(handle, *uint64) status // mJ
	power       func(handle, *uint32) status // mW
	fieldValues func(handle, int32, *fieldValue) status
	memory      func(handle, *memoryInfo) status
	temperature func(handle, uint32, *uint32) status
	clock       func(handle, uint32, *uint32) status
	throttle    func(handle, *uint64) status
	limit       func(handle, *uint32) status // mW
	utilization func(handle, *utilization) status
	compute     func(handle, *uint32, *processInfo) status
	graphics    func(handle, *uint32, *processInfo) status
}

// fieldValue is nvmlFieldValue_t.
type fieldValue struct {
	id     uint32
	_      uint32 // scope: 0 is the GPU itself
	_, _   int64  // time stamp and latency
	kind   uint32
	status status
	value  [8]byte
}

// memoryInfo is nvmlMemory_t, in bytes.
type memoryInfo struct {
	_, _ uint64 // total, free
	used uint64
}

// utilization is nvmlUtilization_t, in percent.
type utilization struct {
	gpu uint32
	_   uint32 // memory
}

// processInfo is nvmlProcessInfo_t, versions 2 and 3.
type processInfo struct {
	pid  uint32
	used uint64
	_, _ uint32 // instances of a divided GPU
}

// openLibrary loads and starts it. path is empty for the loader's choice.
func openLibrary(path string) (*library, error) {
	names := libraryNames
	if path != "" {
		names = []string{path}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("NVIDIA has no management library for %s", runtime.GOOS)
	}
	var module uintptr
	var err error
	l := &library{}
	for _, name := range names {
		if module, err = load(name); err == nil {
			l.name = name
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("NVIDIA's management library can't be loaded: %w (is the NVIDIA driver installed?)", err)
	}
	for _, f := range []struct {
		to    any
		must  bool
		names []string // the newest first
	}{
		{&l.init, true, []string{"nvmlInit_v2"}},
		{&l.shutdown, true, []string{"nvmlShutdown"}},
		{&l.errorString, true, []string{"nvmlErrorString"}},
		{&l.driverVersion, true, []string{"nvmlSystemGetDriverVersion"}},
		{&l.count, true, []string{"nvmlDeviceGetCount_v2"}},
		{&l.byIndex, true, []string{"nvmlDeviceGetHandleByIndex_v2"}},
		{&l.uuid, true, []string{"nvmlDeviceGetUUID"}},
		{&l.boardName, true, []string{"nvmlDeviceGetName"}},
		{&l.energy, false, []string{"nvmlDeviceGetTotalEnergyConsumption"}},
		{&l.power, false, []string{"nvmlDeviceGetPowerUsage"}},
		{&l.fieldValues, false, []string{"nvmlDeviceGetFieldValues"}},
		{&l.memory, false, []string{"nvmlDeviceGetMemoryInfo"}},
		{&l.temperature, false, []string{"nvmlDeviceGetTemperature"}},
		{&l.clock, false, []string{"nvmlDeviceGetClockInfo"}},
		{&l.throttle, false, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
		{&l.limit, false, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
		{&l.utilization, false, []string{"nvmlDeviceGetUtilizationRates"}},
		{&l.compute, false, []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}},
		{&l.graphics, false, []string{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"}},
	} {
		for _, name := range f.names {
			var at uintptr
			if at, err = symbol(module, name); err == nil && at != 0 {
				purego.RegisterFunc(f.to, at)
				break
			}
		}
		if err != nil && f.must {
			return nil, fmt.Errorf("%s is not NVIDIA's management library, or too old: %w", l.name, err)
		}
	}
	if st := l.init(); st != success {
		return nil, fmt.Errorf("NVIDIA's management library does not start: %s", l.errorString(st))
	}
	return l, nil
}

func (l *library) close() { l.shutdown() }

// text calls a function that fills in a string.
func (l *library) text(get func(*byte, uint32) status) string {
	var buf [96]byte // NVML_DEVICE_NAME_V2_BUFFER_SIZE, the longest of them
	if st := get(&buf[0], uint32(len(buf))); st != success {
		return "unknown (" + l.errorString(st) + ")"
	}
	for i, b := range buf {
		if b == 0 {
			return string(buf[:i])
		}
	}
	return string(buf[:])
}

// boards finds all GPUs, and what to say of them first.
func (l *library) boards() ([]board, nvml.Hello) {
	h := nvml.Hello{Protocol: nvml.Protocol, Library: l.name, Driver: l.text(l.driverVersion)}
	var n uint32
	if st := l.count(&n); st != success {
		h.Error = "the GPUs can't be counted: " + l.errorString(st)
		return nil, h
	}
	var out []board
	for i := range n {
		b := board{lib: l, index: int(i)}
		if st := l.byIndex(i, &b.handle); st != success {
			b.lost = l.errorString(st)
			h.GPUs = append(h.GPUs, nvml.GPU{Index: b.index, UUID: "unknown", Name: "unknown (" + b.lost + ")"})
		} else {
			h.GPUs = append(h.GPUs, nvml.GPU{
				Index: b.index,
				UUID:  l.text(func(p *byte, n uint32) status { return l.uuid(b.handle, p, n) }),
				Name:  l.text(func(p *byte, n uint32) status { return l.boardName(b.handle, p, n) }),
			})
		}
		out = append(out, b)
	}
	if n == 0 {
		h.Error = "the driver is there, but no GPU"
	}
	return out, h
}

// The layouts that the library expects: a change of these structs fails to
// compile.
var (
	_ [40]byte = [unsafe.Sizeof(fieldValue{})]byte{}
	_ [24]byte = [unsafe.Sizeof(memoryInfo{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(utilization{})]byte{}
	_ [24]byte = [unsafe.Sizeof(processInfo{})]byte{}
)
