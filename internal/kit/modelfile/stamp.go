package modelfile

import (
	"os"
	"path/filepath"
)

// stamp is what a file is told by without reading it. Times are in ns since 1970.
type stamp struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"`
	Changed  int64  `json:"changed"` // of the inode, which no program can set; 0: the system has none
	Device   uint64 `json:"device"`
	Inode    uint64 `json:"inode"`
}

// stampOf follows links, and takes the path whole: a link that is set to another
// file is another stamp.
func stampOf(path string) (stamp, error) {
	whole, err := filepath.Abs(path)
	if err == nil {
		whole, err = filepath.EvalSymlinks(whole)
	}
	if err != nil {
		return stamp{}, err
	}
	info, err := os.Stat(whole)
	if err != nil {
		return stamp{}, err
	}
	s := stamp{Path: whole, Size: info.Size(), Modified: info.ModTime().UnixNano()}
	s.inode(info)
	return s, nil
}
