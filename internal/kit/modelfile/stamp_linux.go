package modelfile

import (
	"io/fs"
	"syscall"
)

func (s *stamp) inode(info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Device, s.Inode, s.Changed = uint64(st.Dev), st.Ino, st.Ctim.Nano()
	}
}
