package selftest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/kit/target"
)

// The tests start this test binary again as the server.
const role = "TEST_SELFTEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	if err := Serve(ctx, l); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ownServer are options that start the server from this binary.
func ownServer(t *testing.T) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Argv: []string{exe}, Env: append(target.Scrub(os.Environ()), role+"=1"), Runs: 1}
}
