package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/kit/selftest"
	"assay/internal/kit/target"
)

const selftestLong = `Measure the measuring client itself: its error and its lag.

A server process on this machine plays streams by a schedule and stamps every
frame with the time at which it sends it. The client receives them as assay run
does, and what it says is held against the stamps. First come hostile streams
(comments, empty frames, half of the tokens in the first frame, a late usage
frame, errors, bodies that break off, 16 KB clumps, ...), each of which must be
read right; then levels of load, each so many streams of so many tokens a second
at once.

  TTFT error    our TTFT less the server's own, from the request's arrival to its
                first token frame: the way there and the way back
  decode error  our decode_tok_s against the rate of the server's stamps; worst run
  lag           our stamp less the kernel's receive time, reads of a level together
  frame delay   our stamp less the server's, frames of a level together
  server late   the server's frames against its schedule: not the client's doing
  CPU/token     of this process while it received
  reported      runs whose TTFT and decode_tok_s are shown, not withheld

A dash is a figure that too few runs carry. Run it on an idle machine: whatever
else runs there is measured too.

EXIT STATUS
  0    every limit was kept
  1    failed
  2    a flag is wrong
  4    the server was too late to be judged by: the machine is too slow or busy
  99   a limit was crossed, or a hostile stream was read wrong
  130  interrupted`

type selftestOptions struct {
	levels   string
	progress string
	json     bool
	selftest.Options
}

func newSelftestCommand(env *Env) *cobra.Command {
	var o selftestOptions
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure the client's own error and lag",
		Long:  selftestLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runSelftest(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.levels, "levels", "1@50,1@2000,10@2000,100@100,1000@20", "`list` of streams@tokens a second of each")
	f.DurationVar(&o.Window, "window", 4*time.Second, "from the first to the last token of a stream")
	f.DurationVar(&o.TTFT, "ttft", 500*time.Millisecond, "time to the first token that the server plays")
	f.IntVar(&o.Runs, "runs", 5, "least runs of a level; one of fewer streams is repeated")
	f.Float64Var(&o.Limits.DecodeErrorPct, "max-decode-error", 0.1, "limit of the decode error in `percent`, at up to 10 streams")
	f.Float64Var(&o.Limits.TTFTErrorMS, "max-ttft-error", 1, "limit of the median TTFT error in `ms`, at 1 stream")
	f.Float64Var(&o.Limits.ReportedPct, "min-reported", 95, "least share of runs reported, in `percent`")
	f.StringVar(&o.progress, "progress", "auto", progressHelp)
	f.BoolVar(&o.json, "json", false, "print as JSON")
	cmd.AddCommand(newSelftestServerCommand(env))
	return cmd
}

func (o *selftestOptions) check() (err error) {
	switch {
	case o.Window < 100*time.Millisecond || o.Window > time.Hour:
		return usagef("--window: %v (want 100ms to 1h)", o.Window)
	case o.TTFT < 0 || o.TTFT > time.Minute:
		return usagef("--ttft: %v (want 0s to 1m)", o.TTFT)
	case o.Runs < 1 || o.Runs > 1000:
		return usagef("--runs: %d (want 1 to 1000)", o.Runs)
	}
	if o.Levels, err = selftest.ParseLevels(o.levels); err != nil {
		return usagef("--levels: %w", err)
	}
	if err := o.Check(); err != nil {
		return usagef("--levels, --window: %w", err)
	}
	return nil
}

func runSelftest(ctx context.Context, env *Env, o selftestOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	steps, err := newSteps(env, o.progress)
	if err != nil {
		return err
	}
	exe, err := env.Executable()
	if err != nil {
		return err
	}
	o.Argv, o.Env = []string{exe, "selftest", "server", "--port", "0"}, target.Scrub(env.Environ())
	o.Tell = func(line string) { steps.line("selftest: " + line) }
	rep, err := selftest.Run(ctx, o.Options)
	steps.clear()
	if err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(rep)
	} else {
		err = printSelftest(env.Stdout, rep)
	}
	switch {
	case err != nil:
		return err
	case len(rep.Late) > 0:
		return &exitError{Code: ExitUnfit}
	case len(rep.Crossed) > 0:
		return &exitError{Code: ExitThreshold}
	}
	return nil
}

func printSelftest(w io.Writer, rep *selftest.Report) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "streams\ttok/s\truns\treported\tTTFT error\tms\tdecode error\tlag\tms\tframe delay\tms\tserver late\tms\tCPU/token\t")
	fmt.Fprintln(t, "\t\t\t%\tp50\tp99\tworst %\tp50\tp99\tp50\tp99\tp50\tp99\tus\t")
	for i := range rep.Levels {
		l := &rep.Levels[i]
		fmt.Fprintf(t, "%d\t%g\t%d\t%.4g\t", l.Streams, l.TokS, l.Runs, 100*float64(l.Reported)/float64(l.Runs))
		for _, v := range []*float64{
			l.TTFTErrorMS.P50, l.TTFTErrorMS.P99, l.DecodeErrPct.Max, l.LagMS.P50, l.LagMS.P99,
			l.DelayMS.P50, l.DelayMS.P99, l.ServerLateMS.P50, l.ServerLateMS.P99,
		} {
			fmt.Fprintf(t, "%s\t", orDash(v, "%.3f"))
		}
		fmt.Fprintf(t, "%s\t\n", orDash(l.CPUPerTokenUS, "%.1f"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteByte('\n')
	right := 0
	for _, h := range rep.Hostile {
		if h.Why == "" {
			right++
		}
	}
	fmt.Fprintf(&b, "hostile streams: %d of %d read right\n", right, len(rep.Hostile))
	for _, h := range rep.Hostile {
		mark := "ok  "
		switch {
		case h.Busy:
			mark = "?   "
		case h.Why != "":
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "  %s %-13s %s\n", mark, h.Play, h.Expect)
	}
	for i := range rep.Levels {
		l := &rep.Levels[i]
		for _, code := range slices.Sorted(maps.Keys(l.Withheld)) {
			fmt.Fprintf(&b, "withheld: %v: %s in %d of %d runs\n", l.Level, code, l.Withheld[code], l.Runs)
		}
		for _, why := range l.Failed {
			fmt.Fprintf(&b, "failed: %v: %s\n", l.Level, why)
		}
	}
	for _, s := range rep.Late {
		fmt.Fprintf(&b, "not judged: %s\n", s)
	}
	for _, s := range rep.Crossed {
		fmt.Fprintf(&b, "limit crossed: %s\n", s)
	}
	if rep.Load1 != nil && *rep.Load1 > 0.5 {
		fmt.Fprintf(&b, "the machine was not idle: its load average was %.2f before the test\n", *rep.Load1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orDash(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

const selftestServerLong = `The server of assay selftest: it plays streams of the OpenAI API by a schedule
that stands in the model's name, and stamps their frames (arrived_ns, due_ns,
sent_ns: CLOCK_MONOTONIC). GET /streams tells what was sent, for clients that do
not keep the stamps.

  selftest?ttft=200ms&gap=500us&per_frame=1&play=plain

EXIT STATUS
  0  stopped by a signal
  1  failed
  2  a flag is wrong`

func newSelftestServerCommand(env *Env) *cobra.Command {
	var port int
	cmd := &cobra.Command{
		Use:    "server",
		Short:  "The server that the self-test measures",
		Long:   selftestServerLong,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usagef("--port: %d is not a port (want 0 to 65535)", port)
			}
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("--port: %w", err)
			}
			fmt.Fprintf(env.Stderr, "assay selftest: listening on http://%s\n", l.Addr())
			return selftest.Serve(cmd.Context(), l)
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, "port to listen on (0: a free one, which the log names)")
	return cmd
}
