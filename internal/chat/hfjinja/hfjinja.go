// Package hfjinja runs chat templates as Hugging Face transformers runs them:
// Jinja2 with trim_blocks, lstrip_blocks, break and continue, the immutable
// sandbox, and the functions raise_exception and strftime_now.
//
// The engine below is github.com/ardanlabs/jinja. On its own it renders many
// templates otherwise than Jinja2 does (see below) and can be made to recurse,
// loop or allocate without end, which no recover catches. So a template is
// first translated: read with Jinja2's own lexing and grammar, and written out
// again in the small part of the language that the engine gets right. Control
// flow, scopes, macros and values stay the engine's; text, operators,
// attributes, calls, filters and tests become calls of functions defined here,
// which follow Python and count the work they do.
//
// What differs in the engine (v1.8.0) and is put right by this: a whitespace
// mark strips text behind a neighbouring tag; the template's last newline is
// kept; None prints as nothing; variables set in a loop body live on in the
// next round; `for k, v in d.items() if ...` filters on the wrong variable; a
// dict's key hides its methods (a tool parameter called "items"); map, select,
// sort and selectattr ignore or crash on some of their forms; keyword
// arguments lose their order; string methods count bytes; tojson with an
// indent sorts keys and escapes HTML, and floats look like Go's.
//
// What still differs from Jinja2: tuples are lists and print so; dict keys are
// strings or whole numbers; filters give lists, never generators; integers
// computed by the template must fit 64 bits; formatting beyond {} and %s,
// recursive loops, **args, include, import, extends, block, with and the rarer
// filters are errors that say so. There is one filter more, from_json, which some
// models' templates need.
package hfjinja

import (
	"fmt"
	"time"

	"github.com/ardanlabs/jinja"
)

// Sizes that no real template comes near. They bound what translating costs,
// and keep the recursion of parser and evaluator far from the stack's end.
const (
	maxSource    = 1 << 20 // bytes of template source
	maxTagTokens = 10_000  // tokens in one tag
	maxNesting   = 100     // brackets and operators, or blocks, within one another
	maxCalls     = 200     // macro calls within one another
	maxDepth     = 500     // values within one another, when printed or compared
)

// Work is counted in bytes handled, roughly: of text, and of template code per
// round of a loop. A render may use the base and so much again for each byte of
// input, up to the most. Real templates use under 1 MiB for a chat of a few
// messages, and some tens for a thousand. The base is spent in a second or two,
// the most in under half a minute; both bound memory too.
const (
	workBase    = 1 << 27
	workPerByte = 1 << 11
	workMost    = 1 << 31
)

// Program is a compiled template. It may be used by several goroutines.
type Program struct {
	tmpl *jinja.Template
}

// Compile reads a template. Errors give the line.
func Compile(source string) (p *Program, err error) {
	defer recovered(&err)
	code, err := translate(source)
	if err != nil {
		return nil, err
	}
	tmpl, err := jinja.Compile(code)
	if err != nil {
		return nil, fmt.Errorf("translated template: %w", err)
	}
	return &Program{tmpl: tmpl}, nil
}

// Env is what a render sees.
type Env struct {
	Vars       map[string]jinja.Value
	InputBytes int              // the size of what Vars came from; allows that much more work
	Now        func() time.Time // for strftime_now; nil is time.Now
}

// Run renders the template. The error is a *RaisedError when the template
// refused its input, and a *LimitError when it was stopped.
func (p *Program) Run(env Env) (string, error) {
	return p.run(env, min(workBase+workPerByte*int64(env.InputBytes), workMost))
}

func (p *Program) run(env Env, work int64) (out string, err error) {
	defer recovered(&err)
	r := &run{
		work:       work,
		now:        env.Now,
		namespaces: map[*jinja.Dict]bool{},
	}
	if r.now == nil {
		r.now = time.Now
	}
	vars := r.functions()
	for name := range globals {
		vars["v_"+name] = jinja.NewCallable(name, nil)
	}
	for name, v := range env.Vars {
		vars["v_"+name] = v
	}
	return p.tmpl.RenderValues(vars)
}

// recovered turns a panic of the engine into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("template engine failed: %v", p)
	}
}

// RaisedError is a template's own refusal: what it gave raise_exception.
type RaisedError struct {
	Message string
}

func (e *RaisedError) Error() string { return e.Message }

// LimitError says that a template was stopped.
type LimitError struct {
	Reason string
}

func (e *LimitError) Error() string { return "template stopped: " + e.Reason }
