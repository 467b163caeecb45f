//go:build !linux

package telemetry

import "time"

func monotonicSince(int64) time.Duration { return 0 }

func threadCPU() (time.Duration, bool) { return 0, false }
