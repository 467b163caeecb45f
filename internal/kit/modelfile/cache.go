package modelfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// CacheDir is where sums are kept: assay/sha256 in the user's cache folder
// ($XDG_CACHE_HOME, or ~/.cache). It is empty where the user has no such folder.
func CacheDir(getenv func(string) string) string {
	dir := getenv("XDG_CACHE_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "assay", "sha256")
}

// entry is one kept sum: a file of its own, named after the path's hash, so that
// programs that run at once do not take each other's away.
type entry struct {
	Stamp  stamp  `json:"stamp"`
	SHA256 string `json:"sha256"`
}

var aSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// maxEntry bounds what is read of one.
const maxEntry = 64 << 10

func (o *Options) file(s stamp) string {
	name := sha256.Sum256([]byte(s.Path))
	return filepath.Join(o.Dir, hex.EncodeToString(name[:16])+".json")
}

// recall is the sum that was kept of a file that is still the same; empty: there
// is none.
func (o *Options) recall(s stamp) string {
	if o.Dir == "" {
		return ""
	}
	f, err := os.Open(o.file(s))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEntry))
	var e entry
	if err != nil || json.Unmarshal(data, &e) != nil || e.Stamp != s || !aSum.MatchString(e.SHA256) {
		return ""
	}
	return e.SHA256
}

// keep stores a sum, whole or not at all.
func (o *Options) keep(s stamp, sum string) {
	if o.Dir == "" || time.Since(time.Unix(0, max(s.Modified, s.Changed))) < young {
		return
	}
	data, err := json.Marshal(entry{s, sum})
	if err != nil || os.MkdirAll(o.Dir, 0o755) != nil {
		return
	}
	tmp, err := os.CreateTemp(o.Dir, ".new-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(append(data, '\n'))
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), o.file(s))
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // nothing is lost: the sum is computed again
	}
}
