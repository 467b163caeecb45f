package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/engine"
)

// expertFlags say how much memory a model's experts get.
type expertFlags struct {
	ram     string // a size, or expertAuto; empty: all of them are in memory
	profile string

	bytes int64 // of memory, once checked
}

const expertAuto = "auto"

func (o *expertFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.ram, "expert-ram", "", "`memory` for experts, as in 8GiB; the others are read from the file when they are wanted (auto: what is free, less a reserve; default: all are in memory)")
	f.StringVar(&o.profile, "expert-profile", "", "`file` of the experts that are used most: they are read first at the start; it is written at the end")
}

func (o *expertFlags) check() error {
	switch n, ok := parseSize(o.ram); {
	case o.ram == "" && o.profile != "":
		return usagef("--expert-profile: it is for experts that are read when they are wanted (want --expert-ram as well)")
	case o.ram == "":
		o.bytes = 0
	case o.ram == expertAuto:
		o.bytes = engine.ExpertAuto
	case !ok || n == 0:
		return usagef("--expert-ram: %q is not a size (want 8GiB, 900MB or auto)", o.ram)
	default:
		o.bytes = n
	}
	return nil
}

// set puts the flags, once checked, into the engine's options.
func (o *expertFlags) set(e *engine.Options) { e.ExpertRAM, e.ExpertProfile = o.bytes, o.profile }

// sizeUnits are those that parseSize knows.
var sizeUnits = map[string]float64{
	"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// parseSize reads "8GiB", "1.5 GB": a number with a unit.
func parseSize(s string) (bytes int64, ok bool) {
	i := strings.LastIndexAny(s, "0123456789.") + 1
	unit, known := sizeUnits[strings.TrimSpace(s[i:])]
	v, err := strconv.ParseFloat(s[:i], 64)
	if err != nil || !known || !(v >= 0 && v*unit < 1<<62) {
		return 0, false
	}
	return int64(v * unit), true
}
