package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Detail is what a machine is made of beyond Host: what explains why two
// machines of one processor differ. A nil field has its reason in Why, under the
// field's JSON name; an empty list means that there is none of the kind.
type Detail struct {
	Caches      []Cache           `json:"caches"`      // of the processors, from the smallest level up
	NUMANodes   []Node            `json:"numa_nodes"`  // memory nodes; one on most machines
	SMT         *bool             `json:"smt"`         // cores run several hardware threads
	Microcode   *string           `json:"microcode"`   // revision of the processors; all of them where they differ
	Mitigations map[string]string `json:"mitigations"` // by weakness, of those that the processors have
	HugePages   *string           `json:"huge_pages"`  // mode of transparent huge pages: always, madvise, never
	Clock       *string           `json:"clock"`       // source of the kernel's clock: tsc where all is well
	SwapBytes   *int64            `json:"swap_bytes"`  // SwapTotal
	GPUs        []GPU             `json:"gpus"`        // on PCI that could compute; display adapters of servers are left out
	Why         map[string]string `json:"why,omitempty"`
}

// Cache is one kind of cache.
type Cache struct {
	Level    int    `json:"level"`
	Type     string `json:"type"`      // Data, Instruction or Unified
	Bytes    int64  `json:"bytes"`     // of each
	Count    int    `json:"count"`     // how many there are
	SharedBy int    `json:"shared_by"` // hardware threads that share one
}

// Node is one NUMA node.
type Node struct {
	ID          int    `json:"id"`
	CPUs        string `json:"cpus"`         // kernel list, such as "0-15,32-47"; empty: memory only
	MemoryBytes int64  `json:"memory_bytes"` // 0: processors only
}

// ReadDetail collects the details below root, which is "/" but in tests.
func ReadDetail(root string) Detail {
	d := Detail{Why: map[string]string{}}
	r := readerOf(root, d.Why)
	d.Caches = r.caches()
	d.NUMANodes = r.nodes()
	d.SMT = r.smt()
	d.Microcode = r.microcode()
	d.Mitigations = r.mitigations()
	d.HugePages = r.hugePages()
	d.Clock = r.line("clock", "sys/devices/system/clocksource/clocksource0/current_clocksource")
	d.SwapBytes = r.meminfo("swap_bytes", "SwapTotal")
	d.GPUs = r.gpus()
	return d
}

func (r *reader) caches() []Cache {
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"
	seen := map[string]bool{}
	var out []Cache
	for _, dir := range r.Glob(pattern) {
		level, err := strconv.Atoi(r.Trimmed(dir + "/level"))
		bytes, ok := parseKM(r.Trimmed(dir + "/size"))
		if err != nil || !ok {
			continue
		}
		c := Cache{Level: level, Type: r.Trimmed(dir + "/type"), Bytes: bytes, Count: 1}
		shared := r.Trimmed(dir + "/shared_cpu_list")
		// One cache is seen from every processor that shares it.
		key := fmt.Sprint(c.Level, c.Type, shared)
		if seen[key] {
			continue
		}
		seen[key] = true
		c.SharedBy, _ = countList(shared)
		i := slices.IndexFunc(out, func(o Cache) bool {
			o.Count = 1
			return o == c
		})
		if i >= 0 {
			out[i].Count++
			continue
		}
		out = append(out, c)
	}
	if out == nil {
		r.null("caches", "/%s: no readable cache", pattern)
		return nil
	}
	slices.SortStableFunc(out, func(a, b Cache) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), strings.Compare(a.Type, b.Type))
	})
	return out
}

// parseKM reads the kernel's sizes of caches: "48K", "32M".
func parseKM(s string) (int64, bool) {
	factor := int64(1)
	if n, ok := strings.CutSuffix(s, "K"); ok {
		s, factor = n, 1<<10
	} else if n, ok := strings.CutSuffix(s, "M"); ok {
		s, factor = n, 1<<20
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v <= 0 || v > 1<<40 {
		return 0, false
	}
	return v * factor, true
}

func (r *reader) nodes() []Node {
	const pattern = "sys/devices/system/node/node[0-9]*"
	var out []Node
	for _, dir := range r.Glob(pattern) {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		n := Node{ID: id, CPUs: r.Trimmed(dir + "/cpulist")}
		for line := range strings.Lines(r.Trimmed(dir + "/meminfo")) {
			if f := strings.Fields(line); len(f) == 5 && f[2] == "MemTotal:" {
				if kib, err := strconv.ParseInt(f[3], 10, 64); err == nil {
					n.MemoryBytes = kib * 1024
				}
			}
		}
		out = append(out, n)
	}
	if out == nil {
		r.null("numa_nodes", "/%s: not there (the kernel was built without NUMA, or /sys is not to be seen)", pattern)
	}
	return out
}

func (r *reader) smt() *bool {
	s := r.line("smt", "sys/devices/system/cpu/smt/active")
	switch {
	case s == nil:
		return nil
	case *s == "1":
		return ptr(true)
	case *s == "0":
		return ptr(false)
	}
	r.null("smt", "/sys/devices/system/cpu/smt/active is %q (want 0 or 1)", *s)
	return nil
}

func (r *reader) microcode() *string {
	s, err := r.Read("proc/cpuinfo")
	if err != nil {
		r.null("microcode", "%v", err)
		return nil
	}
	var found []string
	for line := range strings.Lines(s) {
		key, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); strings.TrimSpace(key) == "microcode" && value != "" && !slices.Contains(found, value) {
			found = append(found, value)
		}
	}
	if found == nil {
		r.null("microcode", "/proc/cpuinfo: no microcode (only x86 kernels tell it)")
		return nil
	}
	return ptr(strings.Join(found, ", "))
}

// mitigations lists the weaknesses that the processors have, with what the
// kernel does about them: it costs time.
func (r *reader) mitigations() map[string]string {
	const dir = "sys/devices/system/cpu/vulnerabilities"
	files := r.Glob(dir + "/*")
	if len(files) == 0 {
		r.null("mitigations", "/%s: not there", dir)
		return nil
	}
	out := map[string]string{}
	for _, f := range files {
		if s := r.Trimmed(f); s != "" && s != "Not affected" {
			out[filepath.Base(f)] = s
		}
	}
	return out
}

// hugePages picks the mode in brackets: "always [madvise] never".
func (r *reader) hugePages() *string {
	const path = "sys/kernel/mm/transparent_hugepage/enabled"
	s := r.line("huge_pages", path)
	if s == nil {
		return nil
	}
	_, after, ok := strings.Cut(*s, "[")
	mode, _, closed := strings.Cut(after, "]")
	if !ok || !closed {
		r.null("huge_pages", "/%s is %q (want one mode in brackets)", path, *s)
		return nil
	}
	return &mode
}
