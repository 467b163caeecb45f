package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/telemetry/nvml"
)

// program writes a shell script that stands for a helper of the system's: it
// prints recorded text at the pace of the real one.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// paced prints a file, a line a tenth of a second, and then its last line for
// ever.
func paced(t *testing.T, file string) string {
	t.Helper()
	abs, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("while read -r line; do echo \"$line\"; sleep 0.1; done <%q\nwhile :; do tail -n 1 %q; sleep 0.1; done\n", abs, abs)
}

func TestParseSMI(t *testing.T) {
	text, err := os.ReadFile("testdata/nvidia-smi-two.csv")
	if err != nil {
		t.Fatal(err)
	}
	fields := slices.DeleteFunc(slices.Clone(smiFields), func(f smiField) bool { return f.name == "clocks_event_reasons.active" })
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	p, err := parseSMI(lines[1], fields, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if p.index != 1 || !p.stamp.Equal(time.Date(2025, 3, 14, 10, 11, 12, 123e6, time.UTC)) {
		t.Errorf("GPU %d at %v", p.index, p.stamp)
	}
	got := map[Metric]float64{}
	for _, v := range p.reading.values {
		got[v.metric] = v.v
		if v.of != "gpu1" {
			t.Errorf("%s of %s", v.metric, v.of)
		}
	}
	want := map[Metric]float64{
		GPUPowerMean: 21.5, GPUMem: 6 * mebibyte, GPUTemp: 41, GPUClock: 210, GPUMemClock: 405, GPULimit: 70, GPUBusy: 0, GPUThrottle: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if w := p.reading.whys; len(w) != 1 || w[0] != (reason{GPUPower, "gpu1", `nvidia-smi: power.draw.instant is "[N/A]"`}) {
		t.Errorf("reasons %v", w)
	}
	for _, c := range []struct{ line, want string }{
		{lines[5], "1 columns, want 11"},
		{"No devices were found", "1 columns"},
		{strings.Replace(lines[0], "2025/03/14", "14.03.2025", 1), "is not a time"},
		{strings.Replace(lines[0], ", 0,", ", GPU-8f,", 1), `"GPU-8f" is not the index of a GPU`},
		{strings.Replace(lines[0], ", 0,", ", -1,", 1), `"-1" is not the index`},
	} {
		if _, err := parseSMI(c.line, fields, time.UTC); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.line, err, c.want)
		}
	}
}

func TestSMINumber(t *testing.T) {
	for text, want := range map[string]float64{"61.20": 61.2, "0": 0, "0x0000000000000024": 36, "0x0": 0} {
		if v, err := smiNumber(text); err != nil || v != want {
			t.Errorf("%q: %g, %v; want %g", text, v, err, want)
		}
	}
	for _, text := range []string{"", "[N/A]", "[Not Supported]", "[GPU is lost]", "ERR!", "-3", "NaN", "Inf", "0x", "0xfffffffffffffffff", "12 W"} {
		if v, err := smiNumber(text); err == nil {
			t.Errorf("%q: %g, want a reason", text, v)
		}
	}
}

// The protocol of assay-nvml, as recorded.
func TestNVMLLines(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"assay_nvml":1,"error":"NVIDIA's management library can't be loaded"}`, ""},
		{`{"assay_nvml":1,"gpus":[{"index":0}]}`, ""},
		{`{"assay_nvml":2,"gpus":[{"index":0}]}`, "speaks protocol 2, want 1: install both programs from one release"},
		{`{"assay_nvml":1}`, "names no GPU and no error"},
		{`{"assay_nvml":1,"gpus":[{"index":0},{"index":0}]}`, "index 0 comes twice"},
		{`{}`, "protocol 0"},
		{`usage: assay-nvml`, "invalid character"},
		{`{"assay_nvml":1,"error":"x"} {}`, "more than one object"},
		{``, "EOF"},
	} {
		_, err := nvml.ParseHello([]byte(c.line))
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{`{"mono_ns":1,"gpus":[]}`, ""},
		{`{"mono_ns":-1,"gpus":[]}`, "mono_ns is -1"},
		{`{"mono_ns":1,"gpus":[{"index":0,"power_mw":-5}]}`, "gpu 0: power_mw is -5"},
		{`{"mono_ns":1,"gpus":[{"index":0,"power_mw":"61"}]}`, "cannot unmarshal string"},
	} {
		_, err := nvml.ParseTick([]byte(c.line))
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}

// gpuRun records while the helpers print their text.
func gpuRun(t *testing.T, o Options) *Figures {
	t.Helper()
	o.Root, o.Fast = t.TempDir(), 100*time.Millisecond
	r := Open(o)
	defer r.Close()
	r.Target(100, "")
	r.mu.Lock()
	r.tree = []int{100, 101} // as if the tree had been read
	r.mu.Unlock()
	r.Begin()
	t0 := time.Now()
	time.Sleep(250 * time.Millisecond)
	t1 := time.Now()
	return Compute(r.End(), Ask{Window: Window{T0: t0.UnixNano(), T1: t1.UnixNano()}})
}

func num(f Figure) float64 {
	if f.Value == nil {
		return -1
	}
	return *f.Value
}

// Two boards by assay-nvml, of which the second is lost in mid-run.
func TestViaNVML(t *testing.T) {
	f := gpuRun(t, Options{NVML: program(t, paced(t, "testdata/nvml-two.jsonl")), SMI: NotUsed})
	if got := f.Board.Devices; !slices.Equal(got, []string{"gpu0", "gpu1"}) {
		t.Fatalf("devices %v: %s", got, f.Board.Window.Joules.Why)
	}
	if j := f.Board.Window.Joules; j.Value != nil || !strings.Contains(j.Why, "gpu1: ") || !strings.Contains(j.Why, "NVML: GPU is lost") {
		t.Errorf("joules %v, %q", num(j), j.Why)
	}
	if v := num(f.VRAM); v != 19969+6 {
		t.Errorf("%g MiB of VRAM", v)
	}
	if v := num(f.VRAMTarget); v != (20402143232+1048576)/mebibyte {
		t.Errorf("%g MiB of the target's, %s", v, f.VRAMTarget.Why)
	}
	if num(f.GPUTemp) != 65 || num(f.LimitMin) != 70 || num(f.LimitMax) != 300 {
		t.Errorf("%g °C, limits %g to %g W", num(f.GPUTemp), num(f.LimitMin), num(f.LimitMax))
	}
	if f.Throttle.Note != "power limit, thermal limit (software)" {
		t.Errorf("throttled by %q", f.Throttle.Note)
	}
	if !strings.Contains(f.Board.Rule, "NVML energy counter, NVML instant power at 10 Hz") {
		t.Errorf("rule %q", f.Board.Rule)
	}
}

// nvidia-smi stands in where assay-nvml can't load the library, and is asked
// again without the fields that its driver does not know.
func TestViaSMI(t *testing.T) {
	nvmlFails := program(t, `echo '{"assay_nvml":1,"error":"the library is not there"}'; exit 1`)
	smi := program(t, `
case "$1" in
*clocks_event_reasons.active*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
esac
[ "$2 $3 $4" = "--format=csv,noheader,nounits -lms 100" ] || exit 9
`+paced(t, "testdata/nvidia-smi-two.csv"))
	f := gpuRun(t, Options{NVML: nvmlFails, SMI: smi})
	if got := f.Board.Devices; !slices.Equal(got, []string{"gpu0", "gpu1"}) {
		t.Fatalf("devices %v: %s", got, f.Board.Window.Joules.Why)
	}
	if j := f.Board.Window.Joules; j.Value != nil || !strings.Contains(j.Why, "gpu1: ") || !strings.Contains(j.Why, "GPU is lost.  Reboot the system") {
		t.Errorf("joules %v, %q", num(j), j.Why)
	}
	if num(f.VRAM) != 19970+6 || num(f.GPUTemp) != 65 {
		t.Errorf("%g MiB, %g °C", num(f.VRAM), num(f.GPUTemp))
	}
	if why := f.VRAMTarget.Why; !strings.Contains(why, "does not tell the memory of processes") {
		t.Errorf("memory of the target: %q", why)
	}
	if !strings.Contains(f.Board.Rule, "nvidia-smi power.draw.instant, nvidia-smi power.draw (a mean of 1 s)") {
		t.Errorf("rule %q", f.Board.Rule)
	}
}

// Neither helper gives anything: the reasons of both are there.
func TestNoNVIDIA(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want []string
	}{
		{"switched off", Options{NVML: NotUsed, SMI: NotUsed}, []string{"assay-nvml: switched off", "nvidia-smi: switched off"}},
		{"not there", Options{NVML: "/nowhere/assay-nvml", SMI: "/nowhere/nvidia-smi"}, []string{"/nowhere/assay-nvml: no such file", "/nowhere/nvidia-smi: no such file"}},
		{
			"they give up",
			Options{
				NVML: program(t, `echo '{"assay_nvml":1,"error":"the driver does not run"}'`),
				SMI:  program(t, `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`),
			},
			[]string{"assay-nvml: the driver does not run", "couldn't communicate with the NVIDIA driver"},
		},
		{
			"another program of this name",
			Options{NVML: program(t, `echo hello`), SMI: program(t, `echo oops >&2; exit 3`)},
			[]string{"assay-nvml: invalid character", "nvidia-smi: exit status 3: oops"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := gpuRun(t, c.o)
			for _, fig := range []Figure{f.Board.Window.Joules, f.GPUTemp, f.VRAM, f.LimitMin, f.Throttle} {
				for _, want := range c.want {
					if fig.Value != nil || !strings.Contains(fig.Why, want) {
						t.Errorf("%v, %q; want %q", num(fig), fig.Why, want)
					}
				}
			}
			if why := f.Board.Window.Joules.Why; !strings.Contains(why, "/sys/class/drm: not there") {
				t.Errorf("the other makers' cards: %q", why)
			}
		})
	}
}
