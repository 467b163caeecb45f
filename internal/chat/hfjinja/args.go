package hfjinja

import (
	"fmt"
	"slices"

	"github.com/ardanlabs/jinja"
)

// arguments are those of a call, filter or test. named is in the order in which
// they were written, and never nil.
type arguments struct {
	pos   []value
	named *jinja.Dict
}

func callArgs(named value, pos []value) arguments {
	a := arguments{pos: pos, named: &jinja.Dict{}}
	if named.IsDict() {
		a.named = named.AsDict()
	}
	return a
}

// bind gives the value of each parameter, undefined where the call left it out.
func (a arguments) bind(what string, params ...string) ([]value, error) {
	if len(a.pos) > len(params) {
		return nil, fmt.Errorf("%s takes %d arguments, got %d", what, len(params), len(a.pos))
	}
	out := make([]value, len(params))
	copy(out, a.pos)
	for _, k := range a.named.Keys {
		i := slices.Index(params, k)
		switch {
		case i < 0:
			return nil, fmt.Errorf("%s has no argument %q", what, k)
		case i < len(a.pos):
			return nil, fmt.Errorf("%s got argument %q twice", what, k)
		}
		out[i] = a.named.Data[k]
	}
	return out, nil
}

// builtin is a filter or a method: what it is called on comes as x.
type builtin struct {
	params []string
	fn     func(r *run, x value, a []value) (value, error)
	// open takes the arguments as they are, instead of params and fn.
	open func(r *run, x value, a arguments) (value, error)
}

func (b builtin) call(r *run, what string, x value, a arguments) (value, error) {
	if b.open != nil {
		return b.open(r, x, a)
	}
	args, err := a.bind(what, b.params...)
	if err != nil {
		return jinja.Undefined(), err
	}
	v, err := b.fn(r, x, args)
	if err != nil {
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

func given(v value) bool { return !v.IsUndefined() && !v.IsNone() }

// intArg is an integer argument, or def where it is left out or none.
func intArg(v value, def int) (int, error) {
	if !given(v) {
		return def, nil
	}
	n, ok := asInt(v)
	if !ok {
		return 0, fmt.Errorf("expected an integer argument, got %s", v.String())
	}
	return int(n), nil
}

// strArg is a string argument, or def where it is left out or none.
func strArg(v value, def string) (string, error) {
	if !given(v) {
		return def, nil
	}
	if !v.IsString() {
		return "", fmt.Errorf("expected a string argument, got %s", v.String())
	}
	return v.AsString(), nil
}
