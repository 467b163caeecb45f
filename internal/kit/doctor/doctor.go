// Package doctor says what a machine can measure, and whether it is fit for what
// a plan asks of it. For each figure of a row: it can be measured, and from
// where, or it can't, why, and what to do about it. For the machine: what would
// disturb the measurement, held against the plan's limits.
//
// What the plan demands and the machine can't be seen to give makes the machine
// unfit. All else is a warning: whoever asks for nothing is refused nothing.
package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"assay/internal/kit/host"
	"assay/internal/kit/plan"
)

// Config is what to examine, and how. The zero values of Root, LookPath and
// ReadFile are this machine's own.
type Config struct {
	Root     string
	LookPath func(program string) (string, error)
	ReadFile func(path string) ([]byte, error)

	Plan   *plan.Plan
	Models []Model // of the plan's arms
	Out    string  // folder that the rows will go to, or the nearest one above it that is there

	// Before and After are what ran on the machine at two moments. Nil: nobody
	// looked.
	Before, After *Activity
	// Late is how late a timer of a millisecond rang, for the lag of a client.
	Late []time.Duration

	// Answers are given by others, by the figure's name, and go before this
	// package's own: the telemetry that will do the reading knows best.
	Answers map[string]Answer
}

// Model is a model file that an arm loads.
type Model struct {
	Arm   string `json:"arm"`
	Path  string `json:"-"` // as the plan has it; rows and reports leave it out
	Built bool   `json:"built_in"`
	Bytes int64  `json:"bytes"` // all its parts together
}

// Answer says whether a figure can be measured.
type Answer struct {
	Can    bool   `json:"can"`
	Source string `json:"source,omitempty"` // where from
	Why    string `json:"why,omitempty"`    // why not
	Do     string `json:"do,omitempty"`     // what to do about it; empty: nothing can be done
	Note   string `json:"note,omitempty"`   // what to know when reading it
}

// Figure is one figure of a row, or a group of them.
type Figure struct {
	Name   string   `json:"figure"`
	What   string   `json:"what"`
	Fields []string `json:"fields"` // their paths in a row; a group stands for all below it
	Answer
}

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Unknown Level = "unknown" // it can't be seen; nothing was demanded
	Warn    Level = "warn"    // it may disturb; nothing was demanded
	Unfit   Level = "unfit"   // the plan demands otherwise
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// Report is all of it.
type Report struct {
	Fit     bool        `json:"fit"` // no check is unfit
	Plan    string      `json:"plan,omitempty"`
	Host    host.Host   `json:"host"`
	Disks   []ModelDisk `json:"disks"`
	Figures []Figure    `json:"figures"`
	Checks  []Check     `json:"checks"`
}

// ModelDisk is where an arm's model lies.
type ModelDisk struct {
	Arm string `json:"arm"`
	host.Disk
}

// Examine looks at the machine. It reads and runs nothing that takes long.
func Examine(c Config) Report {
	if c.Root == "" {
		c.Root = "/"
	}
	if c.ReadFile == nil {
		c.ReadFile = os.ReadFile
	}
	if c.LookPath == nil {
		c.LookPath = func(string) (string, error) { return "", fs.ErrNotExist }
	}
	if c.Plan == nil {
		p := plan.Defaults()
		c.Plan = &p
	}
	m := &machine{Config: c, host: host.Read(c.Root)}
	for _, model := range c.Models {
		if !model.Built {
			m.disks = append(m.disks, ModelDisk{model.Arm, host.ReadDisk(c.Root, absolute(model.Path))})
		}
	}
	r := Report{Plan: c.Plan.Name, Host: m.host, Disks: m.disks}
	for _, d := range figures {
		f := Figure{Name: d.name, What: d.what, Fields: d.fields}
		if a, ok := c.Answers[d.name]; ok {
			f.Answer = a
		} else {
			f.Answer = d.ask(m)
		}
		r.Figures = append(r.Figures, f)
	}
	m.figures = r.Figures
	m.examine()
	r.Checks = m.checks
	r.Fit = true
	for _, check := range r.Checks {
		r.Fit = r.Fit && check.Level != Unfit
	}
	return r
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// machine is what is known of the machine while it is examined.
type machine struct {
	Config
	host    host.Host
	disks   []ModelDisk
	figures []Figure
	checks  []Check
}

// read is a file of the machine, trimmed. The error names the path as it is
// there, without the root.
func (m *machine) read(path string) (string, error) {
	data, err := m.ReadFile(filepath.Join(m.Root, path))
	if err != nil {
		if pe, ok := err.(*fs.PathError); ok {
			err = pe.Err
		}
		return "", fmt.Errorf("/%s: %w", path, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// glob lists paths below the root, without it.
func (m *machine) glob(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(m.Root, pattern))
	var out []string
	for _, f := range found {
		if rel, err := filepath.Rel(m.Root, f); err == nil {
			out = append(out, rel)
		}
	}
	return out
}

// virtual says whether the machine is a virtual one.
func (m *machine) virtual() bool {
	return m.host.Virtualisation != nil && strings.HasPrefix(*m.host.Virtualisation, "vm:")
}

// gpusOf counts the GPUs of a vendor.
func (m *machine) gpusOf(vendor string) int {
	n := 0
	for _, g := range m.host.GPUs {
		if g.Vendor == vendor {
			n++
		}
	}
	return n
}

func linux() bool { return runtime.GOOS == "linux" }
