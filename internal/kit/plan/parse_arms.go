package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxArms bounds what a matrix can become.
const maxArms = 256

var armKeys = []string{"name", "target", "url", "command", "model", "program", "flags", "threads", "gpu_layers", "env", "tokenizer", "log", "model_name", "key_env", "drafts", "matrix"}

// arms reads the list of arms and expands each one's matrix.
func (r *reader) arms(root *yaml.Node, items []*yaml.Node, given bool, p *Plan, o Options) {
	if len(items) == 0 {
		if given {
			if len(r.problems) == 0 {
				r.failAt("arms", "the list is empty (want at least one arm)")
			}
			return
		}
		r.fail(root, "", "there are no arms (want arms, with what to measure)")
		return
	}
	for i, item := range items {
		before := len(r.problems)
		key := fmt.Sprintf("arms[%d]", i)
		a, m := r.arm(follow(item), key, o)
		if len(r.problems) > before {
			continue
		}
		combos := m.combinations()
		if len(p.Arms)+len(combos) > maxArms {
			r.failAt(key, "with it there are %d arms (want at most %d)", len(p.Arms)+len(combos), maxArms)
			return
		}
		for _, combo := range combos {
			p.Arms = append(p.Arms, r.expanded(a, combo, m.names(), key))
		}
		if len(r.problems) > before {
			return // every combination would say the same
		}
	}
}

// secretName are variables that look like keys.
var secretName = regexp.MustCompile(`(?i)(_KEY|_TOKEN|SECRET|PASSWORD)$`)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// arm reads one item of the list, its matrix apart.
func (r *reader) arm(n *yaml.Node, key string, o Options) (Arm, matrix) {
	a, m := Arm{at: key}, matrix{}
	drafts, draftsGiven := false, false
	r.object(n, key, map[string]handler{
		"name":       r.text(&a.Name),
		"target":     r.text(&a.Target),
		"url":        r.text(&a.URL),
		"command":    r.texts(&a.Command),
		"model":      r.text(&a.Model),
		"program":    r.texts(&a.Program),
		"flags":      r.texts(&a.Flags),
		"threads":    r.given(&a.Threads),
		"gpu_layers": r.given(&a.GPULayers),
		"tokenizer":  r.text(&a.Tokenizer),
		"log":        r.text(&a.Log),
		"model_name": r.text(&a.ModelName),
		"key_env":    r.text(&a.KeyEnv),
		"drafts": func(n *yaml.Node, key string) {
			draftsGiven = true
			r.boolean(&drafts)(n, key)
		},
		"env": func(n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				r.fail(n, key, "%s, want a mapping of names to values", kindName(n))
				return
			}
			a.Env = map[string]string{}
			r.pairs(n, key, func(name, value *yaml.Node, path string) {
				if !envName.MatchString(name.Value) {
					r.fail(name, key, "%q is not the name of a variable", cut(name.Value))
				}
				if secretName.MatchString(name.Value) {
					r.fail(name, path, "a key in a plan would reach the folder of the rows (want it in the environment of assay, which started targets inherit)")
				}
				if s, ok := r.word(value, path, "text"); ok {
					a.Env[name.Value] = s
				}
			})
		},
		"matrix": func(n *yaml.Node, key string) { m = r.matrix(n, key) },
	}, armKeys)
	if n.Kind != yaml.MappingNode {
		return a, m
	}
	if a.Name == "" {
		r.failAt(key, "no name (want name: what rows and tables call this arm)")
	}
	if a.Target == "" {
		a.Target = "auto"
		if a.Kind() == Named {
			a.Target = ownTarget
		}
	}
	if a.Model == "" && a.Kind() == Named && a.Target == ownTarget {
		a.Model = builtIn
	}
	a.Drafts = drafts || !draftsGiven && (Drafting(a.Command) || Drafting(a.Flags))
	r.armFits(&a, key)
	if o.Targets != nil && a.Target != "auto" && !slices.Contains(o.Targets, a.Target) {
		r.failAt(key+".target", "no adapter is called %q%s", cut(a.Target), didYouMean(a.Target, append([]string{"auto"}, o.Targets...)))
	}
	return a, m
}

// armFits finds keys that contradict each other.
func (r *reader) armFits(a *Arm, key string) {
	rule := func(given bool, name, text string, args ...any) {
		if given {
			r.failAt(key+"."+name, text, args...)
		}
	}
	switch a.Kind() {
	case Attached:
		const running = "the server at url runs already"
		rule(len(a.Command) > 0, "command", "%s (want url or command, not both)", running)
		rule(len(a.Flags) > 0, "flags", "%s and has its own", running)
		rule(len(a.Program) > 0, "program", "%s", running)
		rule(a.Threads != nil, "threads", "%s and has its own", running)
		rule(a.GPULayers != nil, "gpu_layers", "%s and has its own", running)
		rule(len(a.Env) > 0, "env", "%s and has its own", running)
		rule(a.Model != "", "model", "which files the server at url has loaded is not known (want tokenizer, for a file to count with, or model_name)")
	case Started:
		const holds = "it is for an engine that target names; a command holds its own"
		rule(len(a.Flags) > 0, "flags", holds)
		rule(len(a.Program) > 0, "program", holds)
		rule(a.Threads != nil, "threads", holds)
		rule(a.GPULayers != nil, "gpu_layers", holds)
		rule(a.Log != "", "log", "a started target logs to the folder of the rows")
		rule(a.Model != "" && !mentions(a.Command, nameModel), "model", "the command does not load it (want $(model) in command)")
		rule(a.Model == "" && mentions(a.Command, nameModel), "command", "$(model) is there, but no model")
		rule(strings.TrimSpace(a.Command[0]) == "", "command", "the program has no name")
	case Named:
		rule(a.Target == "auto", "target", "which engine is to be started is not said (want the name of one, or url, or command)")
		rule(a.Target == "openai", "target", "an openai server is none that can be started by its name (want url, or command)")
		rule(a.Target != ownTarget && a.Model == builtIn, "model", "only our own engine has the built-in model (want a file: models/seedling/formats has the same model)")
		rule(a.Log != "", "log", "a started target logs to the folder of the rows")
		rule(a.Tokenizer != "" && a.Target == ownTarget, "tokenizer", "our engine's model file has the tokenizer")
		rule(a.Threads != nil && *a.Threads < 1, "threads", "want 1 or more")
		rule(a.GPULayers != nil && *a.GPULayers < 0, "gpu_layers", "want 0 or more")
		rule(len(a.Program) > 0 && strings.TrimSpace(a.Program[0]) == "", "program", "the program has no name")
		for i, f := range a.Flags {
			name, _, _ := strings.Cut(f, "=")
			rule(slices.Contains(setFlags, name) || a.Target == ownTarget && slices.Contains(ownFlags, name), fmt.Sprintf("flags[%d]", i), "%s is set by the plan itself", cut(f))
		}
	}
	for name, args := range map[string][]string{"command": a.Command, "flags": a.Flags} {
		for i, s := range args {
			if f, _, _ := strings.Cut(s, "="); slices.Contains(keyFlags, f) {
				rule(true, fmt.Sprintf("%s[%d]", name, i), "a key on a command line would reach the rows (want key_env, and the key in the environment)")
			}
		}
	}
	if a.KeyEnv != "" && !envName.MatchString(a.KeyEnv) {
		// It is not repeated: it may be the key itself.
		r.failAt(key+".key_env", "that is not the name of a variable (want the name, never the key)")
	}
}

// The target and the model that are meant where a plan names none.
const (
	ownTarget = "assay"
	builtIn   = "builtin:seedling"
)

// setFlags are set when an engine is started by its name: by the plan's own keys
// for the same, or by whoever starts it.
var setFlags = []string{"-m", "--model", "--host", "--port"}

// ownFlags are set as well when that is our engine.
var ownFlags = []string{"-np", "--parallel", "-c", "--context", "--ctx-size"}

// keyFlags carry a key on the command lines of engines that are known.
var keyFlags = []string{"--api-key", "-api-key"}

func mentions(args []string, name string) bool {
	return slices.ContainsFunc(args, func(s string) bool {
		_, unknown := expand(s, nil, false)
		return slices.Contains(unknown, name)
	})
}

// expanded fills one combination of the matrix into an arm.
func (r *reader) expanded(a Arm, combo map[string]string, names []string, key string) Arm {
	a.Settings = combo
	known := append(slices.Clone(names), namePort, nameContext, nameModel)
	fill := func(s, at string, atStart bool) string {
		out, unknown := expand(s, combo, !atStart)
		for _, u := range unknown {
			switch {
			case !slices.Contains(known, u):
				r.failAt(key+"."+at, "$(%s) is none of the matrix%s; $$( is a plain $(", cut(u), didYouMean(u, known))
			case !atStart:
				r.failAt(key+"."+at, "$(%s) is known only in command and flags", u)
			}
		}
		return out
	}
	each := func(args []string, at string) []string {
		out := make([]string, len(args))
		for i, s := range args {
			out[i] = fill(s, fmt.Sprintf("%s[%d]", at, i), true)
		}
		if args == nil {
			return nil
		}
		return out
	}
	if name := a.Name; len(combo) > 0 && !strings.Contains(name, "$(") {
		for _, setting := range names {
			name += "-" + plainName(setting+combo[setting])
		}
		a.Name = name
	} else {
		a.Name = fill(name, "name", false)
	}
	a.URL = fill(a.URL, "url", false)
	a.Model = r.resolve(fill(a.Model, "model", false))
	a.Tokenizer = r.resolve(fill(a.Tokenizer, "tokenizer", false))
	a.Log = r.resolve(fill(a.Log, "log", false))
	a.ModelName = fill(a.ModelName, "model_name", false)
	a.Command = each(a.Command, "command")
	a.Program = each(a.Program, "program")
	a.Flags = each(a.Flags, "flags")
	if a.Env != nil {
		env := map[string]string{}
		for k, v := range a.Env {
			env[k] = fill(v, "env."+k, false)
		}
		a.Env = env
	}
	return a
}
