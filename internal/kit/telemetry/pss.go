package telemetry

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"assay/internal/kit/proc"
)

// pssSource reads the proportional memory of the target's tree. The kernel walks
// all pages for it and holds the target's memory map meanwhile, so it is read
// outside a window only.
type pssSource struct {
	root   root
	target func() (pid int, why string)
}

func (pssSource) source() string { return "proportional memory" }

func (s pssSource) read(r *reading) {
	pid, why := s.target()
	if pid == 0 {
		r.fail(errors.New(why), PSS)
		return
	}
	sum := 0.0
	for i, p := range s.root.Tree(pid) {
		v, err := s.one(p)
		if err != nil && (i == 0 || !errors.Is(err, os.ErrNotExist)) {
			r.fail(err, PSS)
			return
		}
		sum += v
	}
	r.set(PSS, "", sum)
}

func (s pssSource) one(pid int) (float64, error) {
	path := "proc/" + strconv.Itoa(pid) + "/smaps_rollup"
	text, err := s.root.Read(path)
	if errors.Is(err, os.ErrNotExist) { // before Linux 4.14
		path = "proc/" + strconv.Itoa(pid) + "/smaps"
		text, err = s.root.Read(path)
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return 0, fmt.Errorf("%w: only the target's own user may read it", err)
	case err != nil:
		return 0, err
	}
	sum, err := sumPSS(text)
	if err != nil {
		return 0, fmt.Errorf("/%s: %w", path, err)
	}
	return sum, nil
}

// sumPSS adds up the lines "Pss: 12 kB" of smaps or smaps_rollup, in bytes.
func sumPSS(text string) (float64, error) {
	sum := uint64(0)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "Pss:")
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 2 || f[1] != "kB" {
			return 0, fmt.Errorf("%q is not a number of kB", proc.Clip(strings.TrimSpace(line)))
		}
		n, err := strconv.ParseUint(f[0], 10, 40) // up to a PiB a mapping
		if err != nil || sum > 1<<42 {
			return 0, fmt.Errorf("%q is not a number of kB", proc.Clip(strings.TrimSpace(line)))
		}
		sum += n
	}
	return float64(sum) * 1024, nil
}
