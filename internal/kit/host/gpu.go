package host

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// GPU is one graphics processor, as far as /sys and /proc tell without asking
// its driver. A nil field has its reason in Why.
type GPU struct {
	Vendor        string            `json:"vendor"` // nvidia, amd, intel, or the PCI number
	Name          *string           `json:"name"`
	PCIID         string            `json:"pci_id"` // vendor:device, "10de:2335"
	Slot          string            `json:"slot"`   // "0000:41:00.0"
	Driver        *string           `json:"driver"`
	DriverVersion *string           `json:"driver_version"`
	MemoryBytes   *int64            `json:"memory_bytes"`
	Why           map[string]string `json:"why,omitempty"`
}

var gpuVendors = map[string]string{"10de": "nvidia", "1002": "amd", "8086": "intel"}

// displayOnly are the vendors of adapters that show a picture and compute
// nothing: management controllers and the cards of virtual machines.
var displayOnly = []string{
	"1a03", // ASPEED
	"102b", // Matrox
	"1234", // Bochs, QEMU's standard card
	"1013", // Cirrus
	"15ad", // VMware
	"1af4", // virtio
	"1b36", // QXL
	"1414", // Hyper-V
	"80ee", // VirtualBox
}

// gpus lists the PCI devices of class 03, display controller. A GPU that is part
// of the chip is not on a bus, and not seen.
func (r *reader) gpus() []GPU {
	const dir = "sys/bus/pci/devices"
	if _, err := r.dir(dir); err != nil {
		r.null("gpus", "%v", err)
		return nil
	}
	out := []GPU{}
	for _, dev := range r.Glob(dir + "/*") {
		class := strings.TrimPrefix(r.Trimmed(dev+"/class"), "0x")
		vendor := strings.TrimPrefix(r.Trimmed(dev+"/vendor"), "0x")
		if !strings.HasPrefix(class, "03") || vendor == "" || slices.Contains(displayOnly, vendor) {
			continue
		}
		out = append(out, r.gpu(dev, vendor))
	}
	return out
}

func (r *reader) gpu(dev, vendor string) GPU {
	g := GPU{
		Vendor: vendor, Slot: filepath.Base(dev), Why: map[string]string{},
		PCIID: vendor + ":" + strings.TrimPrefix(r.Trimmed(dev+"/device"), "0x"),
	}
	if name, ok := gpuVendors[vendor]; ok {
		g.Vendor = name
	}
	for line := range strings.Lines(r.Trimmed(dev + "/uevent")) {
		if driver, ok := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); ok {
			g.Driver = &driver
		}
	}
	if g.Driver == nil {
		const why = "no driver is bound to it"
		g.Why["driver"], g.Why["driver_version"] = why, why
	} else if g.DriverVersion = r.driverVersion(*g.Driver); g.DriverVersion == nil {
		g.Why["driver_version"] = "the driver has none of its own: it comes with the kernel"
	}
	g.Name = r.gpuName(dev, g)
	if g.Name == nil {
		g.Why["name"] = "neither /sys nor /proc has it; pci_id says which it is"
	}
	if v, err := strconv.ParseInt(r.Trimmed(dev+"/mem_info_vram_total"), 10, 64); err == nil && v > 0 {
		g.MemoryBytes = &v
	} else {
		g.Why["memory_bytes"] = "/sys does not tell it; only amdgpu puts it there"
	}
	return g
}

// nvidiaVersion finds the version in /proc/driver/nvidia/version, whose first
// line names the module, open or not, and then the version.
var nvidiaVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s`)

func (r *reader) driverVersion(driver string) *string {
	if driver == "nvidia" {
		if s, err := r.Read("proc/driver/nvidia/version"); err == nil {
			if m := nvidiaVersion.FindStringSubmatch(s); m != nil {
				return &m[1]
			}
		}
	}
	if s := r.Trimmed("sys/module/" + driver + "/version"); s != "" {
		return &s
	}
	return nil
}

func (r *reader) gpuName(dev string, g GPU) *string {
	if g.Vendor == "nvidia" {
		for line := range strings.Lines(r.Trimmed("proc/driver/nvidia/gpus/" + g.Slot + "/information")) {
			if name, ok := strings.CutPrefix(line, "Model:"); ok {
				return ptr(strings.TrimSpace(name))
			}
		}
	}
	if s := r.Trimmed(dev + "/product_name"); s != "" { // amdgpu, of boards that have it
		return &s
	}
	return nil
}
