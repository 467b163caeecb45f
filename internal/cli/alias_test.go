package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRewriteAliases(t *testing.T) {
	tests := []struct{ in, want string }{
		{"serve -ngl 99 -np 2 -m x.gguf", "serve --gpu-layers 99 --parallel 2 -m x.gguf"},
		{"serve -ngl=99 --ctx-size=4096", "serve --gpu-layers=99 --context=4096"},
		{"generate --temp 0 --n-predict 5", "generate --temperature 0 --max-tokens 5"},
		{"chat -sys hello", "chat --system hello"},
		{"serve -ctk f32 -ctv=f32", "serve --cache-type-k f32 --cache-type-v=f32"},
		{"generate -- -np", "generate -- -np"},
		{"generate -n 5 -c 9", "generate -n 5 -c 9"},
	}
	for _, tt := range tests {
		if got := rewriteAliases(strings.Fields(tt.in)); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s: got %q, want %s", tt.in, got, tt.want)
		}
	}
}

// Every alias stands for a flag that some command has, and hides none.
func TestAliasesNameFlags(t *testing.T) {
	names := map[string]bool{}
	for _, c := range commands {
		cmd := c(&Env{})
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names["--"+f.Name] = true })
	}
	for alias, to := range aliases {
		if !names[to] {
			t.Errorf("%s stands for %s, which no command has", alias, to)
		}
		if names[alias] {
			t.Errorf("%s is a flag of its own and an alias of %s", alias, to)
		}
	}
}
