//go:build linux || darwin || freebsd

package guard

import (
	"fmt"
	"syscall"
)

// diskFree is what others than root may still write to the disk of a folder, in
// bytes.
func diskFree(dir string) (float64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return float64(st.Bavail) * float64(st.Bsize), nil
}
