package row

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
)

// Field describes one place in a row.
type Field struct {
	Path  string // "[]" stands for any element of a list, "*" for any name in a map
	Unit  string // empty where the value is no number
	About string // what the value is
	Rule  string // where it comes from; empty for an object, whose fields say it
}

// limit is what a value must be beside its type.
type limit struct {
	oneOf    []string       // of a text
	pattern  *regexp.Regexp // of a text
	means    string         // what these stand for, where they don't speak for themselves
	atLeast  *float64       // of a number
	anything bool           // a number of either sign; others can't be negative
	some     bool           // a list that is not empty
}

var (
	aHash    = limit{pattern: regexp.MustCompile(`^[0-9a-f]{64}$`), means: "a sha256 in lower-case hex"}
	notBlank = limit{pattern: regexp.MustCompile(`\S`), means: "a text that says something"}
)

// limits are by general path. Numbers that are not here can't be negative.
var limits = func() map[string]limit {
	out := map[string]limit{
		"schema":              {oneOf: []string{Schema}},
		"phase":               {oneOf: texts(Warmup, Measure)},
		"status":              {oneOf: texts(OK, Failed, Stopped)},
		"flags[]":             {oneOf: []string{FlagShort, FlagLeftOut, FlagImported}},
		"count_check.verdict": {oneOf: texts(count.AgreeIndependent, count.AgreeSameOrigin, count.Mismatch, count.Unchecked)},

		"count_check.sources[].origin": {oneOf: texts(count.ServerCounter, count.Text, count.TokenIDs)},
		"engine_rates.prompt.basis":    {oneOf: bases},
		"engine_rates.decode.basis":    {oneOf: bases},

		"attempt": {atLeast: new(1.0)},
		"run":     {atLeast: new(1.0)},

		"withheld[].figure": {oneOf: numberPaths, means: "the path of a number of a row"},
		"withheld[].codes":  {some: true},
		"withheld[].unit":   notBlank,
		"withheld[].why":    notBlank,
		"why.*":             notBlank,
	}
	var codes []string
	for _, c := range figure.Table {
		codes = append(codes, string(c.Code))
	}
	out["withheld[].codes[]"] = limit{oneOf: codes}
	for _, path := range []string{"assay_version", "timing_rule", "row_id", "cell", "arm", "engine", "ctx", "decode_rule"} {
		out[path] = notBlank
	}
	for _, path := range []string{"file_sha256.*", "slice_sha256", "prompt_sha256", "completion_sha256", "evidence.files.*", "prev_sha256"} {
		out[path] = aHash
	}
	for _, path := range []string{
		"count_check.gaps.*", "count_check.sources[].offset",
		"requested.sampling.temperature", "requested.sampling.seed", "requested.sampling.top_k", "requested.sampling.top_p", "requested.sampling.min_p",
		"requested.sampling.repeat_penalty", "requested.sampling.presence_penalty", "requested.sampling.frequency_penalty",
		"telemetry.board.j_per_prompt_token_net", "telemetry.board.j_per_output_token_net",
		"telemetry.rapl_package0.j_per_prompt_token_net", "telemetry.rapl_package0.j_per_output_token_net",
		"telemetry.wall.j_per_prompt_token_net", "telemetry.wall.j_per_output_token_net",
		"withheld[].value", "telemetry.vram.growth_mib", "telemetry.temps.gpu_max_c", "telemetry.temps.ssd_max_c",
	} {
		out[path] = limit{anything: true}
	}
	return out
}()

var bases = texts(figure.BasisIntervals, figure.BasisTokens, figure.BasisPrefill, figure.BasisUnknown)

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// kind is the JSON type of a place in a row.
type kind string

const (
	objectKind  kind = "object"
	mapKind     kind = "map" // an object with any names
	listKind    kind = "array"
	textKind    kind = "string"
	numberKind  kind = "number"
	wholeKind   kind = "integer"
	booleanKind kind = "boolean"
)

// node is one place of a row as its Go type makes it, with its description and
// its limit.
type node struct {
	Field
	name     string
	kind     kind
	null     bool // may be null in a row that we write
	optional bool // may be absent in a row that we write
	limit    limit
	fields   []*node // of an object, in order
	each     *node   // element of a list or a map
}

// child is the place below n under a name; nil where rows know none.
func (n *node) child(name string) *node {
	switch {
	case n == nil:
		return nil
	case n.kind == mapKind:
		return n.each
	}
	for _, f := range n.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// walk calls do for n and everything below it, in the order of the fields.
func (n *node) walk(do func(*node)) {
	do(n)
	for _, f := range n.fields {
		f.walk(do)
	}
	if n.each != nil {
		n.each.walk(do)
	}
}

// shape is the whole row.
var shape = func() *node {
	about := map[string]Field{}
	for _, f := range Fields {
		about[f.Path] = f
	}
	return nodeOf(reflect.TypeFor[Row](), "", "", about)
}()

func nodeOf(t reflect.Type, path, name string, about map[string]Field) *node {
	n := &node{Field: about[path], name: name, limit: limits[path]}
	n.Path = path
	if t.Kind() == reflect.Pointer {
		t, n.null = t.Elem(), true
	}
	switch t.Kind() {
	case reflect.Struct:
		n.kind = objectKind
		for _, f := range fieldsOf(t) {
			c := nodeOf(t.Field(f.index).Type, join(path, f.name), f.name, about)
			if f.optional {
				c.null, c.optional = false, true
			}
			if f.present {
				c.null = false
			}
			n.fields = append(n.fields, c)
		}
	case reflect.Slice:
		n.kind, n.null = listKind, true
		n.each = nodeOf(t.Elem(), path+"[]", "", about)
	case reflect.Map:
		n.kind, n.null = mapKind, true
		n.each = nodeOf(t.Elem(), join(path, "*"), "", about)
	case reflect.String:
		n.kind = textKind
	case reflect.Bool:
		n.kind = booleanKind
	case reflect.Int, reflect.Int64:
		n.kind = wholeKind
	case reflect.Float64:
		n.kind = numberKind
	default:
		panic(fmt.Sprintf("row: %s: rows can't hold a %s", path, t))
	}
	return n
}

// numberPaths are the paths of all numbers of a row, lists and maps aside: what
// a figure can be.
var numberPaths = func() []string {
	var out []string
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			for _, f := range fieldsOf(t) {
				walk(t.Field(f.index).Type, join(path, f.name))
			}
		case reflect.Int, reflect.Int64, reflect.Float64:
			out = append(out, path)
		}
	}
	walk(reflect.TypeFor[Row](), "")
	return out
}()

// IsNumber says whether a path is that of a number of a row, lists and maps
// aside.
func IsNumber(path string) bool { return slices.Contains(numberPaths, path) }
