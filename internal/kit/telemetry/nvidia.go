package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/telemetry/nvml"
)

// NotUsed as a path turns a helper program off.
const NotUsed = "-"

// nvidiaMetrics are what NVIDIA's sources tell.
var nvidiaMetrics = []Metric{GPUEnergy, GPUPower, GPUPowerMean, GPUMem, GPUMemTarget, GPUTemp, GPUClock, GPUMemClock, GPUThrottle, GPULimit, GPUBusy}

// findNVML looks for assay-nvml beside this program, then in PATH.
func findNVML(path string) (string, error) {
	switch path {
	case NotUsed:
		return "", errors.New("switched off")
	case "":
	default:
		return path, nil
	}
	name := "assay-nvml"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), name)
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("it is neither beside assay nor in PATH")
	}
	return found, nil
}

func findSMI(path string) (string, error) {
	switch path {
	case NotUsed:
		return "", errors.New("switched off")
	case "":
		found, err := exec.LookPath("nvidia-smi")
		if err != nil {
			return "", errors.New("it is not in PATH")
		}
		return found, nil
	}
	return path, nil
}

// nvidia reads NVIDIA's GPUs by assay-nvml, or by nvidia-smi where that gives
// nothing. The reasons of both are kept when neither does.
func (r *Recorder) nvidia(ctx context.Context, f *feed) {
	errNVML := r.viaNVML(ctx, f)
	if errNVML == nil || ctx.Err() != nil {
		return
	}
	errSMI := r.viaSMI(ctx, f)
	if errSMI == nil || ctx.Err() != nil {
		return
	}
	rd := &reading{}
	rd.fail(fmt.Errorf("assay-nvml: %w; nvidia-smi: %w", errNVML, errSMI), nvidiaMetrics...)
	r.add("nvidia", 0, time.Now(), rd)
}

// viaNVML returns nil when it gave readings until it ended, and the reason when
// it gave none.
func (r *Recorder) viaNVML(ctx context.Context, f *feed) error {
	path, err := findNVML(r.opt.NVML)
	if err != nil {
		return err
	}
	argv := []string{path, "-every", r.opt.Fast.String()}
	if r.opt.NVMLLibrary != "" {
		argv = append(argv, "-library", r.opt.NVMLLibrary)
	}
	n := nvmlReader{rec: r, feed: f}
	err = r.helpers.run(ctx, helper{argv: argv, poke: true, line: n.line}, &r.helperCPU)
	if n.hello == nil || n.ticks == 0 {
		return err
	}
	if err != nil {
		f.ended("nvml/", "assay-nvml: "+err.Error())
	}
	return nil
}

// nvmlReader turns the lines of assay-nvml into readings, a track a GPU.
type nvmlReader struct {
	rec   *Recorder
	feed  *feed
	hello *nvml.Hello
	ticks int
}

func (n *nvmlReader) line(line []byte, at time.Time) error {
	if n.hello == nil {
		h, err := nvml.ParseHello(line)
		switch {
		case err != nil:
			return err
		case h.Error != "":
			return errors.New(h.Error)
		}
		n.hello = h
		return nil
	}
	t, err := nvml.ParseTick(line)
	if err != nil {
		return err
	}
	n.ticks++
	if age := monotonicSince(t.MonoNS); age > 0 && age < 10*time.Second {
		at = at.Add(-age) // the line was on its way for so long
	}
	for _, g := range n.hello.GPUs {
		rd := n.reading(t, g)
		n.feed.add("nvml/"+gpuName(g.Index), n.rec.opt.Fast, at, rd)
	}
	return nil
}

func gpuName(index int) string { return "gpu" + strconv.Itoa(index) }

func (n *nvmlReader) reading(t *nvml.Tick, g nvml.GPU) *reading {
	of := gpuName(g.Index)
	rd := &reading{note: strings.Join([]string{g.Name, g.UUID, "driver " + n.hello.Driver, n.hello.Library}, ", ")}
	var one *nvml.Reading
	for i := range t.GPUs {
		if t.GPUs[i].Index == g.Index {
			one = &t.GPUs[i]
		}
	}
	if one == nil {
		rd.failOf(of, errors.New("assay-nvml told nothing of this GPU"), nvidiaMetrics...)
		return rd
	}
	for _, f := range []struct {
		name   string
		v      *float64
		scale  float64
		metric Metric
	}{
		{"energy_mj", one.EnergyMJ, 1e-3, GPUEnergy},
		{"instant_mw", one.InstantMW, 1e-3, GPUPower},
		{"power_mw", one.PowerMW, 1e-3, GPUPowerMean},
		{"mem_used", one.MemUsed, 1, GPUMem},
		{"temp_c", one.TempC, 1, GPUTemp},
		{"sm_mhz", one.SMMHz, 1, GPUClock},
		{"mem_mhz", one.MemMHz, 1, GPUMemClock},
		{"limit_mw", one.LimitMW, 1e-3, GPULimit},
		{"busy_pct", one.BusyPct, 1, GPUBusy},
	} {
		if f.v != nil {
			rd.set(f.metric, of, *f.v*f.scale)
		} else if why := one.Why[f.name]; why != "" {
			rd.failOf(of, errors.New("NVML: "+why), f.metric)
		}
	}
	if one.Throttle != nil {
		rd.set(GPUThrottle, of, float64(*one.Throttle))
	} else if why := one.Why["throttle"]; why != "" {
		rd.failOf(of, errors.New("NVML: "+why), GPUThrottle)
	}
	n.target(rd, one, of)
	return rd
}

// target sums what the target's processes use.
func (n *nvmlReader) target(rd *reading, one *nvml.Reading, of string) {
	if why := one.Why["procs"]; why != "" {
		rd.failOf(of, errors.New("NVML: "+why), GPUMemTarget)
		return
	}
	if !one.HasProcs {
		return
	}
	pids := n.rec.targetTree()
	if len(pids) == 0 {
		_, why := n.rec.targetPID()
		if why == "" {
			why = "the target's processes were not read yet"
		}
		rd.failOf(of, errors.New(why), GPUMemTarget)
		return
	}
	sum := 0.0
	for _, p := range one.Procs {
		for _, pid := range pids {
			if p.PID != pid {
				continue
			}
			if p.Bytes == nil {
				rd.failOf(of, errors.New("NVML: the driver does not tell the memory of a process"), GPUMemTarget)
				return
			}
			sum += *p.Bytes
		}
	}
	rd.set(GPUMemTarget, of, sum)
}
