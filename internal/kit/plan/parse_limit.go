package plan

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

var coolDownKeys = []string{"seconds", "below", "sensor", "at_most", "before"}

// coolDown reads a time, or a mapping that says more.
func (r *reader) coolDown(n *yaml.Node, key string, to *CoolDown) {
	*to = CoolDown{Sensor: "gpu", AtMost: 5 * time.Minute, Before: beforeRun}
	if n.Kind == yaml.ScalarNode {
		r.seconds(&to.Seconds)(n, key)
		to.Sensor, to.AtMost = "", 0
		return
	}
	before := len(r.problems)
	r.object(n, key, map[string]handler{
		"seconds": r.seconds(&to.Seconds),
		"below":   parsed(r, "a temperature in °C", parseCelsius, func(v float64) { to.BelowC = v }),
		"sensor":  oneOf(r, &to.Sensor, "gpu", "cpu", "ssd"),
		"at_most": r.duration(&to.AtMost),
		"before":  oneOf(r, &to.Before, beforeRun, beforeBlock),
	}, coolDownKeys)
	if !to.Given() && len(r.problems) == before {
		r.fail(n, key, "nothing to wait for (want seconds, or below: 60)")
	}
	if to.BelowC == 0 {
		for _, k := range []string{"sensor", "at_most"} {
			if _, given := r.at[key+"."+k]; given {
				r.failAt(key+"."+k, "it has no meaning without below")
			}
		}
		to.Sensor, to.AtMost = "", 0
	}
}

// guard reads limits on top of the default ones.
func (r *reader) guard(n *yaml.Node, key string, p *Plan) {
	then := End
	limits := map[Quantity]handler{}
	for _, q := range Quantities {
		limits[q] = func(n *yaml.Node, key string) { r.limit(n, key, q, then, p) }
	}
	handlers := map[string]handler{
		"start_time": r.duration(&p.StartLimit),
		"then":       func(*yaml.Node, string) {}, // read first, since it applies to all
	}
	order := []string{}
	for _, q := range Quantities {
		handlers[string(q)] = limits[q]
		order = append(order, string(q))
	}
	order = append(order, "start_time", "then")
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if follow(n.Content[i]).Value == "then" {
				oneOf(r, &then, Next, End)(follow(n.Content[i+1]), key+".then")
			}
		}
	}
	for i := range p.Guard {
		p.Guard[i].Then = then
	}
	r.object(n, key, handlers, order)
	slices.SortStableFunc(p.Guard, func(a, b Limit) int {
		return slices.Index(Quantities, a.Quantity) - slices.Index(Quantities, b.Quantity)
	})
}

// limit reads a value, "off", or a mapping that also says for how long and what
// then.
func (r *reader) limit(n *yaml.Node, key string, q Quantity, then Then, p *Plan) {
	l := Limit{Quantity: q, For: defaultFor[q], Then: then}
	value := r.limitValue(&l)
	off := n.Kind == yaml.ScalarNode && n.Value == "off"
	p.Guard = slices.DeleteFunc(p.Guard, func(l Limit) bool { return l.Quantity == q })
	switch {
	case off && q == RunTime:
		r.fail(n, key, "a run must end some time (want a time such as 30m)")
		return
	case off:
		return
	case n.Kind == yaml.ScalarNode:
		value(n, key)
	default:
		given := false
		r.object(n, key, map[string]handler{
			"limit": func(n *yaml.Node, key string) {
				given = true
				value(n, key)
			},
			"for":  r.duration(&l.For),
			"then": oneOf(r, &l.Then, Next, End),
		}, []string{"limit", "for", "then"})
		if !given && n.Kind == yaml.MappingNode {
			r.failAt(key, "no limit (want limit: a value, or off in place of the mapping)")
		}
	}
	if q == RunTime {
		if l.Value <= 0 {
			l.Value = p.RunLimit.Seconds()
		}
		// The guard comes first; the run's own limit is there in case it fails.
		p.RunLimit = time.Duration(l.Value*float64(time.Second)) + runLimitGrace
	}
	p.Guard = append(p.Guard, l)
}

// runLimitGrace is how long after the guard's run_time a run is ended as failed.
const runLimitGrace = time.Minute

func (r *reader) limitValue(l *Limit) handler {
	store := func(v float64) { l.Value = v }
	switch l.Quantity {
	case MemoryAvailable, DiskFree:
		return parsed(r, "a size such as 2GiB", parseBytes, store)
	case MemoryPressure, IOPressure:
		return parsed(r, "a percentage such as 20 %", func(s string) (float64, error) {
			v, err := parsePercent(s)
			if err == nil && v > 100 {
				err = fmt.Errorf("%q is more than all the time (want up to 100 %%)", s)
			}
			return v, err
		}, store)
	case RunTime:
		return parsed(r, "a time such as 30m", func(s string) (float64, error) {
			d, err := parseDuration(s)
			if err == nil && d <= 0 {
				err = fmt.Errorf("%q gives a run no time (want a time such as 30m)", s)
			}
			return d.Seconds(), err
		}, store)
	}
	return parsed(r, "a temperature in °C", parseCelsius, store)
}

var noiseKeys = []string{"load", "cpu", "busy_processes", "swap_used", "steal", "governor", "virtual_machine", "throttling"}

func (r *reader) noise(n *yaml.Node, key string, to *Noise) {
	atLeastZero := func(to **float64) handler {
		return parsed(r, "a number", func(s string) (float64, error) {
			v, err := parseNumber(s)
			if err != nil || v < 0 {
				return 0, fmt.Errorf("%q is not a number of 0 or more", s)
			}
			return v, nil
		}, func(v float64) { *to = &v })
	}
	r.object(n, key, map[string]handler{
		"load": atLeastZero(&to.Load),
		"cpu":  parsed(r, "a percentage of one processor", parsePercent, func(v float64) { to.CPU = &v }),
		"busy_processes": func(n *yaml.Node, key string) {
			to.BusyProcesses = new(int)
			if r.whole(to.BusyProcesses)(n, key); *to.BusyProcesses < 0 {
				r.fail(n, key, "%d (want 0 or more)", *to.BusyProcesses)
			}
		},
		"swap_used":       parsed(r, "a size such as 100MiB", parseBytes, func(v float64) { to.SwapUsed = &v }),
		"steal":           parsed(r, "a percentage", parsePercent, func(v float64) { to.Steal = &v }),
		"governor":        r.text(&to.Governor),
		"virtual_machine": oneOf(r, &to.VirtualMachine, "allowed", "refused"),
		"throttling":      oneOf(r, &to.Throttling, "allowed", "refused"),
	}, noiseKeys)
}

func (r *reader) require(n *yaml.Node, key string, p *Plan) {
	known := make([]string, len(Requirements))
	for i, q := range Requirements {
		known[i] = string(q)
	}
	r.list(n, key, func(n *yaml.Node, key string) {
		s, ok := r.word(n, key, "a figure")
		switch {
		case !ok:
		case !slices.Contains(known, s):
			r.fail(n, key, "no figure is called %q%s", cut(s), didYouMean(s, known))
		case slices.Contains(p.Require, s):
			r.fail(n, key, "%s is there twice", s)
		default:
			p.Require = append(p.Require, s)
		}
	})
}
