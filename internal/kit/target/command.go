package target

import (
	"errors"
	"slices"
	"strings"
)

// Settings are what a plan or a command line pins of an engine that the kit
// starts. A nil or empty setting is left to the engine, visibly: it is not in the
// command line that the row keeps.
type Settings struct {
	Program   []string // the engine's program and what precedes all flags; empty: the adapter's usual name
	Model     string   // file or name
	Port      int      // on the loopback device
	Context   int      // positions of one request: the longest prompt and its answer
	Threads   *int
	GPULayers *int
	Args      []string // further arguments, as they are; they win over the settings above
	Help      string   // what the program prints of its flags; empty: it was not asked

	left *[]string // gets the flags that the program does not list
}

// Command is how an engine is started.
type Command struct {
	Argv []string
	Env  []string // set on top of the environment: "NAME=value"
	// Left are flags of the adapter's that this version of the program does not list,
	// so that they were left out.
	Left []string
	// Version is what the program says of its version; empty: it was not asked.
	Version string
	// Log is the file that the engine logs to, for Options; empty: its output.
	Log string
	// Models are the files of the model, the first of each that is in parts; nil: not
	// known from the settings.
	Models []string
}

// ErrNoCommand is returned for an engine that is not started by its name.
var ErrNoCommand = errors.New("this engine is not started by its name: give the command that starts it, or the URL of one that runs")

// Has says whether the further arguments hold one of the flags, with its value
// beside it or after "=".
func (s *Settings) Has(flags ...string) bool {
	return slices.ContainsFunc(s.Args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(flags, name)
	})
}

// Value is what the further arguments give a flag that goes by these names; the
// last one counts, as with most engines.
func (s *Settings) Value(flags ...string) (string, bool) {
	for i := len(s.Args) - 1; i >= 0; i-- {
		name, value, joined := strings.Cut(s.Args[i], "=")
		switch {
		case !slices.Contains(flags, name):
		case joined:
			return value, true
		case i+1 < len(s.Args):
			return s.Args[i+1], true
		}
	}
	return "", false
}

// Flag appends a flag and its value to a command line, unless the further
// arguments hold it under this or another of its names.
func (s *Settings) Flag(argv []string, value string, names ...string) []string {
	if s.Has(names...) {
		return argv
	}
	if value == "" {
		return append(argv, names[0])
	}
	return append(argv, names[0], value)
}

// Option is Flag for one that only some versions of the engine know: it is left
// out where the program was asked and lists it under none of its names.
func (s *Settings) Option(argv []string, value string, names ...string) []string {
	if s.Help == "" {
		return s.Flag(argv, value, names...)
	}
	for i, name := range names {
		if lists(s.Help, name) {
			known := slices.Concat(names[i:i+1], names[:i], names[i+1:])
			return s.Flag(argv, value, known...)
		}
	}
	if s.left != nil && !s.Has(names...) {
		*s.left = append(*s.left, names[0])
	}
	return argv
}

// lists says whether a help text names a flag, as a word of its own.
func lists(help, flag string) bool {
	if flag == "" {
		return false // it would be found everywhere, without end
	}
	part := func(c byte) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for at := 0; ; {
		i := strings.Index(help[at:], flag)
		if i < 0 {
			return false
		}
		i += at
		at = i + len(flag)
		if (i == 0 || !part(help[i-1])) && (at == len(help) || !part(help[at])) {
			return true
		}
	}
}
