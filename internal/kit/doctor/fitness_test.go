package doctor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/plan"

	"assay/internal/kit/proc/machines"
)

// find is the check of a name, and whether there is one.
func find(r Report, name string) (Check, bool) {
	for _, c := range r.Checks {
		if c.Name == name {
			return c, true
		}
	}
	return Check{}, false
}

// Each demand of a plan is held against the machine; without one the same
// finding is a warning at most.
func TestDemands(t *testing.T) {
	desktop, server, vm := machines.Tree(t, "amd-desktop"), machines.Tree(t, "nvidia-server"), machines.Tree(t, "amd-vm")
	const arm = "arms: [{name: a}]\n"
	busy := func() (*Activity, *Activity) {
		self := os.Getpid()
		before := &Activity{At: time.Unix(0, 0), All: 100, Busy: 50, Processes: map[int]Process{
			1: {"systemd", 1, 5}, 7: {"browser", 50, 10}, 8: {"backup", 60, 3}, 9: {"gone", 70, 1}, 10: {"kworker/u8:5", 2, 30}, self: {"assay", 80, 1},
		}}
		// In 2 s of 4 processors: browser 1.5 s, a new process under number 8 that had
		// 0.4 s, assay 0.5 s, 0.1 s of processes that came and went; 0.08 s stolen.
		after := &Activity{At: time.Unix(2, 0), All: 108, Busy: 52.5, Steal: 0.08, SwapIn: 10, Processes: map[int]Process{
			1: {"systemd", 1, 5.001}, 7: {"browser", 50, 11.5}, 8: {"make", 90, 0.4}, 10: {"kworker/u8:5-ext4", 2, 30.01}, self: {"assay", 80, 1.5},
		}}
		return before, after
	}
	for name, c := range map[string]struct {
		root, plan, check string
		level             Level
		found             string
	}{
		"swap, no limit":         {desktop, "", "swap", Warn, "1GiB are in swap: what is there may be needed in a run"},
		"swap, at the limit":     {desktop, "noise: {swap_used: 1GiB}", "swap", OK, "1GiB of 4GiB are used"},
		"swap, kept":             {desktop, "noise: {swap_used: 2GiB}", "swap", OK, "1GiB of 4GiB are used"},
		"swap, broken":           {desktop, "noise: {swap_used: 1023MiB}", "swap", Unfit, "1GiB are in swap, the plan allows 1023MiB"},
		"governor":               {desktop, "", "governor", Warn, "it is powersave: rates depend on how soon the processors speed up"},
		"governor, wanted":       {desktop, "noise: {governor: performance}", "governor", Unfit, "it is powersave, the plan wants performance"},
		"governor, as wanted":    {desktop, "noise: {governor: powersave}", "governor", OK, "powersave"},
		"governor, fine":         {server, "", "governor", OK, "performance"},
		"governor, unseen":       {vm, "noise: {governor: performance}", "governor", Unfit, "the plan has a limit on it, and it can't be read: /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor: not there (virtual machines seldom have frequency scaling)"},
		"throttled":              {server, "", "throttling", Warn, "the processors were slowed down for heat 14 times since the system started"},
		"throttled, refused":     {server, "noise: {throttling: refused}", "throttling", Unfit, "the processors were slowed down for heat 14 times since the system started, the plan refuses that"},
		"throttling, unseen":     {desktop, "", "throttling", Unknown, "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle: not there (only Intel's processors count it)"},
		"virtual":                {vm, "", "virtual", Warn, "vm: unnamed hypervisor: neighbours that are not seen share the processors"},
		"virtual, refused":       {vm, "noise: {virtual_machine: refused}", "virtual", Unfit, "vm: unnamed hypervisor, which the plan refuses"},
		"not virtual":            {server, "noise: {virtual_machine: refused}", "virtual", OK, "none"},
		"noise":                  {server, "", "noise", Warn, "others used 100 % of a processor within 2.0 s, busiest browser 75 %, make 20 %"},
		"noise, kept":            {server, "noise: {cpu: 100 %, busy_processes: 2}", "noise", OK, "others used 100 % of a processor within 2.0 s, busiest browser 75 %, make 20 %"},
		"noise, broken":          {server, "noise: {cpu: 99 %}", "noise", Unfit, "others used 100 % of a processor within 2.0 s, busiest browser 75 %, make 20 %; the plan allows 99 %"},
		"busy processes":         {server, "noise: {busy_processes: 1}", "noise", Unfit, "others used 100 % of a processor within 2.0 s, busiest browser 75 %, make 20 %: 2 use more than a tenth of a processor, the plan allows 1"},
		"steal":                  {vm, "", "steal", OK, "the hypervisor took 1.0 % of the processors' time"},
		"steal, broken":          {vm, "noise: {steal: 0.9%}", "steal", Unfit, "the hypervisor took 1.0 % of the processors' time, the plan allows 0.9 %"},
		"swapping":               {server, "", "swapping", Warn, "5 pages a second go to and from swap right now"},
		"load, kept":             {server, "noise: {load: 1}", "load", OK, "load average 0.52"},
		"load, broken":           {desktop, "noise: {load: 2}", "load", Unfit, "load average 2.10, the plan allows 2"},
		"load, unseen":           {vm, "noise: {load: 2}", "load", Unfit, "the plan has a limit on it, and it can't be read: /proc/loadavg: no such file or directory"},
		"clock":                  {desktop, "", "clock", Warn, "the kernel's clock is hpet, which is slow to read"},
		"energy":                 {vm, "require: [package_energy]\nmin_seconds: 12", "package_energy", Unfit, "the plan requires it, and it can't be measured: package_energy: no RAPL: the hypervisor keeps it from virtual machines"},
		"energy, there":          {server, "require: [energy]\nmin_seconds: 12", "energy", OK, "it can be measured"},
		"energy, short":          {server, "require: [energy]\nmin_seconds: 9", "min_seconds", Warn, "the plan wants energy but lets runs be shorter than 10 s: it is withheld for those, unless a counter can be read at their edges"},
		"memory, guard":          {vm, "guard: {memory_available: 300MiB}", "memory", Unfit, "224MiB can be had, under the guard's limit of 300MiB: it would stop the first run"},
		"a limit nobody reads":   {vm, "guard: {cpu_temperature: 90}", "guard", Warn, "the guard can't watch cpu_temperature (/sys/class/hwmon: no such file or directory)"},
		"a limit by the driver":  {server, "guard: {gpu_temperature: 90}", "guard", OK, "it can watch all its 4 limits"},
		"a program that is not":  {server, "", "programs", "", ""},
		"the disk, by the guard": {server, "guard: {disk_free: 1000TiB}", "disk", Unfit, ""},
	} {
		conf := Config{Root: c.root, Plan: parse(t, arm+c.plan), LookPath: has("nvidia-smi"), Out: t.TempDir()}
		conf.Before, conf.After = busy()
		if c.root == vm { // its job's limit leaves 224 MiB, under the default guard
			conf.Plan.Guard = limitsOf(conf.Plan, c.check)
		}
		r := Examine(conf)
		got, ok := find(r, c.check)
		if ok != (c.level != "") || got.Level != c.level || c.found != "" && got.Found != c.found {
			t.Errorf("%s: got %+v\nwant %s: %s", name, got, c.level, c.found)
		}
		if (got.Level == Warn || got.Level == Unfit) && got.Do == "" {
			t.Errorf("%s: nothing to do about it", name)
		}
		if got.Level == Unfit && r.Fit {
			t.Errorf("%s: unfit, and the machine is fit", name)
		}
	}
}

// limitsOf leaves out the default limit on memory where it is not what is
// tested.
func limitsOf(p *plan.Plan, check string) []plan.Limit {
	if check == "memory" {
		return p.Guard
	}
	var out []plan.Limit
	for _, l := range p.Guard {
		if l.Quantity != plan.MemoryAvailable {
			out = append(out, l)
		}
	}
	return out
}

// Models that are up together need memory together; a GPU may hold what memory
// does not.
func TestMemoryForModels(t *testing.T) {
	desktop, container := machines.Tree(t, "amd-desktop"), machines.Tree(t, "arm-container") // 49.6 GiB and a GPU; 1.5 GiB and none
	two := []Model{{Arm: "a", Bytes: 30 * gib}, {Arm: "b", Bytes: 30 * gib}}
	for name, c := range map[string]struct {
		root, plan string
		models     []Model
		level      Level
	}{
		"one after the other": {desktop, "order: blocks", two, OK},
		"together":            {desktop, "order: interleaved", two, Warn},
		"small":               {container, "", []Model{{Bytes: gib}}, OK},
		"large, no GPU":       {container, "", []Model{{Bytes: 2 * gib}}, Unfit},
	} {
		// A container whose bus can't be seen has no GPU that is known of.
		got, _ := find(Examine(Config{Root: c.root, Models: c.models, Out: "/", Plan: parse(t, "arms: [{name: a}, {name: b}]\n"+c.plan)}), "memory")
		if got.Level != c.level {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
	}
}

// A look that is too short says nothing; a plan with a limit is not met by it.
func TestShortLook(t *testing.T) {
	conf := Config{Root: machines.Tree(t, "nvidia-server"), Out: "/", Before: &Activity{At: time.Unix(0, 0)}, After: &Activity{At: time.Unix(0, 99e6), Busy: 5}}
	for text, want := range map[string]Level{"": Unknown, "noise: {cpu: 10}": Unfit} {
		conf.Plan = parse(t, "arms: [{name: a}]\n"+text)
		if c, _ := find(Examine(conf), "noise"); c.Level != want {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

func TestPrograms(t *testing.T) {
	p := parse(t, "arms: [{name: a, command: [llama-server]}, {name: b, command: [llama-server, -x]}, {name: c, command: [other]}, {name: d}]")
	for want, path := range map[string][]string{
		"the plan starts llama-server, other, which is not there": nil,
		"the plan starts other, which is not there":               {"llama-server"},
		"llama-server, other":                                     {"llama-server", "other"},
	} {
		if c, _ := find(Examine(Config{Root: machines.Tree(t, "amd-desktop"), Plan: p, LookPath: has(path...), Out: "/"}), "programs"); c.Found != want {
			t.Errorf("%v: %+v, want %s", path, c, want)
		}
	}
}

func TestTimer(t *testing.T) {
	late := make([]time.Duration, 100)
	for i := range late {
		late[i] = time.Duration(99-i) * 10 * time.Microsecond
	}
	conf := Config{Root: machines.Tree(t, "empty"), Late: late, Out: "/"}
	if c, _ := find(Examine(conf), "timer"); c.Level != OK || c.Found != "a timer of 1 ms is less than 900µs late in nine tenths of 100 tries" {
		t.Errorf("%+v", c)
	}
	for i := range late {
		late[i] *= 2
	}
	if c, _ := find(Examine(conf), "timer"); c.Level != Warn || c.Found != "a timer of 1 ms is 1.8ms late or more in a tenth of 100 tries" {
		t.Errorf("%+v", c)
	}
}

func TestBattery(t *testing.T) {
	root := machines.Own(t, "amd-desktop")
	if c, ok := find(Examine(Config{Root: root, Out: "/"}), "battery"); ok {
		t.Errorf("plugged in: %+v", c)
	}
	if err := os.WriteFile(filepath.Join(root, "sys/class/power_supply/BAT0/status"), []byte("Discharging\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, ok := find(Examine(Config{Root: root, Out: "/"}), "battery"); !ok || c.Level != Warn {
		t.Errorf("on battery: %+v", c)
	}
}

// Look reads a machine's processors and processes: in USER_HZ of a hundredth of
// a second.
func TestLook(t *testing.T) {
	a, err := Look(machines.Tree(t, "nvidia-server"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Activity{
		At: a.At, Busy: 100 + 2 + 30 + 0 + 1, All: 133 + 9000 + 5, SwapIn: 10, SwapOut: 20,
		Processes: map[int]Process{100: {"systemd", 100, 6}, 4321: {"python3 serve", 100, 97}},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if _, err := Look(machines.Tree(t, "empty")); err == nil {
		t.Error("a look at nothing")
	}
}

func TestNearest(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{dir: dir, dir + "/a/b/../c": dir, "/": "/", "assay-runs-that-are-not/x": "."} {
		if got := Nearest(path); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", path, got, want)
		}
	}
}
