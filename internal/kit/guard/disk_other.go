//go:build !(linux || darwin || freebsd)

package guard

import "errors"

func diskFree(string) (float64, error) {
	return 0, errors.New("the free space of a disk is not read on this system")
}
