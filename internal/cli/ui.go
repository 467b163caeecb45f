package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"assay/internal/kit/ui"
)

const uiLong = `Show the report of a folder in a browser while its rows are being written.

  assay ui runs/today
  assay ui assay-runs --port 8000

DIR is a folder of rows, or one that holds such folders; it need not be there yet.
The page is that of assay report. It renews itself when a row was added.

It listens on loopback only, and answers only requests that name loopback. With
another --host everybody who can reach the port and knows the token in the printed
address can read the report: there is no encryption.

The page is worked out when a browser asks for it. That takes processor time from
what is being measured on the same machine: close the page, or expect the row to
say that the machine was not quiet. Ctrl-C ends it.

EXIT STATUS
  0  stopped by a signal
  1  the port could not be opened
  2  wrong usage`

type uiOptions struct {
	reportOptions
	json bool
	host string
	port int
}

func newUICommand(env *Env) *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui DIR",
		Short: "Show a report in a browser while its rows are being written",
		Long:  uiLong,
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runUI(cmd.Context(), env, o, args[0]) },
	}
	registerArmFlags(cmd, &o.reportOptions)
	f := cmd.Flags()
	f.StringVar(&o.host, "host", "127.0.0.1", "`address` to listen on")
	f.IntVar(&o.port, "port", 0, "port to listen on (0: a free one, which is printed)")
	f.BoolVar(&o.json, "json", false, "print the address as JSON")
	return cmd
}

func runUI(ctx context.Context, env *Env, o uiOptions, dir string) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.port < 0 || o.port > 65535 {
		return usagef("--port: %d is not a port (want 0 to 65535)", o.port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("--host, --port: %w", err)
	}
	c := ui.Config{Dir: dir, Options: o.page()}
	address := "http://" + l.Addr().String() + "/"
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		c.Token = rand.Text()
		address += "?token=" + c.Token
	}
	if o.json {
		err = printJSON(env, map[string]string{"url": address, "dir": dir})
	} else {
		_, err = fmt.Fprintf(env.Stderr, "assay ui: %s shows %s\n", address, dir)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := ui.New(c).Run(ctx, l); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
