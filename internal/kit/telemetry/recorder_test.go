package telemetry

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// burner writes RAPL's counter of a tree as it would grow at 100 W.
func burner(t *testing.T, from root, wraps float64) {
	path := filepath.Join(string(from), "sys/class/powercap/intel-rapl:0/energy_uj")
	stop := make(chan struct{})
	var done sync.WaitGroup
	start := time.Now()
	write := func() {
		uj := math.Mod(wraps-30e6+100e6*time.Since(start).Seconds(), wraps) // wraps after 0.3 s
		if err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d\n", int64(uj)), 0o644); err != nil {
			t.Error(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Error(err)
		}
	}
	write()
	done.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				write()
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}

// A whole window on a recorded machine whose package draws 100 W: the figures,
// the readings around the window, and the same figures from the record as it is
// kept.
func TestRecorder(t *testing.T) {
	from := machine(t, "laptop")
	burner(t, from, 262143328850)
	r := Open(Options{
		Root: string(from), NVML: NotUsed, SMI: NotUsed, Disk: "nvme0n1",
		WallCommand: Shell("while :; do echo 140.5 W; sleep 0.05; done"),
	})
	r.Target(4242, "")
	r.Begin()
	t0 := time.Now()
	time.Sleep(time.Second)
	t1 := time.Now()
	last := r.Last(MemAvailable)
	rec := r.End()
	r.Close()

	ask := Ask{Window: Window{T0: t0.UnixNano(), T1: t1.UnixNano()}, Disk: "nvme0n1"}
	ask.Window.TFirst, ask.Window.TLast = ask.Window.T0+4e8, ask.Window.T1-1e7
	f := Compute(rec, ask)
	pkg := f.RAPL[0].Window
	// The file is written by this process: on a busy machine it is late, too.
	if v := num(pkg.Joules); pkg.Joules.Off == nil || math.Abs(v-100*ask.Window.Seconds()) > min(15, *pkg.Joules.Off) || pkg.Joules.Coverage != 1 {
		t.Errorf("%g J (%s), want about 100; %+v", v, pkg.Joules.Why, pkg.Joules)
	}
	if v := num(f.Wall.Window.Joules); math.Abs(v-140.5*ask.Window.Seconds()) > 1e-6 {
		t.Errorf("%g J at the wall, %s", v, f.Wall.Window.Joules.Why)
	}
	for name, got := range map[string]float64{
		"load1": num(f.Load1) - 1.27, "memory": num(f.MemAvailable) - 20, "unit pressure": num(f.PSIUnit) - 0.25,
		"user pressure": num(f.PSIUser) - 1.5, "pressure": num(f.PSISystem) - 0.5, "ssd": num(f.SSDTemp) - 51.85,
		"cpu": num(f.CPUTemp) - 71, "kills": num(f.Kills), "reads": num(f.DiskReads), "locked": num(f.VmLck) - 2048*kB,
		"pss": num(f.PSS) - 6209000*kB, "frequency": num(f.CPUFreq) - 2250,
	} {
		if math.Abs(got) > 1e-9 {
			t.Errorf("%s is off by %g", name, got)
		}
	}
	if f.Governor.Note != "powersave" || f.HostSamples < 2 {
		t.Errorf("governor %q, %d samples", f.Governor.Note, f.HostSamples)
	}
	for _, tr := range rec.Tracks {
		if n := len(tr.At); n > 0 && tr.Source != "proportional memory" && tr.Source != "noise" && tr.Source != "lag" {
			if tr.At[0] > t0.UnixNano()-rec.Origin || tr.At[n-1] < t1.UnixNano()-rec.Origin {
				t.Errorf("%s: readings from %d to %d don't span the window", tr.Source, tr.At[0], tr.At[n-1])
			}
		}
	}
	if len(last) != 1 || last[0].Value == nil || *last[0].Value != 20*gib || last[0].Age > 2*time.Second {
		t.Errorf("the last reading: %+v", last)
	}
	complete(t, f)

	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of samples", len(data))
	var again Record
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, Compute(&again, ask)); diff != "" {
		t.Errorf("from what was kept, want -, got +:\n%s", diff)
	}
}

// complete sees to it that every figure has a value or a reason.
func complete(t *testing.T, f *Figures) {
	t.Helper()
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		if fig, ok := v.Interface().(Figure); ok {
			if (fig.Value == nil) != (fig.Why != "") {
				t.Errorf("%s: value %v, reason %q", path, num(fig), fig.Why)
			}
			if fig.Unit == "" {
				t.Errorf("%s has no unit", path)
			}
			if fig.Value != nil && (fig.Source == "" || math.IsNaN(*fig.Value)) {
				t.Errorf("%s: %+v", path, fig)
			}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	walk(reflect.ValueOf(*f), "")
}

// The machine that runs the tests, this process being the target: whatever is
// there, every figure has a value or a reason, and reading costs little.
func TestThisMachine(t *testing.T) {
	r := Open(Options{})
	r.Target(os.Getpid(), "")
	r.Begin()
	t0 := time.Now()
	time.Sleep(2 * time.Second)
	t1 := time.Now()
	rec := r.End()
	r.Close()
	f := Compute(rec, Ask{Window: Window{T0: t0.UnixNano(), T1: t1.UnixNano()}})
	complete(t, f)
	if v := num(f.VmRSS); v < 1<<20 {
		t.Errorf("our own memory: %g, %s", v, f.VmRSS.Why)
	}
	if num(f.PSS) <= 0 || num(f.MemAvailable) <= 0 || num(f.LagP99) < 0 {
		t.Errorf("%+v, %+v, %+v", f.PSS, f.MemAvailable, f.LagP99)
	}
	cost := num(f.RecorderCPU)
	t.Logf("reading costs %.2f %% of a processor, the whole process %.2f %%; lag p99 %.2f ms", 100*cost, 100*num(f.SelfCPU), num(f.LagP99))
	if cost < 0 || cost > 0.05 {
		t.Errorf("reading costs %.1f %% of a processor", 100*cost)
	}
}

// A remote target: no record, and every figure has that reason.
func TestNoRecord(t *testing.T) {
	f := Compute(nil, Ask{Why: "remote target"})
	complete(t, f)
	if f.Load1.Why != "remote target" || f.Board.Window.Joules.Why != "remote target" || f.VRAMGrowth.Why != "remote target" || f.SSDTemp.Why != "remote target" {
		t.Errorf("%q, %q, %q, %q", f.Load1.Why, f.Board.Window.Joules.Why, f.VRAMGrowth.Why, f.SSDTemp.Why)
	}
	f = Compute(made(), Ask{Window: Window{T0: origin, T1: origin}})
	complete(t, f)
	if f.Load1.Why != "there is no window: nothing was received" {
		t.Errorf("%q", f.Load1.Why)
	}
}

// A wall meter: what it prints, and what it may do instead.
func TestWall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "watts")
	if err := os.WriteFile(file, []byte("87.25\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		o     Options
		watts float64
		why   string
	}{
		{"file", Options{WallFile: file}, 87.25, ""},
		{"no file", Options{WallFile: "/nowhere/watts"}, -1, "open /nowhere/watts: no such file"},
		{"none", Options{}, -1, "no wall meter was named"},
		{"nonsense", Options{WallCommand: Shell("while :; do echo offline; sleep 0.05; done")}, -1, `"offline" is not a number of watts such as 123.4`},
		{"it fails", Options{WallCommand: Shell("echo no device >&2; exit 4")}, -1, "gave no reading: exit status 4: no device"},
		{"it ends", Options{WallCommand: Shell("echo 100; echo 100; echo bye >&2")}, -1, "it ended: bye"},
		{"its children outlive it", Options{WallCommand: Shell("(sleep 50; echo 1) & while :; do echo 12; sleep 0.05; done")}, 12, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.o
			o.Root, o.NVML, o.SMI, o.Slow = t.TempDir(), NotUsed, NotUsed, 50*time.Millisecond
			r := Open(o)
			r.Begin()
			t0 := time.Now()
			time.Sleep(200 * time.Millisecond)
			t1 := time.Now()
			f := Compute(r.End(), Ask{Window: Window{T0: t0.UnixNano(), T1: t1.UnixNano()}})
			closing := time.Now()
			r.Close()
			if d := time.Since(closing); d > time.Second {
				t.Errorf("it took %v to close", d)
			}
			if v := num(f.Wall.MeanW); math.Abs(v-c.watts) > 1e-9 || !strings.Contains(f.Wall.MeanW.Why, c.why) || (f.Wall.MeanW.Why == "") != (c.why == "") {
				t.Errorf("%g W, %q; want %g, %q", v, f.Wall.MeanW.Why, c.watts, c.why)
			}
		})
	}
}

func TestParseWatts(t *testing.T) {
	for text, want := range map[string]float64{"123.4\n": 123.4, " 80 W": 80, "80W": 80, "0": 0, "95.1 W extra": 95.1} {
		if v, err := parseWatts(text); err != nil || v != want {
			t.Errorf("%q: %g, %v; want %g", text, v, err, want)
		}
	}
	for _, text := range []string{"", "\n", "-1", "NaN", "1e9", "12 kWh", "watts: 12"} {
		if v, err := parseWatts(text); err == nil {
			t.Errorf("%q: %g", text, v)
		}
	}
}

// The second window does not begin with what happened before the first.
func TestBeginForgets(t *testing.T) {
	from := machine(t, "laptop")
	r := Open(Options{Root: string(from), NVML: NotUsed, SMI: NotUsed, Fast: 10 * time.Millisecond})
	defer r.Close()
	r.Begin()
	time.Sleep(1200 * time.Millisecond)
	begun := time.Since(r.origin)
	r.Begin()
	for _, tr := range r.End().Tracks {
		// The last one before is kept, however old it is.
		if len(tr.At) > 1 && tr.At[1] < int64(begun-time.Second) {
			t.Errorf("%s: of %d readings the second is %v before the window", tr.Source, len(tr.At), begun-time.Duration(tr.At[1]))
		}
	}
}

// What does not hold together is refused.
func TestRecordRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"form":"assay-samples-0"}`, `form "assay-samples-0", want "assay-samples-1"`},
		{`{"form":"assay-samples-1","tracks":[{"source":"host","at_ns":[5,5]}]}`, "tracks[0] (host): at_ns[1] is 5, not after the one before it"},
		{`{"form":"assay-samples-1","tracks":[{"source":"host","at_ns":[5,6],"series":[{"metric":"load1","v":[1]}]}]}`, "load1 has 1 values for 2 stamps"},
		{`{"form":"assay-samples-1","tracks":[{"source":"host","at_ns":[5],"series":[{"metric":"load1","v":["x"]}]}]}`, "cannot unmarshal string"},
		{`[]`, "samples:"},
	} {
		var r Record
		if err := json.Unmarshal([]byte(c.text), &r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// A process that is busy beside us is noise by its name; we, our target and the
// kernel's threads are not.
func TestNoise(t *testing.T) {
	dir := t.TempDir()
	put := func(pid int, name string, parent int, flags, ticks, start int) {
		p := filepath.Join(dir, "proc", fmt.Sprint(pid))
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%d (%s) R %d 1 1 0 -1 %d 0 0 0 0 %d 0 0 0 20 0 1 0 %d 0 0\n", pid, name, parent, flags, ticks, start)
		if err := os.WriteFile(filepath.Join(p, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := func(ticks int) {
		put(10, "assay", 1, 0, ticks, 5)
		put(11, "assay-nvml", 10, 0, ticks, 5)
		put(12, "sh", 11, 0, ticks, 5)
		put(20, "engine", 1, 0, ticks, 5)
		put(21, "engine worker", 20, 0, ticks, 5)
		put(30, "kswapd0", 2, 0x00200000, ticks, 5)
		put(40, "browser", 1, 0, ticks, 5)
		put(41, "browser", 1, 0, ticks/2, 5)
		put(42, "lazy", 1, 0, ticks/50, 5)
	}
	s := &noiseSource{root: root(dir), ours: func() []int { return []int{20, 21} }, self: 10}
	look := func(after time.Duration) map[string]float64 {
		rd := &reading{at: time.Unix(1000, 0).Add(after)}
		s.read(rd)
		out := map[string]float64{}
		for _, v := range rd.values {
			out[string(v.metric)+v.of] = v.v
		}
		for _, w := range rd.whys {
			out[w.why] = -1
		}
		return out
	}
	all(1000)
	if got := look(0); got["two looks are needed, half a second apart"] != -1 {
		t.Errorf("first look: %v", got)
	}
	if got := look(100 * time.Millisecond); len(got) != 1 || got["noise_procs"] != 0 {
		t.Errorf("too soon: %v", got)
	}
	all(1200)                           // 2 s of processor time in 2 s
	put(40, "browser", 1, 0, 150, 999)  // another process with an old number: 1.5 s
	put(43, "newcomer", 1, 0, 60, 1000) // was not there before
	want := map[string]float64{"noise_procs": 3, "noise_cpubrowser": 0.75 + 0.5, "noise_cpunewcomer": 0.3}
	if diff := cmp.Diff(want, look(2*time.Second)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"noise_procs": 0, "noise_cpubrowser": 0, "noise_cpunewcomer": 0}, look(3*time.Second)); diff != "" {
		t.Errorf("silence, want -, got +:\n%s", diff)
	}
}

// 99 of 100: a wake-up that slept through three more stands for four.
func TestLag(t *testing.T) {
	var p points
	for i := range 98 {
		p.at, p.v = append(p.at, int64(i+1)*int64(lagEvery)), append(p.v, 0.1)
	}
	p.at, p.v = append(p.at, 99*int64(lagEvery)), append(p.v, 80)
	s := &sheet{from: 0, to: 100 * int64(lagEvery)}
	if v := s.lag([]points{p}); v != 55 { // of 102 values the 101st: 80, 55, 30, 5 are the largest
		t.Errorf("p99 %g ms", v)
	}
	p.at, p.v = p.at[:50], p.v[:50]
	p.v[7] = 3
	if v := s.lag([]points{p}); v != 3 {
		t.Errorf("of 50: %g ms, want the largest", v)
	}
}

// VRAM over the baseline, which was read before the target was there.
func TestGrowth(t *testing.T) {
	const mib = mebibyte
	before := made(tracked("nvml/gpu0", 1, GPUMem, "gpu0", steady(0, 3, 1, 2*mib)), tracked("nvml/gpu1", 1, GPUMem, "gpu1", steady(0, 3, 1, 10*mib)))
	during := made(tracked("nvml/gpu0", 1, GPUMem, "gpu0", steady(0, 3, 1, 56388*mib)), tracked("nvml/gpu1", 1, GPUMem, "gpu1", steady(0, 3, 1, 100*mib)))
	w := at(0.5, 0, 0, 2.5)
	f := Compute(during, Ask{Window: w, Baseline: BaselineOf(before)})
	if num(f.VRAM) != 56488 || num(f.VRAMBaseline) != 12 || num(f.VRAMGrowth) != 56476 {
		t.Errorf("%g - %g = %g MiB", num(f.VRAM), num(f.VRAMBaseline), num(f.VRAMGrowth))
	}
	if f := Compute(during, Ask{Window: w}); num(f.VRAMGrowth) != -1 || !strings.Contains(f.VRAMGrowth.Why, "the target's start was not seen") {
		t.Errorf("attached: %g, %q", num(f.VRAMGrowth), f.VRAMGrowth.Why)
	}
	one := BaselineOf(made(before.Tracks[0]))
	if f := Compute(during, Ask{Window: w, Baseline: one}); num(f.VRAMGrowth) != -1 || f.VRAMGrowth.Why != "the baseline lacks it: gpu1" {
		t.Errorf("a board came later: %g, %q", num(f.VRAMGrowth), f.VRAMGrowth.Why)
	}
	none := BaselineOf(made(Track{Source: "nvidia", Series: []Series{{Metric: GPUMem, Why: "no driver"}}}))
	if f := Compute(during, Ask{Window: w, Baseline: none}); num(f.VRAMGrowth) != -1 || f.VRAMGrowth.Why != "no driver" {
		t.Errorf("no baseline: %g, %q", num(f.VRAMGrowth), f.VRAMGrowth.Why)
	}
}
