package cli

import "strings"

// aliases rewrites llama.cpp's names of flags to ours before cobra sees them:
// those with one dash and several letters, which pflag would read as a bundle
// of single letters, and long names that differ. Settings that we don't have
// are not here: a flag that is accepted and ignored would be a lie, so they are
// errors. (-c, -m, -n, -p, -f, -s, -t and -a are short names of our own flags.)
var aliases = map[string]string{
	"-ngl":            "--gpu-layers",
	"--n-gpu-layers":  "--gpu-layers",
	"-np":             "--parallel",
	"--draft":         "--spec",
	"--draft-n":       "--spec",
	"--draft-max":     "--spec",
	"--draft-p-min":   "--spec-min-p",
	"-ctk":            "--cache-type-k",
	"-ctv":            "--cache-type-v",
	"-cram":           "--cache-ram",
	"--ctx-size":      "--context",
	"--predict":       "--max-tokens",
	"--n-predict":     "--max-tokens",
	"--temp":          "--temperature",
	"-sys":            "--system",
	"--system-prompt": "--system",
}

// rewriteAliases returns args with every alias replaced, "-ngl=1" and "-ngl 1"
// alike, up to a lone "--".
func rewriteAliases(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		name, value, ok := strings.Cut(a, "=")
		if to, known := aliases[name]; known {
			a = to
			if ok {
				a += "=" + value
			}
		}
		out = append(out, a)
	}
	return out
}
