package runner

import (
	"net/url"
	"path/filepath"
	"strconv"

	"assay/internal/kit/derive"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// watch begins to read this machine. Before a target is started it takes the
// baseline that the target's growth is held against.
func (s *session) watch() {
	s.around = derive.Around{}
	opt := telemetry.Options{Root: s.Root}
	opt.Disk, opt.DiskWhy = s.disk()
	s.around.Disk = opt.Disk
	s.recorder = telemetry.Open(opt)
	if s.Launch != nil {
		s.recorder.Begin()
		s.around.Baseline = telemetry.BaselineOf(s.recorder.End())
	}
}

// watchAttached watches the machine of a target that was running before, if it
// is this one: figures of this host say nothing of a target on another.
func (s *session) watchAttached() {
	if !target.Loopback(s.target.URL) {
		s.around.Why = "remote target: this host's figures say nothing of it"
		return
	}
	s.watch()
	pid, err := telemetry.Listener(s.Root, port(s.target.URL))
	if err != nil {
		s.recorder.Target(0, "attached: "+err.Error())
		return
	}
	s.recorder.Target(pid, "")
}

// disk is the one that holds the model, or why it is not known.
func (s *session) disk() (name, why string) {
	switch {
	case s.Launch == nil:
		return "", "attached: which file the server loaded is not known"
	case s.Model.Path == "":
		return "", "the model's file is not known"
	}
	path, err := filepath.Abs(s.Model.Path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		name, err = telemetry.DiskOf(s.Root, path)
	}
	if err != nil {
		return "", err.Error()
	}
	return name, ""
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
