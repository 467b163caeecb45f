package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Done is what the rows of an earlier try say of one run.
type Done struct {
	Attempts int  // highest attempt that has a row
	OK       bool // one of them is of status ok
}

// start is one launch of an arm.
type start struct {
	arm   string
	block int
}

// Remaining is what of the schedule is still to be done. done holds what there
// is, by Key. Runs that are done are left out; those that failed come again with
// the next attempt. A start without runs is left out, and one with runs gets the
// warm-ups of their cells again: another start is cold. A conversation is had
// again as a whole, since a turn depends on those before it.
//
// Numbers stay those of the whole schedule, and with the attempt they give every
// row a name of its own.
func (p *Plan) Remaining(done map[string]Done) Schedule {
	whole := p.Schedule()
	missing := map[string]bool{} // conversations with a turn that is not done
	for _, r := range whole.Runs() {
		if !r.Warmup && !done[r.Key()].OK {
			missing[r.conversation()] = true
		}
	}
	type cell struct {
		start
		label string
	}
	cells, starts, blocks := map[cell]bool{}, map[start]bool{}, map[int]bool{}
	for _, r := range whole.Runs() {
		if !r.Warmup && missing[r.conversation()] {
			s := start{r.Arm, r.Block}
			cells[cell{s, r.Label()}], starts[s], blocks[r.Block] = true, true, true
		}
	}

	var out Schedule
	fresh := map[string]bool{} // arms whose first run since their start is still to come
	for _, step := range whole.Steps {
		s := start{step.Arm, step.Block}
		switch {
		case step.Kind == Do && step.Run.Warmup && !cells[cell{s, step.Run.Label()}],
			step.Kind == Do && !step.Run.Warmup && !missing[step.Run.conversation()],
			step.Kind == Watch && step.Arm == "" && !blocks[step.Block],
			step.Arm != "" && !starts[s]:
			continue
		}
		switch step.Kind {
		case Start:
			fresh[step.Arm] = true
		case Do:
			// The turns of a conversation are tried together, the first one first.
			step.Run.Attempt = done[step.Run.conversation()].Attempts + 1
			if p.CoolDown.Before == beforeBlock {
				step.Run.Cool = fresh[step.Arm]
			}
			fresh[step.Arm] = false
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// Resumable says why rows of an earlier plan can't be gone on with under this
// one; nil when they can. Arms, contexts, repeats, blocks and limits may have
// been added, taken away and changed; what a run is may not.
func (p *Plan) Resumable(before *Plan) error {
	now, then := p.whatARunIs(), before.whatARunIs()
	if key := differs(now, then); key != "" {
		return fmt.Errorf("%s is %s, but was %s in the plan of the rows that are there: such runs can't stand beside each other (want the old value, or a new folder)", key, orAbsent(now[key]), orAbsent(then[key]))
	}
	for i := range p.Arms {
		a := &p.Arms[i]
		old, ok := before.ArmNamed(a.Name)
		if !ok {
			continue
		}
		now, then := fields(a), fields(old)
		if key := differs(now, then); key != "" {
			return fmt.Errorf("arm %s: %s is %s, but was %s in the plan of the rows that are there (want the old value, another name for the arm, or a new folder)", a.Name, key, orAbsent(now[key]), orAbsent(then[key]))
		}
	}
	return nil
}

// Relative is the first file or program of the plan whose path starts from the
// working directory; empty: none does.
func (p *Plan) Relative() string {
	paths := append([]string{p.Text, p.WallMeter.File}, p.Prompts...)
	for i := range p.Arms {
		a := &p.Arms[i]
		paths = append(paths, a.Model, a.Tokenizer, a.Log)
		if len(a.Command) > 0 && strings.ContainsRune(a.Command[0], filepath.Separator) {
			paths = append(paths, a.Command[0])
		}
		if len(a.Program) > 0 && strings.ContainsRune(a.Program[0], filepath.Separator) {
			paths = append(paths, a.Program[0])
		}
	}
	for _, path := range paths {
		if path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "builtin:") {
			return path
		}
	}
	return ""
}

// whatARunIs are the settings that all runs share and that make them what they
// are, as JSON, by name.
func (p *Plan) whatARunIs() map[string]string {
	q := *p
	q.Name, q.About, q.Arms, q.Contexts, q.Prompts = "", "", nil, nil, nil
	q.Warmups, q.Repeats, q.Blocks, q.Order = 0, 0, 0, p.InOrder()
	q.Slices = p.SliceCount()
	q.CoolDown, q.Idle, q.RunLimit, q.StartLimit = CoolDown{}, 0, 0, 0
	q.Guard, q.Noise, q.Require, q.WallMeter, q.WhenUnfit = nil, Noise{}, nil, WallMeter{}, ""
	if q.Cache == "" {
		q.Cache = Cold
	}
	q.Turns = p.turns()
	return fields(q)
}

// fields are a value's fields as JSON, by name.
func fields(v any) map[string]string {
	data, err := json.Marshal(v)
	raw := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	if err != nil { // no value of these types fails to encode
		panic("plan: " + err.Error())
	}
	out := map[string]string{}
	for k, v := range raw {
		out[k] = string(v)
	}
	return out
}

// differs is the first key, in alphabetical order, whose values differ.
func differs(a, b map[string]string) string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if a[key] != b[key] {
			return key
		}
	}
	return ""
}

func orAbsent(s string) string {
	if s == "" {
		return "not given"
	}
	return s
}
