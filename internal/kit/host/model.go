package host

import (
	"path/filepath"
	"slices"
)

// Model is what a machine says of a model's files before its engine is started.
type Model struct {
	Disk Disk `json:"disk"`
	// PageCachePercent is the share of the files that was in memory already, so
	// that loading them reads no disk.
	PageCachePercent *float64 `json:"page_cache_percent"`
	Why              string   `json:"why,omitempty"` // why that is not known
}

// ReadModel asks about files, or folders of them, that are on the machine whose
// /proc and /sys are below root. Their disk is that of the first. Where there are
// none, why says so.
func ReadModel(root string, paths []string, why string) *Model {
	if len(paths) == 0 {
		m := &Model{Disk: Disk{Below: []string{}, Why: map[string]string{}}, Why: why}
		r := readerOf("/", m.Disk.Why)
		r.all(why, "file_system", "kind", "device", "model", "rotational")
		return m
	}
	paths = slices.Clone(paths)
	here := make([]string, len(paths)) // as this process finds them
	for i, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return ReadModel(root, nil, "the model's file: "+err.Error())
		}
		paths[i], here[i] = abs, filepath.Join(root, abs)
	}
	m := &Model{Disk: ReadDisk(root, paths[0])}
	percent, err := PageCache(here...)
	if err != nil {
		m.Why = err.Error()
		return m
	}
	m.PageCachePercent = &percent
	return m
}
