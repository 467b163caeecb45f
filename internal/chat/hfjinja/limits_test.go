package hfjinja

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
)

// TestRunaways: templates that would never end, or fill the memory, are stopped
// soon. They are given a part of the usual work, to keep the test short.
func TestRunaways(t *testing.T) {
	const work = workBase / 8
	loop := func(body string) string {
		return `{% set ns = namespace(x='ab', l=[1, 2]) %}{% for i in range(9999) %}{% for j in range(9999) %}` + body + `{% endfor %}{% endfor %}`
	}
	for name, source := range map[string]string{
		"empty loops":          loop(``),
		"text":                 loop(strings.Repeat("text", 1000)),
		"recursion":            `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"mutual recursion":     `{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"branching recursion":  `{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}`,
		"recursion by caller":  `{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}`,
		"doubling text":        loop(`{% set ns.x = ns.x ~ ns.x %}`),
		"adding text":          loop(`{% set ns.x = ns.x + ns.x %}`),
		"doubling lists":       loop(`{% set ns.l = ns.l + ns.l %}`),
		"doubling arguments":   `{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('ab') }}`,
		"nested lists":         loop(`{% set ns.l = [ns.l, ns.l] %}`),
		"printing nested":      `{% set ns = namespace(l=['x']) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}`,
		"tojson of nested":     `{% set ns = namespace(l=['x']) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}`,
		"comparing nested":     `{% set ns = namespace(l=['x'], m=['x']) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}`,
		"a value in itself":    `{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}`,
		"repeating":            `{{ 'a' * 9999999999 }}`,
		"repeating lists":      `{{ [1, 2] * 9999999999 }}`,
		"repeating far":        `{{ 'ab' * 9223372036854775807 }}`,
		"repeating nothing":    loop(`{{ '' * 9223372036854775807 }}`),
		"indenting":            `{{ 'a\nb' | indent(9999999999) }}`,
		"indenting often":      `{{ ('\n' * 999999) | indent(999999, blank=true) }}`,
		"replacing":            loop(`{% set ns.x = ns.x.replace('', ns.x) %}`),
		"joining":              loop(`{% set ns.x = ns.x.join(['', '', '']) ~ ns.x | replace('a', ns.x) %}`),
		"tojson's indent":      `{{ [[1]] | tojson(indent=9999999999) }}`,
		"tojson's separators":  `{% set s = ',' * 999999 %}{{ range(9999) | list | tojson(separators=(s, s)) }}`,
		"range":                `{{ range(0, 9223372036854775807, 9) }}`,
		"batch":                `{{ [1] | batch(9999999999, 'x') }}`,
		"searching":            loop(`{{ 'b' in text }}`),
		"comparing text":       loop(`{{ [text] == [text ~ ''] }}`),
		"stripping":            loop(`{{ text.strip(text) }}`),
		"counting code points": loop(`{{ text[5] }}{{ text | length }}`),
		"sorting":              loop(`{{ range(99999) | sort }}`),
		"unique":               `{{ range(99999) | unique }}`,
		"mapping":              loop(`{{ range(99999) | map('string') | list }}`),
		"splitting":            loop(`{{ text.split('a') }}`),
		"set blocks":           loop(`{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = x %}`),
		"filter blocks":        loop(`{% filter upper %}{{ text }}{% endfilter %}`),
		"looping over text":    loop(`{% for c in text %}{% endfor %}`),
		"filtered loops":       loop(`{% for c in range(99999) if false %}{% endfor %}`),
		"powers":               loop(`{{ 1 ** 9223372036854775807 }}{{ (-1) ** 9223372036854775807 }}{{ 0 ** 9223372036854775807 }}`),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = p.run(Env{Vars: map[string]jinja.Value{"text": text(strings.Repeat("a", 10_000))}}, work)
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
			var limit *LimitError
			if !errors.As(err, &limit) {
				t.Errorf("got %v, want a LimitError", err)
			}
		})
	}
}

// TestDeepSource: nesting that would exhaust the stack, here or in the engine,
// is an error, and long flat sources compile in time that grows with their size.
func TestDeepSource(t *testing.T) {
	const n = 5000
	for name, source := range map[string]string{
		"parentheses": "{{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " }}",
		"lists":       "{{ " + strings.Repeat("[", n) + strings.Repeat("]", n) + " }}",
		"not":         "{{ " + strings.Repeat("not ", n) + "1 }}",
		"signs":       "{{ " + strings.Repeat("-", n) + "1 }}",
		"conditions":  "{{ " + strings.Repeat("1 if 1 else ", n/2) + "1 }}",
		"filters":     "{{ 1" + strings.Repeat("|abs", n/2) + " }}",
		"attributes":  "{{ x" + strings.Repeat(".y", n/2) + " }}",
		"calls":       "{{ x" + strings.Repeat("()", n/2) + " }}",
		"ifs":         strings.Repeat("{% if 1 %}", n) + strings.Repeat("{% endif %}", n),
		"tokens":      "{{ [" + strings.Repeat("1,", 3*n) + "] }}",
		"braces":      strings.Repeat("{", maxSource/2),
		"size":        strings.Repeat("x", maxSource+1),
	} {
		if _, err := Compile(source); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	const most = maxSource / 8
	for name, source := range map[string]string{
		"text":       strings.Repeat("x\n", most/2),
		"braces":     strings.Repeat("{ ", most/2),
		"outputs":    strings.Repeat("{{x}}", most/5),
		"statements": strings.Repeat("{%if x%}{%endif%}", most/17),
		"sets":       strings.Repeat("{%set x=1%}\n", most/12),
		"comments":   strings.Repeat("{##} ", most/5),
		"sums":       strings.Repeat("{{ 1"+strings.Repeat("+1", 4900)+" }}", 12),
		"ands":       strings.Repeat("{{ 1"+strings.Repeat(" and 1", 4900)+" }}", 10),
	} {
		start := time.Now()
		p, err := Compile(source)
		if err == nil {
			_, err = p.Run(Env{})
		}
		if d := time.Since(start); d > 20*time.Second || err != nil {
			t.Errorf("%s: took %v, %v", name, d, err)
		}
	}
}

// TestWorkGrowsWithInput: a long chat is not stopped.
func TestWorkGrowsWithInput(t *testing.T) {
	const chats, size = 500, 2000
	m := jinja.NewDict()
	m.AsDict().Set("content", text(strings.Repeat("a", size)))
	items := make([]value, chats)
	for i := range items {
		items[i] = m
	}
	p, err := Compile(`{% for m in messages %}{% for n in messages[loop.index0:] %}{% endfor %}{{ m.content | trim | upper }}{{ m.content.split('b')[0] }}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(Env{Vars: map[string]jinja.Value{"messages": jinja.NewList(items)}, InputBytes: chats * size})
	if err != nil || len(out) != 2*chats*size {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
