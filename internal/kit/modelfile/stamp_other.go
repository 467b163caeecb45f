//go:build !linux

package modelfile

import "io/fs"

// inode: without one, size and time of change must do.
func (*stamp) inode(fs.FileInfo) {}
