package hfjinja

import (
	"fmt"
	"strconv"
	"strings"
)

// formatMethod is Python's s.format() with plain fields: {}, {0} and {name}.
func formatMethod(r *run, x value, a arguments) (value, error) {
	var b strings.Builder
	next := 0
	for rest := x.AsString(); rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		if i+1 < len(rest) && rest[i+1] == rest[i] { // {{ and }}
			b.WriteByte(rest[i])
			rest = rest[i+2:]
			continue
		}
		field, after, ok := strings.Cut(rest[i+1:], "}")
		if rest[i] == '}' || !ok {
			return x, fmt.Errorf("format(): a single %q in %q", rest[i], x.AsString())
		}
		rest = after
		v, err := formatField(a, field, &next)
		if err != nil {
			return x, err
		}
		s, err := r.string(v)
		if err != nil {
			return x, err
		}
		b.WriteString(s)
	}
	return text(b.String()), r.spend(b.Len())
}

func formatField(a arguments, field string, next *int) (value, error) {
	n, err := strconv.Atoi(field)
	switch {
	case field == "":
		n = *next
		*next++
	case err != nil:
		if v, ok := a.named.Get(field); ok {
			return v, nil
		}
		return value{}, fmt.Errorf("format(): there is no argument for the field {%s} (only {}, {0} and {name} are supported)", field)
	}
	if n < 0 || n >= len(a.pos) {
		return value{}, fmt.Errorf("format(): field {%s} has no argument: there are %d", field, len(a.pos))
	}
	return a.pos[n], nil
}

// formatFilter is Jinja2's filter of that name: printf-style, of which %s, %d
// and %% are supported.
func formatFilter(r *run, x value, a arguments) (value, error) {
	s, err := r.string(x)
	if err != nil {
		return x, err
	}
	if len(a.named.Keys) > 0 {
		return x, fmt.Errorf(`filter "format": named arguments are not supported`)
	}
	var b strings.Builder
	args := a.pos
	for rest := s; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		if after == "" || !strings.Contains("sd%", after[:1]) {
			return x, fmt.Errorf(`filter "format": only %%s, %%d and %%%% are supported, in %q`, s)
		}
		rest = after[1:]
		if after[0] == '%' {
			b.WriteByte('%')
			continue
		}
		if len(args) == 0 {
			return x, fmt.Errorf(`filter "format": too few arguments for %q`, s)
		}
		if after[0] == 'd' && !args[0].IsInt() {
			return x, fmt.Errorf(`filter "format": %%d needs a whole number`)
		}
		part, err := r.string(args[0])
		if err != nil {
			return x, err
		}
		b.WriteString(part)
		args = args[1:]
	}
	if len(args) > 0 {
		return x, fmt.Errorf(`filter "format": too many arguments for %q`, s)
	}
	return text(b.String()), r.spend(b.Len())
}
