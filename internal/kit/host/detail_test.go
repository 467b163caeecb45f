package host

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/proc/machines"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a value as JSON with a file below testdata.
func golden(t *testing.T, name string, got any) {
	t.Helper()
	data, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(data)); diff != "" {
		t.Errorf("%s (-update writes it anew): want -, got +:\n%s", path, diff)
	}
}

// The golden files were compared with the trees by hand.
func TestReadDetail(t *testing.T) {
	for _, name := range []string{"amd-vm", "amd-desktop", "nvidia-server", "arm-container", "empty"} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".detail.json", ReadDetail(machines.Tree(t, name)))
		})
	}
}

// Every field of a detail is there, or has a reason.
func TestEveryNullHasAReason(t *testing.T) {
	roots := map[string]string{"this machine": "/"}
	for _, name := range []string{"amd-vm", "amd-desktop", "desktop", "nvidia-server", "arm-container", "empty"} {
		roots[name] = machines.Tree(t, name)
	}
	for name, root := range roots {
		d := ReadDetail(root)
		check(t, name, d, d.Why)
		for _, g := range d.GPUs {
			check(t, name+" "+g.Slot, g, g.Why)
		}
		for _, path := range []string{"/", "/models/x.gguf", "/home/x", "/data/x", "/nowhere", "relative"} {
			disk := ReadDisk(root, path)
			check(t, name+" "+path, disk, disk.Why)
		}
	}
}

func check(t *testing.T, where string, v any, why map[string]string) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		if name == "why" {
			continue
		}
		if reason, ok := why[name]; (value == nil) != ok || ok && reason == "" {
			t.Errorf("%s: %s is %v, its reason %q", where, name, value, reason)
		}
	}
}

func TestReadDisk(t *testing.T) {
	no := func(why string, fields ...string) map[string]string {
		out := map[string]string{}
		for _, f := range fields {
			out[f] = why
		}
		return out
	}
	none := []string{}
	for _, c := range []struct {
		tree, path string
		want       Disk
	}{
		{"amd-vm", "/models/m.gguf", Disk{
			FileSystem: ptr("ext4"), Kind: ptr("virtio"), Device: ptr("vda"), Below: none, Rotational: ptr(true),
			Why: no("/sys/block/vda/device/model: not there (virtio disks have none)", "model"),
		}},
		{"amd-vm", "/dev/shm/m.gguf", Disk{
			FileSystem: ptr("tmpfs"), Kind: ptr("memory"), Below: none,
			Why: no("tmpfs is no file system on a disk of this machine", "device", "model", "rotational"),
		}},
		{"nvidia-server", "/data/m.gguf", Disk{
			FileSystem: ptr("xfs"), Kind: ptr("nvme"), Device: ptr("md0"), Below: []string{"nvme1n1", "nvme2n1"},
			Model: ptr("KIOXIA KCD8XRUG7T68"), Rotational: ptr(false), Why: no(""),
		}},
		{"nvidia-server", "/data2/m.gguf", Disk{ // not below /data
			FileSystem: ptr("ext4"), Kind: ptr("nvme"), Device: ptr("nvme0n1"), Below: none,
			Model: ptr("SAMSUNG MZQL21T9HCJR-00A07"), Rotational: ptr(false), Why: no(""),
		}},
		{"nvidia-server", "/data/my models/m.gguf", Disk{
			FileSystem: ptr("squashfs"), Kind: ptr("loop"), Device: ptr("loop3"), Below: none, Rotational: ptr(false),
			Why: no("/sys/block/loop3/device/model: not there (loop disks have none)", "model"),
		}},
		{"nvidia-server", "/home/me/m.gguf", Disk{
			FileSystem: ptr("nfs4"), Kind: ptr("network"), Below: none,
			Why: no("nfs4 is no file system on a disk of this machine", "device", "model", "rotational"),
		}},
		{"amd-desktop", "/home/me/m.gguf", Disk{ // btrfs on an encrypted partition
			FileSystem: ptr("btrfs"), Kind: ptr("nvme"), Device: ptr("dm-0"), Below: []string{"nvme0n1"},
			Model: ptr("WD_BLACK SN850X 2000GB"), Rotational: ptr(false), Why: no(""),
		}},
		{"amd-desktop", "/mnt/models/m.gguf", Disk{ // mounted over a tmpfs
			FileSystem: ptr("ext4"), Kind: ptr("sata"), Device: ptr("sda"), Below: none,
			Model: ptr("ST8000DM004-2CX1"), Rotational: ptr(true), Why: no(""),
		}},
		{"amd-desktop", "/mnt/stick/m.gguf", Disk{
			FileSystem: ptr("exfat"), Below: none,
			Why: no("/sys/block has no disk with the number 8:17, which exfat has", "kind", "device", "model", "rotational"),
		}},
		{"arm-container", "/models/m.gguf", Disk{
			FileSystem: ptr("ext4"), Kind: ptr("nvme"), Device: ptr("nvme0n1"), Below: none,
			Model: ptr("Amazon Elastic Block Store"), Rotational: ptr(false), Why: no(""),
		}},
		{"arm-container", "/m.gguf", Disk{
			FileSystem: ptr("overlay"), Below: none,
			Why: no("overlay: a container's file system, which does not tell its disk (put the model on a volume)", "kind", "device", "model", "rotational"),
		}},
		{"empty", "/m.gguf", Disk{
			Below: none,
			Why:   no("/proc/self/mountinfo: no such file or directory", "file_system", "kind", "device", "model", "rotational"),
		}},
	} {
		if diff := cmp.Diff(c.want, ReadDisk(machines.Tree(t, c.tree), c.path)); diff != "" {
			t.Errorf("%s %s: want -, got +:\n%s", c.tree, c.path, diff)
		}
	}
}

// What is known of a model's files, and what is not when there are none.
func TestReadModel(t *testing.T) {
	root := machines.Own(t, "nvidia-server")
	for _, name := range []string{"data/a.gguf", "data/b.gguf"} {
		if err := os.MkdirAll(filepath.Join(root, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), make([]byte, 1<<16), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := ReadModel(root, []string{"/data/a.gguf", "/data/b.gguf"}, "")
	if m.Disk.Device == nil || *m.Disk.Device != "md0" {
		t.Errorf("disk %+v", m.Disk)
	}
	if linux := m.Why == ""; linux != (m.PageCachePercent != nil) || linux && *m.PageCachePercent != 100 { // just written
		t.Errorf("%v, %q", m.PageCachePercent, m.Why)
	}
	m = ReadModel(root, []string{"/data/none.gguf"}, "")
	if m.PageCachePercent != nil || m.Why != "the model's file: stat: no such file or directory" {
		t.Errorf("%v, %q", m.PageCachePercent, m.Why)
	}
	m = ReadModel(root, nil, "attached")
	check(t, "no files", m.Disk, m.Disk.Why)
	if m.PageCachePercent != nil || m.Why != "attached" || m.Disk.Why["device"] != "attached" {
		t.Errorf("%+v", m)
	}
}

// A model behind a symbolic link lies where the link leads.
func TestReadDiskFollowsLinks(t *testing.T) {
	root := machines.Own(t, "amd-desktop")
	for _, dir := range []string{"mnt/models", "home/me"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "mnt/models/m.gguf"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../mnt/models/m.gguf", filepath.Join(root, "home/me/m.gguf")); err != nil {
		t.Fatal(err)
	}
	if d := ReadDisk(root, "/home/me/m.gguf"); d.Device == nil || *d.Device != "sda" {
		t.Errorf("%+v", d)
	}
}

// What tells a virtual machine, and what does not.
func TestVirtualisation(t *testing.T) {
	const (
		x86   = "model name : x\nflags : fpu sse\n"
		x86VM = "model name : x\nflags : fpu hypervisor sse\n"
		arm   = "processor : 0\nFeatures : fp asimd\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // empty: not known
	}{
		{"a desktop", map[string]string{"proc/cpuinfo": x86, "sys/class/dmi/id/sys_vendor": "ASUS"}, "none"},
		{"no DMI, but flags", map[string]string{"proc/cpuinfo": x86}, "none"},
		{"the bit alone", map[string]string{"proc/cpuinfo": x86VM}, "vm: unnamed hypervisor"},
		{"qemu", map[string]string{"proc/cpuinfo": x86VM, "sys/class/dmi/id/sys_vendor": "QEMU"}, "vm: qemu"},
		{"qemu that hides", map[string]string{"proc/cpuinfo": x86, "sys/class/dmi/id/sys_vendor": "QEMU"}, "vm: qemu"},
		{"a cloud before its hypervisor", map[string]string{"proc/cpuinfo": x86VM, "sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/bios_vendor": "Xen"}, "vm: amazon"},
		{"a whole machine of a cloud", map[string]string{"proc/cpuinfo": x86, "sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "m7i.metal-24xl"}, "none"},
		{"a cloud on ARM", map[string]string{"proc/cpuinfo": arm, "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "vm: amazon"},
		{"xen", map[string]string{"proc/cpuinfo": x86VM, "sys/hypervisor/type": "xen\n"}, "vm: xen"},
		{"a device tree", map[string]string{"proc/cpuinfo": arm, "proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, "vm: kvm"},
		{"ARM, nothing to tell by", map[string]string{"proc/cpuinfo": arm}, ""},
		{"wsl", map[string]string{"proc/cpuinfo": x86VM, "proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}, "vm: wsl"},
		{"docker on a real machine", map[string]string{"proc/cpuinfo": x86, ".dockerenv": ""}, "container: docker"},
		{"kubernetes in a machine", map[string]string{"proc/cpuinfo": x86VM, "var/run/secrets/kubernetes.io/serviceaccount/namespace": "default"}, "vm: unnamed hypervisor, container: kubernetes"},
		{"lxc, as root", map[string]string{"proc/cpuinfo": x86, "proc/1/environ": "HOME=/\x00container=lxc\x00"}, "container: lxc"},
		{"nspawn", map[string]string{"proc/cpuinfo": x86, "run/systemd/container": "systemd-nspawn\n"}, "container: systemd-nspawn"},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h := Read(root)
		got := ""
		if h.Virtualisation != nil {
			got = *h.Virtualisation
		}
		if got != c.want || (got == "") != (h.Why["virtualisation"] != "") {
			t.Errorf("%s: %q (%s), want %q", c.name, got, h.Why["virtualisation"], c.want)
		}
	}
}

func TestTemperatures(t *testing.T) {
	for _, c := range []struct {
		tree, kind string
		want       Temperature
		n          int
		err        string
	}{
		{"amd-desktop", "cpu", Temperature{"cpu", "k10temp", "Tctl", 61.25}, 2, ""},
		{"amd-desktop", "gpu", Temperature{"gpu", "amdgpu", "mem", 62}, 4, ""},
		{"amd-desktop", "ssd", Temperature{"ssd", "nvme", "Composite", 44.85}, 2, ""},
		{"nvidia-server", "cpu", Temperature{"cpu", "coretemp", "Package id 1", 53}, 3, ""},
		{"nvidia-server", "gpu", Temperature{}, 0, "no sensor of a gpu (want amdgpu, radeon, nouveau, i915, xe); NVIDIA's driver puts none there"},
		{"amd-vm", "cpu", Temperature{}, 0, "/sys/class/hwmon: no such file or directory"},
	} {
		root := machines.Tree(t, c.tree)
		all, err := Temperatures(root, c.kind)
		hot, _ := Hottest(root, c.kind)
		if len(all) != c.n || hot != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %s: %v, %v, %v", c.tree, c.kind, all, hot, err)
		}
	}
	root := machines.Own(t, "amd-desktop")
	file := filepath.Join(root, "sys/class/hwmon/hwmon1/temp1_input")
	for _, text := range []string{"hot", "999999999", "-274000"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if hot, err := Hottest(root, "cpu"); err != nil || hot.C != 48.5 { // the other sensor
			t.Errorf("%q: %v, %v", text, hot, err)
		}
	}
}

func TestThrottled(t *testing.T) {
	if n, err := Throttled(machines.Tree(t, "nvidia-server")); n != 0+1+2+3+4*2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := Throttled(machines.Tree(t, "amd-desktop")); err == nil {
		t.Error("no counters, no error")
	}
}
