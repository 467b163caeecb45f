package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Compose makes the command line that starts an engine. Where the adapter's engine
// changes its flags from version to version, the program itself is asked first
// which it knows. env is the environment that it gets.
func Compose(ctx context.Context, a Adapter, s Settings, env []string) (Command, error) {
	plain, err := a.Command(s)
	if err != nil {
		return Command{}, fmt.Errorf("%s: %w", a.Name(), err)
	}
	program, facts := plain.Argv[0], a.Facts()
	if _, err := exec.LookPath(program); err != nil {
		return Command{}, fmt.Errorf("%s: the program %q is not there (%w): install it, or name its path", a.Name(), program, errors.Unwrap(err))
	}
	if s.Model == "" && len(facts.ModelFlags) > 0 && !s.Has(facts.ModelFlags...) && !s.Has(facts.FetchFlags...) {
		return Command{}, fmt.Errorf("%s: no model (want %s FILE after --)", a.Name(), facts.ModelFlags[0])
	}
	if !facts.ListsFlags {
		return plain, nil
	}
	if s.Help, err = saysOf(ctx, program, "--help", env); err != nil {
		return Command{}, err
	}
	var left []string
	s.left = &left
	c, err := a.Command(s)
	if err != nil {
		return Command{}, fmt.Errorf("%s: %w", a.Name(), err)
	}
	c.Left = left
	if c.Version, err = saysOf(ctx, program, "--version", env); err != nil {
		return Command{}, err
	}
	return c, nil
}

// asked is how long a program may take to tell of its flags, and most what it
// may say.
const (
	asked  = 20 * time.Second
	mostOf = 1 << 20
)

// saysOf is what a program prints when it is called with one flag, whatever its
// exit status.
func saysOf(ctx context.Context, program, flag string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, flag)
	cmd.Env = env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	out := &clipped{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exited *exec.ExitError
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("%s %s did not end within %v; it printed: %s", program, flag, asked, clip(out.kept.String()))
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.As(err, &exited):
		return "", fmt.Errorf("%s %s: %w", program, flag, err)
	}
	return out.kept.String(), nil
}

// clipped keeps the beginning of what is written to it. The buffer is not embedded:
// its ReadFrom would pass by Write.
type clipped struct{ kept bytes.Buffer }

func (c *clipped) Write(p []byte) (int, error) {
	if room := mostOf - c.kept.Len(); room > 0 {
		c.kept.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
