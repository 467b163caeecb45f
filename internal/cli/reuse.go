package cli

import (
	"math"

	"github.com/spf13/cobra"

	"assay/internal/engine"
)

// reuseFlags say what is kept of earlier prompts.
type reuseFlags struct {
	memory int // MiB
	disk   string
	size   int // MiB
}

func (o *reuseFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.memory, "cache-ram", 1024, "`MiB` of memory for what was computed of earlier prompts, beside the slots' own (0: nothing is kept, -1: no limit)")
	f.StringVar(&o.disk, "cache-disk", "", "`folder` for what that memory has no room for, and for the next run")
	f.IntVar(&o.size, "cache-disk-size", 16384, "`MiB` of files in that folder, at most")
}

func (o *reuseFlags) check() error {
	switch {
	case o.memory < -1 || o.memory > math.MaxInt64>>20:
		return usagef("--cache-ram: %d is not a number of MiB (want 0 for none, -1 for no limit, or more)", o.memory)
	case o.disk != "" && o.memory == 0:
		return usagef("--cache-disk: files get what leaves memory, and --cache-ram is 0 (want more)")
	case o.size < 1 || o.size > math.MaxInt64>>20:
		return usagef("--cache-disk-size: %d is not a number of MiB (want at least 1)", o.size)
	}
	return nil
}

// set puts the flags into the engine's options.
func (o *reuseFlags) set(e *engine.Options) {
	e.ReuseBytes, e.ReuseDir, e.ReuseDiskBytes = int64(o.memory)<<20, o.disk, int64(o.size)<<20
	if o.memory < 0 {
		e.ReuseBytes = math.MaxInt64
	}
}
