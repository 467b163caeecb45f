package target

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"assay/internal/kit/telemetry"
)

// ours sees to it that the server that answers is the one that was started. A
// port that was taken would else let another server be measured in its place.
// Where the system does not show who listens, nothing is held against it.
func (t *Target) ours() error {
	u, err := url.Parse(t.URL)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil // the scheme's own: a server behind a proxy
	}
	pid, err := telemetry.Listener("/", port)
	if err != nil || descends(pid, t.Process.root()) {
		return nil
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return fmt.Errorf("the server that answers at %s is not the one that was started: process %d (%s) listens there, so the port was taken; choose another port, or stop that process", t.URL, pid, strings.TrimSpace(string(name)))
}

// descends says whether a process is another one or a descendant of it, as far
// as /proc shows it.
func descends(pid, of int) bool {
	const deepest = 64
	for range deepest {
		if pid == of {
			return true
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		stat := string(data)
		f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(f) < 3 {
			return false
		}
		if f[2] == strconv.Itoa(of) { // the process group that it was started in
			return true
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil || parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}
