package telemetry

import (
	"errors"
	"path"
)

// freqSource reads the frequencies of the processors and who governs them.
type freqSource struct{ root root }

func (freqSource) source() string { return "frequency" }

func (s freqSource) read(r *reading) {
	dirs := s.root.Glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq")
	if len(dirs) == 0 {
		r.fail(errors.New("/sys/devices/system/cpu/cpu*/cpufreq: not there (virtual machines seldom have frequency scaling)"),
			CPUFreq, CPUFreqMin, CPUsGoverned)
		return
	}
	sum, slowest, n := 0.0, 0.0, 0
	governors := map[string]float64{}
	var last error
	for _, dir := range dirs {
		if g, err := s.root.Line(path.Join(dir, "scaling_governor")); err == nil && g != "" {
			governors[g]++
		}
		v, err := s.root.Number(path.Join(dir, "scaling_cur_freq"))
		if err != nil {
			last = err
			continue
		}
		v /= 1000 // kHz
		if sum, n = sum+v, n+1; n == 1 || v < slowest {
			slowest = v
		}
	}
	if n == 0 {
		r.fail(last, CPUFreq, CPUFreqMin)
	} else {
		r.set(CPUFreq, "", sum/float64(n))
		r.set(CPUFreqMin, "", slowest)
	}
	for name, cpus := range governors {
		r.set(CPUsGoverned, name, cpus)
	}
	if len(governors) == 0 {
		r.fail(errors.New("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor: not there"), CPUsGoverned)
	}
}
