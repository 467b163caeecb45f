package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/kit/prompt"
)

// What a plan may come to. More is a slip of the hand, and would cost memory.
const (
	maxContexts = 100
	maxRuns     = 100_000
	maxSlices   = 1000
)

// finding is something wrong with a plan's values, under the key that says it.
type finding struct{ key, text string }

// Check names the first thing in the plan that can't be run. Plans from files
// have been checked.
func (p *Plan) Check() error {
	if f := p.check(); len(f) > 0 {
		return Problem{Key: f[0].key, Text: f[0].text}
	}
	return nil
}

var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// check lists what is wrong with the values, whether they came from flags or
// from a file.
func (p *Plan) check() []finding {
	var out []finding
	bad := func(wrong bool, key, format string, args ...any) bool {
		if wrong {
			out = append(out, finding{key, fmt.Sprintf(format, args...)})
		}
		return wrong
	}
	p.checkArms(bad)
	p.checkCells(bad)
	p.checkCounts(bad)
	p.checkRequest(bad)
	if len(out) == 0 {
		n := p.size()
		bad(n > maxRuns, "", "the plan comes to %.3g runs (want at most %d)", n, maxRuns)
	}
	return out
}

type judge func(wrong bool, key, format string, args ...any) bool

func (p *Plan) checkArms(bad judge) {
	const want = "(want letters, digits, '.', '_' and '-', at most 100)"
	bad(len(p.Arms) == 0, "arms", "there are none (want at least one engine to measure)")
	seen := map[string]string{}
	for i, a := range p.Arms {
		at := a.at
		if at == "" {
			at = fmt.Sprintf("arms[%d]", i)
		}
		if bad(!armName.MatchString(a.Name), at+".name", "%q can't name files %s", cut(a.Name), want) {
			continue
		}
		// Names become folders, and some file systems take no notice of capitals.
		low := strings.ToLower(a.Name)
		if first, twice := seen[low]; twice {
			bad(true, at+".name", "two arms are called %s%s", a.Name, hint(first == at, "; let the name hold its matrix, as in x-$(threads)"))
		}
		seen[low] = at
	}
}

func hint(show bool, text string) string {
	if show {
		return text
	}
	return ""
}

func (p *Plan) checkCells(bad judge) {
	if len(p.Prompts) == 0 {
		bad(len(p.Contexts) == 0, "contexts", "none given (want 512, 4K, 128K)")
	}
	bad(len(p.Contexts) > maxContexts, "contexts", "%d of them (want at most %d)", len(p.Contexts), maxContexts)
	seen := map[int]bool{}
	for i, n := range p.Contexts {
		key := "contexts"
		if p.source != nil {
			key = fmt.Sprintf("contexts[%d]", i)
		}
		if bad(n < 1 || n > prompt.MaxCount, key, "%d tokens (want 1 to %d)", n, prompt.MaxCount) {
			return
		}
		bad(seen[n], key, "%s is there twice", label(n))
		seen[n] = true
	}
	bad(len(p.Prompts) > maxContexts, "prompts", "%d of them (want at most %d)", len(p.Prompts), maxContexts)
	names := map[string]bool{}
	for i, file := range p.Prompts {
		key, name := fmt.Sprintf("prompts[%d]", i), strings.ToLower(promptName(file))
		if !bad(name == "", key, "%q gives its cell no name (want letters or digits in the file's name)", cut(file)) {
			bad(names[name], key, "two prompts are called %s: cells are named after the files", name)
		}
		names[name] = true
	}
}

func (p *Plan) checkCounts(bad judge) {
	bad(p.Repeats < 1 || p.Repeats > 10000, "repeats", "%d (want 1 to 10000)", p.Repeats)
	bad(p.Warmups < 0 || p.Warmups > 1000, "warm_ups", "%d (want 0 to 1000)", p.Warmups)
	bad(p.Blocks < 0 || p.Blocks > max(p.Repeats, 1), "blocks", "%d starts of each arm, but %d repeats to spread over them (want repeats to be at least as many)", p.Blocks, p.Repeats)
	slices := p.SliceCount()
	switch {
	case bad(p.Slices < 0 || slices > maxSlices, "slices", "%d (want 1 to %d)", p.Slices, maxSlices):
	case bad(p.drafts() && len(p.Prompts) == 0 && slices < minSlices, "slices", "%d, but an arm drafts tokens, and how many are accepted depends on the text (want at least %d)", slices, minSlices):
	default:
		bad(p.Repeats < slices, "repeats", "%d can't take %d texts in turn%s", p.Repeats, slices, hint(p.drafts(), ", which an arm that drafts tokens needs"))
	}
	bad(p.Turns < 0 || p.Turns > 100, "turns", "%d (want 1 to 100)", p.Turns)
	bad(p.turns() > 1 && (p.TurnTokens < 1 || p.TurnTokens > prompt.MaxCount), "turn_tokens", "%d (want at least 1)", p.TurnTokens)
	bad(p.InOrder() == Interleaved && p.CoolDown.Before == beforeBlock, "cool_down.before", "block: the arms are all up at once, and take turns run by run (want run)")
	if p.Cache == Warm {
		bad(p.Warmups < slices, "warm_ups", "%d, but cache: warm needs one for each of the %d texts that a cell takes, since the measured runs repeat their prompts", p.Warmups, slices)
	}
}

func (p *Plan) checkRequest(bad judge) {
	bad(p.MaxTokens < 1 || p.MaxTokens > prompt.MaxCount, "max_tokens", "%d (want at least 1)", p.MaxTokens)
	bad(p.MinSeconds < 0 || p.MinSeconds > maxDuration.Seconds(), "min_seconds", "%v (want a number of seconds)", p.MinSeconds)
	bad(p.MinSeconds > 0 && p.Warmups == 0, "warm_ups", "0, but min_seconds needs one: the rate of the first warm-up says how many tokens take that long")
	bad(p.MinSeconds > 0 && p.TokensAtMost < p.MaxTokens, "tokens_at_most", "%d is less than max_tokens, %d", p.TokensAtMost, p.MaxTokens)
	within := func(v *float64, key string, low, high float64) {
		if v != nil {
			bad(!(*v >= low && *v <= high), "sampling."+key, "%v (want %v to %v)", *v, low, high)
		}
	}
	if p.Temperature != nil {
		bad(!(*p.Temperature >= 0 && *p.Temperature <= 100), "sampling.temperature", "%v (want 0 for the likeliest token, or up to 100)", *p.Temperature)
	}
	if p.TopK != nil {
		bad(*p.TopK < 0, "sampling.top_k", "%d (want 0 for all tokens, or more)", *p.TopK)
	}
	within(p.TopP, "top_p", 0, 1)
	within(p.MinP, "min_p", 0, 1)
	within(p.RepeatPenalty, "repeat_penalty", 0, 10)
	within(p.PresencePenalty, "presence_penalty", -10, 10)
	within(p.FrequencyPenalty, "frequency_penalty", -10, 10)
	bad(p.RunLimit <= 0, "run_limit", "%v (want a time such as 30m)", p.RunLimit)
	longest := p.RunLimit
	for _, l := range p.Guard {
		if l.Quantity == RunTime {
			longest -= runLimitGrace
		}
	}
	bad(p.RunLimit > 0 && p.MinSeconds > 0 && p.MinSeconds >= longest.Seconds(), "min_seconds", "%v s, but a run is ended after %s (want guard.run_time to be longer)", p.MinSeconds, shortDuration(longest))
	bad(p.Idle < 0 || p.Idle > maxDuration, "idle", "%v (want a time such as 30s)", p.Idle)
	bad(len(p.WallMeter.Command) > 0 && p.WallMeter.File != "", "wall_meter", "a command and a file (want one of them)")
	bad(p.Needs(RequireWallEnergy) && !p.WallMeter.Given(), "require", "%s, but there is no wall_meter", RequireWallEnergy)
}

// size is the number of runs, in floating point so that it can't overflow.
func (p *Plan) size() float64 {
	cells := float64(len(p.Contexts))
	if len(p.Prompts) > 0 {
		cells = float64(len(p.Prompts))
	}
	perCell := float64(p.Repeats) + float64(p.Warmups)*float64(p.Rounds())
	return cells * float64(len(p.Arms)) * perCell * float64(p.turns())
}

// promptName is the name of a cell whose prompt is a file.
func promptName(file string) string { return plainName(filepath.ToSlash(file)) }

// CheckFiles sees to it that the files which the plan names are there: models,
// tokenizers, logs of attached servers, texts and prompts. A model or tokenizer that
// is no file may be the name of one: find gives the path of such a name, which then
// stands in the plan, or fs.ErrNotExist where nothing is called that; nil knows none.
func (p *Plan) CheckFiles(find func(name string) (string, error)) error {
	var problems Problems
	check := func(path *string, key string, find func(string) (string, error)) {
		if *path == "" || strings.HasPrefix(*path, "builtin:") {
			return
		}
		info, err := os.Stat(*path)
		pr := Problem{Key: key}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			pr.Text = fmt.Sprintf("there is no file %s%s", *path, p.from(*path))
			name := p.asWritten(*path)
			if find == nil || !filepath.IsLocal(name) { // it can only be a path
				break
			}
			found, err := find(name)
			if err == nil {
				*path = found
				return
			}
			if errors.Is(err, fs.ErrNotExist) {
				pr.Text += ", and no model of that name (assay models lists those that are there)"
			} else {
				pr.Text = err.Error()
			}
		case err != nil:
			pr.Text = err.Error()
		case info.IsDir():
			pr.Text = fmt.Sprintf("%s is a folder (want a file)", *path)
		default:
			return
		}
		if p.source != nil {
			at := p.source.place(key)
			pr.File, pr.Line, pr.Column = p.source.file, at.line, at.column
		}
		if !slices.Contains(problems, pr) { // arms of one matrix share a place
			problems = append(problems, pr)
		}
	}
	look := func(path, key string) { check(&path, key, nil) }
	for i := range p.Arms {
		a := &p.Arms[i]
		at := a.at
		if at == "" {
			at = fmt.Sprintf("arms[%d]", i)
		}
		check(&a.Model, at+".model", find)
		check(&a.Tokenizer, at+".tokenizer", find)
		look(a.Log, at+".log")
	}
	look(p.Text, "text")
	for i, file := range p.Prompts {
		look(file, fmt.Sprintf("prompts[%d]", i))
	}
	look(p.WallMeter.File, "wall_meter.file")
	return problems.asError()
}

// asWritten is a path without the plan's folder, which was put before it.
func (p *Plan) asWritten(path string) string {
	if p.from(path) == "" {
		return path
	}
	if name, err := filepath.Rel(p.source.dir, path); err == nil {
		return name
	}
	return path
}

// from says where relative paths of the plan start from.
func (p *Plan) from(path string) string {
	if p.source == nil || p.source.dir == "" || p.source.dir == "." || filepath.IsAbs(path) && !filepath.IsAbs(p.source.dir) {
		return ""
	}
	return fmt.Sprintf(" (paths start from %s)", p.source.dir)
}
