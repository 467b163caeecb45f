package runner

import (
	"errors"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/guard"
	"assay/internal/kit/host"
	"assay/internal/kit/plan"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// machine reads this machine for all targets on it, one after the other: two
// readers would disturb what they read. It is opened anew only where another disk
// is to be watched.
type machine struct {
	recorder *telemetry.Recorder // nil: nobody reads
	disk     disk
	pid      int // of the target that it looks at
	why      string
}

// disk is the one that holds an arm's model, or why it is not known.
type disk struct{ name, why string }

func (m *machine) close() {
	if m.recorder != nil {
		m.recorder.Close()
		m.recorder = nil
	}
}

// look makes the machine's reader look at a target.
func (s *session) look(l *live) *telemetry.Recorder {
	m := &s.machine
	if m.recorder != nil && m.disk != l.disk {
		m.close()
	}
	if m.recorder == nil {
		o := telemetry.Options{Root: s.Root, Disk: l.disk.name, DiskWhy: l.disk.why, WallCommand: s.Plan.WallMeter.Command, WallFile: s.Plan.WallMeter.File}
		m.recorder, m.disk, m.pid, m.why = telemetry.Open(o), l.disk, 0, ""
	}
	if m.pid != l.pid || m.why != l.pidWhy {
		m.pid, m.why = l.pid, l.pidWhy
		m.recorder.Target(l.pid, l.pidWhy)
	}
	return m.recorder
}

// baseline reads the machine before a target is started: what the target's growth
// is held against.
func (s *session) baseline(l *live) {
	l.pid, l.pidWhy = 0, "the target is not up yet"
	r := s.look(l)
	if s.Plan.InOrder() == plan.Interleaved && len(s.Plan.Arms) > 1 {
		l.around.Baseline = &telemetry.Baseline{Why: "the targets of several arms are up at once"}
		return
	}
	r.Begin()
	l.around.Baseline = telemetry.BaselineOf(r.End())
}

// attached finds out whether figures of this machine say anything of a target that
// was running before.
func (s *session) attached(l *live) {
	if !target.Loopback(l.target.URL) {
		l.around.Why = "remote target: this host's figures say nothing of it"
		return
	}
	l.watched = true
	var err error
	if l.pid, err = telemetry.Listener(s.Root, port(l.target.URL)); err != nil {
		l.pid, l.pidWhy = 0, "attached: "+err.Error()
	}
}

// diskOf is the disk that holds an arm's model.
func (s *session) diskOf(arm *plan.Arm, model string) disk {
	switch {
	case arm.Kind() == plan.Attached:
		return disk{why: "attached: which file the server loaded is not known"}
	case model == "":
		return disk{why: "the model's file is not known"}
	}
	path, err := filepath.Abs(model)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	name := ""
	if err == nil {
		name, err = telemetry.DiskOf(s.Root, path)
	}
	if err != nil {
		return disk{why: err.Error()}
	}
	return disk{name: name}
}

// modelFiles is what this machine says of an arm's model before its start.
func (s *session) modelFiles(l *live) *host.Model {
	var paths []string
	if m := &l.files.Model; l.arm.Kind() != plan.Attached && m.Path != "" {
		paths = append([]string{m.Path}, m.More...)
	}
	return host.ReadModel(s.Root, paths, l.disk.why)
}

// port is that of a URL; where it names none, its scheme's.
func port(rawURL string) int {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0
	}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// guardGrace is how long the guard leaves a target to end by itself. Memory that
// runs out does not wait longer.
const guardGrace = 2 * time.Second

// guard begins to watch the machine while a run is made. A limit that is reached
// ends the request, and stops the target with all that it started. Nil: the plan
// has no limits.
func (s *session) guard(l *live, stop func()) *guard.Watch {
	limits := s.Plan.Guard
	if len(limits) == 0 {
		return nil
	}
	src := guard.Source{Root: s.Root, PID: l.pid, Dir: s.Dir, More: s.gpuTemperature}
	return guard.Start(guard.Config{
		Limits: limits, Read: src.Reader(limits),
		Stop: func(guard.Trip) {
			stop()
			if l.target.Process != nil {
				_ = l.target.Process.Stop(guardGrace) // how it ended is no news
			}
		},
	})
}

// gpuTemperature is that of cards whose driver has no file for it.
func (s *session) gpuTemperature() guard.Reading {
	out := guard.Reading{Values: map[plan.Quantity]float64{}}
	if c, err := s.hottestGPU(); err == nil {
		out.Values[plan.GPUTemperature] = c
	}
	return out
}

// stale is from which age on a temperature says nothing of now.
const stale = 10 * time.Second

func (s *session) hottestGPU() (float64, error) {
	if s.machine.recorder == nil {
		return 0, errors.New("no GPU is read")
	}
	hottest, found := 0.0, false
	for _, r := range s.machine.recorder.Last(telemetry.GPUTemp) {
		if r.Value != nil && r.Age < stale && (!found || *r.Value > hottest) {
			hottest, found = *r.Value, true
		}
	}
	if !found {
		return 0, errors.New("no GPU tells its temperature")
	}
	return hottest, nil
}

// hottest is the highest temperature of a kind: gpu, cpu or ssd.
func (s *session) hottest(kind string) (float64, error) {
	t, err := host.Hottest(s.Root, kind)
	if err == nil {
		return t.C, nil
	}
	if kind == "gpu" {
		if c, e := s.hottestGPU(); e == nil {
			return c, nil
		}
	}
	return 0, err
}

// aroundOf is what is known of the machine around a run of a live target.
func (l *live) aroundOf(cool *derive.Cool) derive.Around {
	a := l.around
	a.Idle, a.Cool = l.idle, cool
	return a
}
