package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	s := Settings{Args: []string{"-c", "1024", "--ctx-size=2048", "-x", "-y", "--ctx"}}
	for _, c := range []struct{ names, want string }{
		{"-c", "1024"}, {"-c --ctx-size", "2048"}, {"-z", ""}, {"--ctx", ""}, {"-x", "-y"},
	} {
		got, ok := s.Value(strings.Fields(c.names)...)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.names, got, ok, c.want)
		}
	}
}

func TestLists(t *testing.T) {
	const help = "-fit,  --fit [on|off]   whether to adjust\n--cache-prompt, --no-cache-prompt\n--metrics\n-cram, --cache-ram N (see --cache-reuse)"
	for flag, want := range map[string]bool{
		"-fit": true, "--fit": true, "--metrics": true, "--no-cache-prompt": true, "--cache-ram": true, "-cram": true,
		"--cache": false, "-f": false, "--metric": false, "-ram": false, "--cache-reuse": true,
	} {
		if got := lists(help, flag); got != want {
			t.Errorf("%s: %v", flag, got)
		}
	}
}

// flagged is an adapter whose engine has flags that come and go.
type flagged struct{ anyServer }

func (flagged) Name() string { return "flagged" }
func (flagged) Facts() Facts {
	return Facts{ListsFlags: true, ModelFlags: []string{"-m"}, FetchFlags: []string{"--fetch"}}
}

func (flagged) Command(s Settings) (Command, error) {
	argv := append([]string(nil), s.Program...)
	if s.Model != "" {
		argv = s.Flag(argv, s.Model, "-m", "--model")
	}
	argv = s.Option(argv, "0", "--new-name", "--old-name")
	argv = s.Option(argv, "", "--switch")
	return Command{Argv: append(argv, s.Args...)}, nil
}

// program writes a program that prints a help text, or does worse.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program is asked which flags it knows: by another name, or not at all.
func TestCompose(t *testing.T) {
	for _, c := range []struct{ name, script, args, want, left string }{
		{"all", "echo '  --new-name, --old-name N\n --switch'", "", "-m m --new-name 0 --switch", ""},
		{"an older name", "echo '  --old-name N\n --switch' >&2; exit 1", "", "-m m --old-name 0 --switch", ""},
		{"neither", "echo '  --other'", "-x", "-m m -x", "--new-name --switch"},
		{"the user's own wins", "echo '  --new-name, --old-name N'", "--old-name=5 --switch", "-m m --old-name=5 --switch", ""},
		{"says nothing", "exit 0", "", "-m m --new-name 0 --switch", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program(t, "case $1 in --version) echo version 7;; *) "+c.script+";; esac")
			got, err := Compose(t.Context(), flagged{}, Settings{Program: []string{p}, Model: "m", Args: strings.Fields(c.args)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if line := strings.Join(got.Argv[1:], " "); line != c.want || strings.Join(got.Left, " ") != c.left || strings.TrimSpace(got.Version) != "version 7" {
				t.Errorf("%q, left out %q, version %q; want %q, %q", line, got.Left, got.Version, c.want, c.left)
			}
		})
	}
}

func TestComposeFails(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Settings
		want string
	}{
		{"no program", Settings{Program: []string{"/no/such/engine"}, Model: "m"}, `flagged: the program "/no/such/engine" is not there`},
		{"no program on PATH", Settings{Program: []string{"no-such-engine"}, Model: "m"}, `executable file not found in $PATH`},
		{"no model", Settings{Program: []string{"sh"}}, "flagged: no model (want -m FILE"},
	} {
		if _, err := Compose(t.Context(), flagged{}, c.s, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Compose(t.Context(), anyServer{}, Settings{}, nil); !errors.Is(err, ErrNoCommand) {
		t.Errorf("an engine without a command: %v", err)
	}
	p := program(t, "exit 0")
	if _, err := Compose(t.Context(), flagged{}, Settings{Program: []string{p}, Args: []string{"--fetch", "x"}}, nil); err != nil {
		t.Errorf("a model that the engine fetches: %v", err)
	}
}

// What a program prints is bounded, whatever it prints.
func TestSaysOfIsBounded(t *testing.T) {
	out, err := saysOf(t.Context(), program(t, "head -c 3000000 /dev/zero"), "--help", nil)
	if err != nil || len(out) != mostOf {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
