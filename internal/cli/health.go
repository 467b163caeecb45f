package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const healthLong = `Ask a server's /health whether its model is loaded: for containers, which have no
other program to ask with. --host and --port are those that serve was given, by
flags or by ASSAY_HOST and ASSAY_PORT.

EXIT STATUS
  0  it is ready
  1  it does not answer, or is still loading
  2  wrong usage`

// healthTimeout is how long a server may take to answer.
const healthTimeout = 3 * time.Second

func newHealthCommand(env *Env) *cobra.Command {
	var host string
	var port int
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say whether a server is ready",
		Long:  healthLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runHealth(cmd.Context(), env, host, port)
		},
	}
	f := cmd.Flags()
	f.StringVar(&host, "host", "127.0.0.1", "`address` that the server listens on")
	f.IntVar(&port, "port", 8080, "port that it listens on")
	return cmd
}

func runHealth(ctx context.Context, env *Env, host string, port int) error {
	if port < 1 || port > 65535 {
		return usagef("--port: %d is not a port (want 1 to 65535)", port)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() { // every address, so this one too
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/health"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usagef("--host: %w", err)
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}} // a proxy is never between
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: does assay serve run there? (--host and --port say where)", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	_, err = fmt.Fprintln(env.Stdout, "ready")
	return err
}
