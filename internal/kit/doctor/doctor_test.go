package doctor

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/plan"
	"assay/internal/kit/proc/machines"
	"assay/internal/kit/row"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { machines.Main(m) }

// has is a PATH with a few programs.
func has(programs ...string) func(string) (string, error) {
	return func(name string) (string, error) {
		if slices.Contains(programs, name) {
			return "/usr/bin/" + name, nil
		}
		return "", fs.ErrNotExist
	}
}

func parse(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse("plan.yaml", []byte(text), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const gib = 1 << 30

// The report for people, of machines of several kinds. The golden files were
// read through by hand.
func TestReport(t *testing.T) {
	quiet := &Activity{At: time.Unix(100, 0), All: 100, Busy: 10}
	later := &Activity{At: time.Unix(102, 0), All: 108, Busy: 10.1}
	for name, c := range map[string]struct {
		tree   string
		plan   string
		models []Model
		path   []string
	}{
		"vm": {"amd-vm", "arms: [{name: a, model: builtin:seedling}]", []Model{{Arm: "a", Built: true, Bytes: 7 << 20}}, nil},
		"server": {
			"nvidia-server", "name: two engines\narms: [{name: a, model: /data/m.gguf}, {name: b, command: [llama-server, $(model)], model: /data/m.gguf}]\nrequire: [gpu_energy, disk_reads]\nmin_seconds: 12",
			[]Model{{Arm: "a", Path: "/data/m.gguf", Bytes: 40 * gib}, {Arm: "b", Path: "/data/m.gguf", Bytes: 40 * gib}},
			[]string{"nvidia-smi", "llama-server"},
		},
		"desktop": {
			"amd-desktop", "name: sweep\narms: [{name: a, model: /mnt/models/m.gguf}]\nnoise: {swap_used: 100MiB, governor: performance, throttling: refused}\nguard: {gpu_temperature: 90, run_time: 5m}",
			[]Model{{Arm: "a", Path: "/mnt/models/m.gguf", Bytes: 60 * gib}},
			nil,
		},
		"container": {"arm-container", "arms: [{name: a, command: [x, $(model)], model: /models/m.gguf}]\nrequire: [energy]", []Model{{Arm: "a", Path: "/models/m.gguf", Bytes: 4 * gib}}, []string{"x"}},
		"nothing":   {"empty", "arms: [{name: far, url: \"http://10.0.0.1:80\"}]", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, c.plan)
			p.Guard = slices.DeleteFunc(p.Guard, func(l plan.Limit) bool { return l.Quantity == plan.DiskFree })
			conf := Config{Root: machines.Tree(t, c.tree), Plan: p, Models: c.models, LookPath: has(c.path...), Out: t.TempDir()}
			if c.tree != "empty" {
				conf.Before, conf.After = quiet, later
			}
			text := freeSpace.ReplaceAllString(Examine(conf).Text(), "SOME free")
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("%s (-update writes it anew): want -, got +:\n%s", path, diff)
			}
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > width && strings.Count(line, " ") > 60 {
					t.Errorf("a line of %d characters: %s", n, line)
				}
			}
		})
	}
}

// What doctor says of figures covers the row: every measured field of the
// telemetry belongs to a figure, and every field named here is in a row.
func TestFiguresCoverTheRow(t *testing.T) {
	var named []string
	for _, f := range figures {
		named = append(named, f.fields...)
	}
	inRow := map[string]bool{}
	for _, f := range row.Fields {
		inRow[f.Path] = true
		if !strings.HasPrefix(f.Path, "telemetry.") || f.Unit == "" || strings.HasPrefix(f.Path, "telemetry.window.t") || f.Path == "telemetry.window.seconds" {
			continue
		}
		if !slices.ContainsFunc(named, func(n string) bool { return f.Path == n || strings.HasPrefix(f.Path, n+".") }) {
			t.Errorf("doctor says nothing of %s: it belongs into figures.go", f.Path)
		}
	}
	for _, n := range named {
		if !inRow[n] {
			t.Errorf("a row has no field %s", n)
		}
	}
	for _, r := range plan.Requirements {
		if len(provides[r]) == 0 {
			t.Errorf("a plan may demand %s, of which doctor knows nothing", r)
		}
		for _, name := range provides[r] {
			if !slices.ContainsFunc(Examine(Config{Root: machines.Tree(t, "empty")}).Figures, func(f Figure) bool { return f.Name == name }) {
				t.Errorf("%s is met by %s, which is no figure", r, name)
			}
		}
	}
}

func ask(t *testing.T, c Config, name string) Answer {
	t.Helper()
	for _, f := range Examine(c).Figures {
		if f.Name == name {
			return f.Answer
		}
	}
	t.Fatalf("no figure %s", name)
	return Answer{}
}

// A figure that can't be measured says why and what to do.
func TestAnswers(t *testing.T) {
	denied := func(path string) ([]byte, error) {
		if strings.HasSuffix(path, "energy_uj") {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
		}
		return os.ReadFile(path)
	}
	server, desktop := machines.Tree(t, "nvidia-server"), machines.Tree(t, "amd-desktop")
	for name, c := range map[string]struct {
		config Config
		figure string
		want   Answer
	}{
		"RAPL for root only": {Config{Root: server, ReadFile: denied}, "package_energy", Answer{
			Why: "/sys/class/powercap/intel-rapl:1/energy_uj: permission denied: only root may read it, since it can leak secrets (CVE-2020-8694)",
			Do:  "run as root, or until the next boot: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj",
		}},
		"RAPL":             {Config{Root: server}, "package_energy", Answer{Can: true, Source: "RAPL, 2 of 2 packages", Note: "NOT WALL: the processor packages only"}},
		"no tool":          {Config{Root: server}, "gpu_energy", Answer{Why: "neither assay-nvml nor nvidia-smi is in PATH", Do: "build cmd/assay-nvml into PATH, or install nvidia-smi (nvidia-utils)"}},
		"the better tool":  {Config{Root: server, LookPath: has("assay-nvml", "nvidia-smi")}, "gpu_energy", Answer{Can: true, Source: "NVML through assay-nvml, 2 GPUs"}},
		"the other tool":   {Config{Root: server, LookPath: has("nvidia-smi")}, "gpu_energy", Answer{Can: true, Source: "nvidia-smi, 2 GPUs", Note: "without assay-nvml there is no energy counter, only power"}},
		"NVIDIA's driver":  {Config{Root: server, LookPath: has("nvidia-smi")}, "power_limit", Answer{Can: true, Source: "nvidia-smi, 2 GPUs"}},
		"AMD":              {Config{Root: desktop}, "gpu_energy", Answer{Can: true, Source: "/sys/class/hwmon/hwmon2/power1_average of amdgpu"}},
		"one GPU of two":   {Config{Root: desktop}, "power_limit", Answer{Can: true, Source: "/sys/class/hwmon/hwmon2/power1_cap of amdgpu", Note: "of 1 of the 2 GPUs only"}},
		"another's answer": {Config{Root: desktop, Answers: map[string]Answer{"gpu_energy": {Can: true, Source: "a test"}}}, "gpu_energy", Answer{Can: true, Source: "a test"}},
		"no meter":         {Config{Root: desktop, Plan: parse(t, "arms: [{name: a}]\nwall_meter: {command: [meter]}")}, "wall_energy", Answer{Why: "the wall meter's command meter is not there", Do: "install it, or give its path"}},
		"a meter":          {Config{Root: desktop, LookPath: has("meter"), Plan: parse(t, "arms: [{name: a}]\nwall_meter: {command: [meter]}")}, "wall_energy", Answer{Can: true, Source: "the command meter"}},
		"no tokenizer":     {Config{Root: desktop, Plan: parse(t, "arms: [{name: a, url: \"http://x\"}, {name: b, model: m}]")}, "token_count", Answer{Why: "no tokenizer is known for a, unless the server has one to ask", Do: "give the arm a tokenizer: the model's GGUF file"}},
		"a model on NFS": {Config{Root: server, Models: []Model{{Arm: "a", Path: "/home/m.gguf"}}}, "disk_reads", Answer{
			Why: "the model of a: nfs4 is no file system on a disk of this machine", Do: "put the model on a local disk",
		}},
		"a model on an array": {Config{Root: server, Models: []Model{{Arm: "a", Path: "/data/m.gguf"}}}, "disk_reads", Answer{Can: true, Source: "/proc/diskstats, md0"}},
	} {
		if diff := cmp.Diff(c.want, ask(t, c.config, c.figure)); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
	}
}

// freeSpace is the one thing in a report that is not of the tree.
var freeSpace = regexp.MustCompile(`[0-9.]+[KMGT]iB free`)
