package cli

import (
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"assay/internal/engine"
)

// reuseFlags say what is kept of earlier prompts.
type reuseFlags struct {
	memory string // MiB, or reuseAuto
	disk   string
	size   int // MiB

	bytes int64 // of memory, once checked
}

const reuseAuto = "auto"

func (o *reuseFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.memory, "cache-ram", reuseAuto, "`MiB` of memory for what was computed of earlier prompts, beside the slots' own (0: nothing is kept, -1: no limit, auto: an eighth of what is free, at most 1024)")
	f.StringVar(&o.disk, "cache-disk", "", "`folder` for what that memory has no room for, and for the next run")
	f.IntVar(&o.size, "cache-disk-size", 16384, "`MiB` of files in that folder, at most")
}

func (o *reuseFlags) check() error {
	switch n, err := strconv.Atoi(o.memory); {
	case o.memory == reuseAuto:
		o.bytes = engine.ReuseAuto
	case err != nil || n < -1 || n > math.MaxInt64>>20:
		return usagef("--cache-ram: %q is not a number of MiB (want 0 for none, -1 for no limit, auto, or more)", o.memory)
	case n < 0:
		o.bytes = math.MaxInt64
	default:
		o.bytes = int64(n) << 20
	}
	switch {
	case o.disk != "" && o.bytes == 0:
		return usagef("--cache-disk: files get what leaves memory, and --cache-ram is 0 (want more)")
	case o.size < 1 || o.size > math.MaxInt64>>20:
		return usagef("--cache-disk-size: %d is not a number of MiB (want at least 1)", o.size)
	}
	return nil
}

// set puts the flags, once checked, into the engine's options.
func (o *reuseFlags) set(e *engine.Options) {
	e.ReuseBytes, e.ReuseDir, e.ReuseDiskBytes = o.bytes, o.disk, int64(o.size)<<20
}
