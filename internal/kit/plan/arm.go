package plan

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Arm is one engine, model and settings: a server to start, or one that runs.
type Arm struct {
	Name   string `json:"name"`
	Target string `json:"target"` // adapter; "auto": found by asking

	// One of: a server that runs, a command that starts one, or neither: then the
	// engine that Target names is started, as its adapter knows to.
	URL     string            `json:"url,omitempty"`
	Command []string          `json:"command,omitempty"` // program and arguments; see Argv for what is filled in
	Env     map[string]string `json:"env,omitempty"`     // set on top of the environment

	// Of an engine that is started by its name.
	Program   []string `json:"program,omitempty"`    // it, and what precedes all flags; empty: its usual name
	Flags     []string `json:"flags,omitempty"`      // further arguments, which win over what the plan sets
	Threads   *int     `json:"threads,omitempty"`    // nil: left to the engine
	GPULayers *int     `json:"gpu_layers,omitempty"` // nil: left to the engine

	Model     string `json:"model,omitempty"`      // file that is started with: it is hashed, and its tokenizer counts
	Tokenizer string `json:"tokenizer,omitempty"`  // file whose tokenizer counts, where it is not the model's
	Log       string `json:"log,omitempty"`        // file that an attached server logs to
	ModelName string `json:"model_name,omitempty"` // what requests call the model; empty: the first that the server lists
	KeyEnv    string `json:"key_env,omitempty"`    // name of the variable that holds the API key

	Drafts   bool              `json:"drafts,omitempty"` // the engine guesses tokens ahead
	Settings map[string]string `json:"matrix,omitempty"` // this arm's values of the matrix

	at string // where in the file it comes from: "arms[2]"
}

// Kind is how an arm's target comes to be.
type Kind string

// The kinds of arm.
const (
	Attached Kind = "attached" // it runs already, and is never stopped
	Started  Kind = "started"  // by the arm's command
	Named    Kind = "named"    // by the name of its engine: ours, or one whose adapter can start it
)

// Kind says how the arm's target comes to be.
func (a *Arm) Kind() Kind {
	switch {
	case a.URL != "":
		return Attached
	case len(a.Command) > 0:
		return Started
	}
	return Named
}

// Launch is what is known only when an arm is started.
type Launch struct {
	Port    int // a free port: $(port); 0: not known yet, and $(port) stays
	Context int // positions that the plan needs: $(context)
}

// Names that are filled in when an arm is started, beside those of its matrix.
const (
	namePort    = "port"
	nameContext = "context"
	nameModel   = "model"
)

// Argv is the command of an arm that has one, and the further arguments of one
// that is started by its engine's name, with $(port), $(context) and $(model)
// filled in; $$( is a plain $(. It is nil for an attached arm.
func (a *Arm) Argv(l Launch) []string {
	args := a.Command
	if a.Kind() == Named {
		args = a.Flags
	}
	known := map[string]string{nameContext: itoa(l.Context), nameModel: a.Model}
	if l.Port != 0 {
		known[namePort] = itoa(l.Port)
	}
	var out []string
	for _, s := range args {
		s, _ = expand(s, known, true)
		out = append(out, s)
	}
	return out
}

// Environ is an environment with the arm's own settings on top, in a fixed order.
func (a *Arm) Environ(base []string) []string {
	out := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := a.Env[name]
		return ours
	})
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		value, _ := expand(a.Env[name], nil, true)
		out = append(out, name+"="+value)
	}
	return out
}

// draftFlags turn drafting on in engines that are known.
var draftFlags = []string{
	"-md", "--model-draft", "--draft-model", "-hfd", "--hf-repo-draft", "--spec-type", "--spec", "--mtp",
	"--speculative-config", "--speculative-algorithm",
}

// Drafting says whether a command line has one of the flags that are known to turn
// drafting on.
func Drafting(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return slices.Contains(draftFlags, name)
	})
}

var placeholder = regexp.MustCompile(`\$?\$\(([^()]*)\)`)

// expand replaces every $(name) that is known, and names those that are not,
// which stay. At the last step $$(name) becomes $(name).
func expand(s string, known map[string]string, last bool) (string, []string) {
	if !strings.Contains(s, "$(") {
		return s, nil
	}
	var unknown []string
	out := placeholder.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			if last {
				return m[1:]
			}
			return m
		}
		name := m[2 : len(m)-1]
		v, ok := known[name]
		if !ok {
			unknown = append(unknown, name)
			return m
		}
		return v
	})
	return out, unknown
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// plainName makes of a text something that can name files: of a path, its last
// part without .gguf and the like.
func plainName(s string) string {
	s = path.Base(strings.ReplaceAll(s, `\`, "/"))
	for _, ext := range []string{".gguf", ".txt", ".md"} {
		s = strings.TrimSuffix(s, ext)
	}
	return strings.Trim(notInNames.ReplaceAllString(s, "-"), "-._")
}
