package plan

import (
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// matrix is a few settings with a few values each; an arm that has one becomes
// an arm for every combination.
type matrix struct {
	settings []setting
	exclude  []map[string]string
}

type setting struct {
	name   string
	values []string
}

var settingName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

func (r *reader) matrix(n *yaml.Node, key string) matrix {
	var m matrix
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		r.fail(n, key, "%s, want settings with a list of values each, such as threads: [1, 2, 4]", kindName(n))
		return m
	}
	var exclude *yaml.Node
	before := len(r.problems)
	r.pairs(n, key, func(name, value *yaml.Node, path string) {
		r.at[path] = place{value.Line, value.Column}
		switch {
		case name.Value == "exclude":
			exclude = value
			return
		case !settingName.MatchString(name.Value):
			r.fail(name, key, "%q can't name a setting (want letters, digits and '_')", cut(name.Value))
			return
		case slices.Contains([]string{namePort, nameContext, nameModel}, name.Value):
			r.fail(name, path, "$(%s) has a meaning of its own already (want another name)", name.Value)
			return
		}
		s := setting{name: name.Value}
		r.list(value, path, func(n *yaml.Node, path string) {
			if v, ok := r.word(n, path, "a value"); ok {
				if slices.Contains(s.values, v) {
					r.fail(n, path, "%q is there twice", cut(v))
				}
				s.values = append(s.values, v)
			}
		})
		if len(s.values) == 0 && value.Kind == yaml.SequenceNode {
			r.fail(value, path, "it has no values")
		}
		m.settings = append(m.settings, s)
	})
	if exclude != nil {
		r.exclude(exclude, key+".exclude", &m)
	}
	if len(m.settings) == 0 && len(r.problems) == before {
		r.fail(n, key, "no settings (want such as threads: [1, 2, 4])")
	}
	return m
}

// exclude reads the combinations to leave out: all that have the values of one
// of the mappings.
func (r *reader) exclude(n *yaml.Node, key string, m *matrix) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, key, "%s, want a list of combinations to leave out, such as - {threads: 1, kv: q8_0}", kindName(n))
		return
	}
	r.list(n, key, func(n *yaml.Node, key string) {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			r.fail(n, key, "%s, want values of settings, such as {threads: 1}", kindName(n))
			return
		}
		out := map[string]string{}
		r.pairs(n, key, func(name, value *yaml.Node, path string) {
			v, ok := r.word(value, path, "a value")
			if !ok {
				return
			}
			i := slices.IndexFunc(m.settings, func(s setting) bool { return s.name == name.Value })
			switch {
			case i < 0:
				r.fail(name, path, "the matrix has no such setting%s", didYouMean(name.Value, m.names()))
			case !slices.Contains(m.settings[i].values, v):
				r.fail(value, path, "%q is no value of it (want %s)", cut(v), join(m.settings[i].values, "or"))
			}
			out[name.Value] = v
		})
		m.exclude = append(m.exclude, out)
	})
}

// names are the settings in the order of the file.
func (m *matrix) names() []string {
	out := make([]string, len(m.settings))
	for i, s := range m.settings {
		out[i] = s.name
	}
	return out
}

// combinations lists them with the last setting changing fastest, one more than
// maxArms at most. No matrix is one combination without settings.
func (m *matrix) combinations() []map[string]string {
	if len(m.settings) == 0 {
		return []map[string]string{nil}
	}
	var out []map[string]string
	index := make([]int, len(m.settings))
	for len(out) <= maxArms {
		combo := map[string]string{}
		for i, s := range m.settings {
			combo[s.name] = s.values[index[i]]
		}
		if !m.excluded(combo) {
			out = append(out, combo)
		}
		if !m.next(index) {
			break
		}
	}
	return out
}

// next counts the index up, and says whether there was more.
func (m *matrix) next(index []int) bool {
	for i := len(index) - 1; i >= 0; i-- {
		if index[i]++; index[i] < len(m.settings[i].values) {
			return true
		}
		index[i] = 0
	}
	return false
}

func (m *matrix) excluded(combo map[string]string) bool {
	return slices.ContainsFunc(m.exclude, func(e map[string]string) bool {
		for name := range maps.Keys(e) {
			if combo[name] != e[name] {
				return false
			}
		}
		return true
	})
}
