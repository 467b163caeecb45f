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
}

// Command is how an engine is started.
type Command struct {
	Argv []string
	Env  []string // set on top of the environment: "NAME=value"
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
