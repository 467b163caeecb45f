// Package host reads what a machine is made of: processor, memory, system. Each
// fact is a value, or null with a reason. The name of the machine is left out
// on purpose: rows are published.
package host

import (
	"fmt"
	"maps"
	"runtime"
	"strings"

	"assay/internal/kit/proc"
)

// Host is what a row says of the machine. A nil field has its reason in Why,
// under the field's JSON name.
type Host struct {
	OS             *string           `json:"os"`             // Go's name of the system: linux
	Distribution   *string           `json:"distribution"`   // PRETTY_NAME of os-release
	Kernel         *string           `json:"kernel"`         // release, as uname -r
	Arch           *string           `json:"arch"`           // Go's name: amd64
	CPUModel       *string           `json:"cpu_model"`      //
	Sockets        *int              `json:"sockets"`        // packages
	Cores          *int              `json:"cores"`          // physical cores of all packages
	CPUs           *int              `json:"cpus"`           // hardware threads that this process may use
	Governor       *string           `json:"governor"`       // of frequency scaling; all of them where processors differ
	MemoryBytes    *int64            `json:"memory_bytes"`   // MemTotal: what the kernel manages, below what is fitted
	Virtualisation *string           `json:"virtualisation"` // "none", or the hypervisor and container as far as they can be told
	Detail                           // its reasons are in Why as well
	Why            map[string]string `json:"why,omitempty"`
}

// Read collects the facts below root, which is "/" but in tests.
func Read(root string) Host {
	h := basics(root)
	h.Detail = ReadDetail(root)
	maps.Copy(h.Why, h.Detail.Why)
	h.Detail.Why = nil
	return h
}

// basics are the facts without the detail.
func basics(root string) Host {
	h := Host{OS: ptr(runtime.GOOS), Arch: ptr(runtime.GOARCH), Why: map[string]string{}}
	r := readerOf(root, h.Why)
	h.Kernel = r.line("kernel", "proc/sys/kernel/osrelease")
	h.Distribution = r.distribution()
	r.cpu(&h)
	h.Governor = r.governor()
	h.MemoryBytes = r.memory()
	h.Virtualisation = r.virtualisation()
	return h
}

// reader reads files below a root and keeps the reason where it can't.
type reader struct {
	proc.Root
	why map[string]string
}

func readerOf(root string, why map[string]string) reader { return reader{proc.Root(root), why} }

func (r *reader) null(field, format string, args ...any) {
	r.why[field] = fmt.Sprintf(format, args...)
}

// line returns a file of one line.
func (r *reader) line(field, path string) *string {
	s, err := r.Read(path)
	if err != nil {
		r.null(field, "%v", err)
		return nil
	}
	s = strings.TrimSpace(s)
	if s == "" {
		r.null(field, "/%s: empty", path)
		return nil
	}
	return &s
}

func (r *reader) distribution() *string {
	var firstErr error
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		s, err := r.Read(path)
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			continue
		}
		for line := range strings.Lines(s) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return ptr(strings.Trim(v, `"'`))
			}
		}
		r.null("distribution", "/%s: no PRETTY_NAME", path)
		return nil
	}
	r.null("distribution", "%v", firstErr)
	return nil
}

func (r *reader) memory() *int64 {
	v := r.meminfo("memory_bytes", "MemTotal")
	if v != nil && *v == 0 {
		r.null("memory_bytes", "/proc/meminfo: MemTotal is 0")
		return nil
	}
	return v
}

// meminfo reads one line of /proc/meminfo, in bytes.
func (r *reader) meminfo(field, name string) *int64 {
	v, err := r.Meminfo(name)
	if err != nil {
		r.null(field, "%v", err)
		return nil
	}
	return &v
}

func ptr[T any](v T) *T { return &v }
