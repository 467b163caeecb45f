package telemetry

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/kit/telemetry/nvml"

	"assay/internal/kit/proc"
)

// finite sees to it that no parser lets through what is no reading.
func finite(t *testing.T, what string, vs ...float64) {
	t.Helper()
	for _, v := range vs {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Errorf("%s: %g", what, v)
		}
	}
}

// files are those of all recorded machines whose names end so.
func files(f *testing.F, suffix string) (out []string) {
	names, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), ".txtar") {
			continue
		}
		a, err := txtar.ParseFile("testdata/" + n.Name())
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, suffix) {
				out = append(out, string(file.Data))
			}
		}
	}
	if len(out) == 0 {
		f.Fatalf("no file %s", suffix)
	}
	return out
}

func FuzzSMI(f *testing.F) {
	text, err := os.ReadFile("testdata/nvidia-smi-two.csv")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add(line)
	}
	fields := smiFields[:9]
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parseSMI(line, fields, time.UTC)
		if err != nil {
			return
		}
		if len(p.reading.values)+len(p.reading.whys) != len(fields) {
			t.Errorf("%d values and %d reasons for %d fields", len(p.reading.values), len(p.reading.whys), len(fields))
		}
		for _, v := range p.reading.values {
			finite(t, string(v.metric), v.v)
		}
	})
}

func FuzzNVML(f *testing.F) {
	text, err := os.ReadFile("testdata/nvml-two.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if h, err := nvml.ParseHello(line); err == nil && h.Error == "" && len(h.GPUs) == 0 {
			t.Error("neither GPU nor error")
		}
		tick, err := nvml.ParseTick(line)
		if err != nil {
			return
		}
		n := nvmlReader{hello: &nvml.Hello{GPUs: []nvml.GPU{{Index: 0}, {Index: 1}}}, rec: &Recorder{tree: []int{100}}}
		for _, g := range n.hello.GPUs {
			rd := n.reading(tick, g)
			for _, v := range rd.values {
				if v.metric != GPUTemp { // which may be below 0
					finite(t, string(v.metric), v.v)
				}
			}
		}
	})
}

// Texts of the kernel: status, smaps and smaps_rollup, meminfo.
func FuzzKernelSizes(f *testing.F) {
	for _, suffix := range []string{"/status", "/smaps_rollup", "/smaps", "/meminfo"} {
		for _, s := range files(f, suffix) {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := sumPSS(text); err == nil {
			finite(t, "Pss", v)
		}
		for _, name := range []string{"VmRSS", "VmLck", "MemAvailable", "Pss"} {
			if v, err := proc.Kilobytes(text, name); err == nil {
				finite(t, name, float64(v))
			}
		}
	})
}

func FuzzPressure(f *testing.F) {
	for _, s := range files(f, "pressure/memory") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := proc.ParsePressure(text)
		if err != nil {
			return
		}
		finite(t, "some", p.Some.Avg10, p.Some.Total)
		if p.Full != nil {
			finite(t, "full", p.Full.Avg10, p.Full.Total)
		}
	})
}

// The kernel's tables: stat, mountinfo, diskstats, sockets.
func FuzzKernelTables(f *testing.F) {
	for _, suffix := range []string{"/stat", "/mountinfo", "/diskstats"} {
		for _, s := range files(f, suffix) {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := proc.ParseStat(text); err == nil {
			finite(t, "stat", s.CPU, s.Waited)
		}
		if reads, bytes, err := parseDiskstats(text, "sda"); err == nil {
			finite(t, "diskstats", reads, bytes)
		}
		proc.ParseMounts(text)
		listening(text, 8080)
	})
}

// Samples that someone else wrote: refused, or figures that are complete.
func FuzzRecord(f *testing.F) {
	good, err := json.Marshal(made(
		tracked("nvml/gpu0", 10, GPUPower, "gpu0", steady(-1, 3, 0.5, 100)),
		tracked("rapl", 10, RAPLEnergy, "package-0", steady(-1, 3, 0.5, 100)),
		tracked("host", 1, Load1, "", steady(-1, 3, 1, 1)),
		tracked("disk", 1, DiskReads, "sda", steady(-1, 3, 1, 1)),
		tracked("lag", 40, SelfLag, "", steady(-1, 3, 1, 1)),
	))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, int64(2*second))
	f.Fuzz(func(t *testing.T, data []byte, length int64) {
		var r Record
		if json.Unmarshal(data, &r) != nil {
			return
		}
		w := Window{T0: r.Origin, T1: r.Origin + length, TFirst: r.Origin + length/3, TLast: r.Origin + length/2}
		figs := Compute(&r, Ask{Window: w, Baseline: BaselineOf(&r), Idle: IdleOf(&r, w)})
		if (figs.Load1.Value == nil) != (figs.Load1.Why != "") {
			t.Errorf("%+v", figs.Load1)
		}
		if _, err := json.Marshal(figs); err != nil {
			t.Error(err)
		}
	})
}
