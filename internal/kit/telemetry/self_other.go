//go:build !unix

package telemetry

import (
	"errors"
	"time"
)

func processCPU() (time.Duration, error) {
	return 0, errors.New("the processor time of this process is not read on this system")
}
