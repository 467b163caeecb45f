package telemetry

import "assay/internal/kit/proc"

// root is the folder below which /proc and /sys are: "/" but in tests.
type root = proc.Root
