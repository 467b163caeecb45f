//go:build !amd64

package kernel

func detect() Level { return None }

var hasVBMI = false
