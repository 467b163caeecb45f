package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/plans"
)

// Options are what Parse must know from outside.
type Options struct {
	// Targets are the adapters that there are, besides "auto". Nil: any name is
	// taken.
	Targets []string
	// Dir is the folder that relative paths of the plan start from; empty: the
	// working directory.
	Dir string
}

// ExamplePrefix is how a shipped plan is named in place of a file:
// "example:energy".
const ExamplePrefix = "example:"

// maxFile bounds a plan's file. The longest plan that anyone would write by hand
// is a hundredth of it.
const maxFile = 1 << 20

// Load reads a plan from a file, or a shipped one by its name. Relative paths in
// a file start from the folder that it is in; those of a shipped plan start from
// the folder plans of the working directory, where they lie in a checkout.
func Load(path string, o Options) (*Plan, error) {
	if name, ok := strings.CutPrefix(path, ExamplePrefix); ok {
		data, ok := plans.Example(name)
		if !ok {
			return nil, fmt.Errorf("no example is called %q%s", name, didYouMean(name, plans.Names()))
		}
		o.Dir = "plans"
		return Parse(path, data, o)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the plan: %w", err)
	case info.Size() > maxFile:
		return nil, tooLarge(path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the plan: %w", err)
	}
	o.Dir = filepath.Dir(path)
	return Parse(path, data, o)
}

func tooLarge(path string, size int64) error {
	return fmt.Errorf("%s: %d bytes (want a plan of at most %s)", path, size, FormatBytes(maxFile))
}

// Parse reads a plan. The error is Problems when the plan itself is wrong. It
// opens no file; CheckFiles looks for those that the plan names.
func Parse(file string, data []byte, o Options) (*Plan, error) {
	if len(data) > maxFile {
		return nil, tooLarge(file, int64(len(data)))
	}
	r := &reader{source: source{file: file, dir: o.Dir, at: map[string]place{}}}
	root := r.document(data)
	if root == nil {
		return nil, r.problems.asError()
	}
	p := Defaults()
	r.plan(root, &p, o)
	p.source = &r.source
	if len(r.problems) == 0 {
		for _, f := range p.check() {
			r.failAt(f.key, "%s", f.text)
		}
	}
	if len(r.problems) > 0 {
		return nil, r.problems.asError()
	}
	return &p, nil
}

// keys of a plan, in the order in which a reader of messages gets to see them.
var keys = []string{
	"arms", "contexts", "prompts", "text", "repeats", "warm_ups", "blocks", "order", "slices",
	"max_tokens", "min_seconds", "tokens_at_most", "natural_stop", "sampling", "reasoning", "cache", "turns", "turn_tokens",
	"cool_down", "idle", "guard", "noise", "require", "when_unfit", "wall_meter", "name", "about",
}

func (r *reader) plan(n *yaml.Node, p *Plan, o Options) {
	var arms []*yaml.Node
	given := map[string]bool{}
	handlers := map[string]handler{
		"name":  r.text(&p.Name),
		"about": r.text(&p.About),
		"arms": func(n *yaml.Node, key string) {
			if n.Kind != yaml.SequenceNode {
				r.fail(n, key, "%s, want a list of arms, each begun with a dash", kindName(n))
				return
			}
			arms = n.Content
		},
		"contexts": func(n *yaml.Node, key string) {
			p.Contexts = nil
			r.list(n, key, func(n *yaml.Node, key string) {
				size := 0
				r.tokens(&size)(n, key)
				p.Contexts = append(p.Contexts, size)
			})
		},
		"prompts":        r.paths(&p.Prompts),
		"text":           r.path(&p.Text),
		"repeats":        r.whole(&p.Repeats),
		"warm_ups":       r.whole(&p.Warmups),
		"blocks":         r.atLeastOne(&p.Blocks),
		"order":          oneOf(r, &p.Order, Interleaved, InBlocks),
		"slices":         r.atLeastOne(&p.Slices),
		"max_tokens":     r.tokens(&p.MaxTokens),
		"min_seconds":    r.seconds(&p.MinSeconds),
		"tokens_at_most": r.tokens(&p.TokensAtMost),
		"natural_stop":   r.boolean(&p.NaturalStop),
		"sampling":       func(n *yaml.Node, key string) { r.sampling(n, key, p) },
		"reasoning":      oneOf(r, &p.Reasoning, reasonings...),
		"cache":          oneOf(r, &p.Cache, Cold, Warm),
		"turns":          r.atLeastOne(&p.Turns),
		"turn_tokens":    r.tokens(&p.TurnTokens),
		"cool_down":      func(n *yaml.Node, key string) { r.coolDown(n, key, &p.CoolDown) },
		"idle":           r.duration(&p.Idle),
		"guard":          func(n *yaml.Node, key string) { r.guard(n, key, p) },
		"noise":          func(n *yaml.Node, key string) { r.noise(n, key, &p.Noise) },
		"require":        func(n *yaml.Node, key string) { r.require(n, key, p) },
		"when_unfit":     oneOf(r, &p.WhenUnfit, Refuse, Measure),
		"wall_meter": func(n *yaml.Node, key string) {
			r.object(n, key, map[string]handler{
				"command": r.texts(&p.WallMeter.Command), "file": r.path(&p.WallMeter.File),
			}, []string{"command", "file"})
		},
	}
	for name, read := range handlers {
		handlers[name] = func(n *yaml.Node, key string) {
			given[name] = true
			read(n, key)
		}
	}
	r.object(n, "", handlers, keys)
	if n.Kind != yaml.MappingNode {
		return
	}
	r.arms(n, arms, given["arms"], p, o)
	r.combine(given, p)
}

// combine settles what one key means for another.
func (r *reader) combine(given map[string]bool, p *Plan) {
	if given["prompts"] {
		for _, other := range []string{"contexts", "text", "slices"} {
			if given[other] {
				r.failAt(other, "it can't stand beside prompts, which are read whole")
			}
		}
		p.Contexts = nil
	}
	if p.TokensAtMost == 0 {
		p.TokensAtMost = max(p.MaxTokens, 4096)
	}
	if given["tokens_at_most"] && !given["min_seconds"] {
		r.failAt("tokens_at_most", "it has no meaning without min_seconds, which makes runs longer than max_tokens")
	}
	if !given["min_seconds"] {
		p.TokensAtMost = 0
	}
	if given["turn_tokens"] && p.turns() == 1 {
		r.failAt("turn_tokens", "it has no meaning without turns: 2 or more")
	}
	if p.TurnTokens == 0 && p.turns() > 1 {
		p.TurnTokens = 128
	}
}

var reasonings = []string{"on", "off", "low", "medium", "high"}

// atLeastOne reads a number of which the zero value has a meaning of its own.
func (r *reader) atLeastOne(to *int) handler {
	read := r.whole(to)
	return func(n *yaml.Node, key string) {
		*to = 1
		if read(n, key); *to < 1 {
			r.fail(n, key, "%d (want at least 1)", *to)
		}
	}
}

// seconds reads a time into a number of seconds.
func (r *reader) seconds(to *float64) handler {
	return parsed(r, "a number of seconds", func(s string) (float64, error) {
		d, err := parseDuration(s)
		return d.Seconds(), err
	}, func(v float64) { *to = v })
}

// path reads a file's name, which starts from the plan's folder.
func (r *reader) path(to *string) handler {
	read := r.text(to)
	return func(n *yaml.Node, key string) {
		read(n, key)
		*to = r.resolve(*to)
	}
}

func (r *reader) paths(to *[]string) handler {
	read := r.texts(to)
	return func(n *yaml.Node, key string) {
		read(n, key)
		for i, s := range *to {
			if (*to)[i] = r.resolve(s); s == "" {
				r.failAt(fmt.Sprintf("%s[%d]", key, i), "empty, want a file")
			}
		}
	}
}

// resolve makes a path start from the plan's folder. Built-in models are no
// files, and a path that begins with a placeholder is not known yet.
func (s *source) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "builtin:") || strings.HasPrefix(path, "$(") || s.dir == "" || s.dir == "." {
		return path
	}
	return filepath.Join(s.dir, path)
}

var samplingKeys = []string{"temperature", "seed", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty"}

func (r *reader) sampling(n *yaml.Node, key string, p *Plan) {
	p.Temperature = nil // a plan that says how to sample says all of it
	number := func(to **float64) handler {
		return r.number(func(v float64) { *to = &v })
	}
	r.object(n, key, map[string]handler{
		"temperature": number(&p.Temperature),
		"seed": parsed(r, "a whole number", func(s string) (int64, error) {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not a whole number", s)
			}
			return v, nil
		}, func(v int64) { p.Seed = &v }),
		"top_k": func(n *yaml.Node, key string) {
			p.TopK = new(int)
			r.whole(p.TopK)(n, key)
		},
		"top_p":             number(&p.TopP),
		"min_p":             number(&p.MinP),
		"repeat_penalty":    number(&p.RepeatPenalty),
		"presence_penalty":  number(&p.PresencePenalty),
		"frequency_penalty": number(&p.FrequencyPenalty),
	}, samplingKeys)
}
