package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/serve"
)

const serveLong = `Serve a model over HTTP with the OpenAI API: /v1/chat/completions,
/v1/completions and /v1/models, streamed and not, and llama-server's /health,
/props, /slots, /tokenize, /detokenize, /apply-template and /metrics.

The port is open at once and answers 503 until the model is loaded; then a line
on stderr says where it listens, and one line a request says what it cost. The
flags are named as llama-server's are; --context is what one slot has.

With -np N, up to N requests are in work at once: one pass over the model computes
the next tokens of all of them, and of prompts a part of each. The others wait, first
come, first served, and more than --queue of them get 503 with Retry-After.

What was computed of a prompt is kept, up to --cache-ram, and a prompt that begins as
an earlier one did goes on from there: cached_tokens in usage and cache_n in timings
say from which token. A request with cache_prompt: false neither uses nor leaves
anything. With --cache-disk, what memory has no room for goes to files, one for each
prompt, which the next run finds too. No text depends on any of this.

SIGTERM or Ctrl-C ends it: no new request is taken, those in work may finish
within --drain, and a second signal ends it at once.

Examples:
  assay serve
  assay serve -m model.gguf --port 8080 -c 4096 -t 4 -np 2
  assay serve -m model.gguf -np 4 --cache-ram 2048 --cache-disk ~/.cache/prefixes
  ASSAY_API_KEY=secret assay serve -m model.gguf --host 0.0.0.0 --alias mine

EXIT STATUS
  0    stopped by a signal
  1    the model could not be loaded, or the port not opened
  2    a flag or an argument is wrong
  130  a second signal cut off requests in work`

type serveOptions struct {
	engineFlags
	host     string
	port     int
	parallel int
	queue    int
	reuse    reuseFlags
	apiKey   string
	alias    string
	drain    time.Duration
}

func newServeCommand(env *Env) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a model with the OpenAI API",
		Long:  serveLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), env, o)
		},
	}
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.host, "host", "127.0.0.1", "`address` to listen on")
	f.IntVar(&o.port, "port", 8080, "port to listen on (0: a free one, which the log names)")
	f.IntVar(&o.parallel, "parallel", 1, "slots: requests in work at once, each with a context of its own")
	f.IntVar(&o.queue, "queue", 256, "requests that may wait for a slot; more get 503 (0: none may wait)")
	o.reuse.register(cmd)
	f.StringVar(&o.apiKey, "api-key", "", "`key` that requests must carry; better given as ASSAY_API_KEY, since others see command lines")
	f.StringVarP(&o.alias, "alias", "a", "", "`id` of the model in answers (default: what -m names)")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "how long requests in work may go on after a signal")
	return cmd
}

func (o *serveOptions) check() error {
	switch {
	case o.port < 0 || o.port > 65535:
		return usagef("--port: %d is not a port (want 0 to 65535)", o.port)
	case o.parallel < 1:
		return usagef("--parallel: %d is not a number of slots (want at least 1)", o.parallel)
	case o.queue < 0:
		return usagef("--queue: %d is not a number of requests (want 0 or more)", o.queue)
	case o.drain < 0:
		return usagef("--drain: %v is not a time to wait (want 0s or more)", o.drain)
	}
	if err := o.reuse.check(); err != nil {
		return err
	}
	return o.engineFlags.check()
}

func runServe(ctx context.Context, env *Env, o serveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	// The model is opened first: what is no model is told at once, not by a
	// server that has started.
	path, err := findModel(env, o.model)
	if err != nil {
		return err
	}
	if path != o.model && o.alias == "" {
		o.alias = o.model // the path may be a hash
	}
	o.model = path
	file, err := openModel(env, o.model)
	if err != nil {
		return err
	}
	defer file.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("--host, --port: %w", err)
	}
	server := serve.New(serve.Config{
		ModelPath: o.model, Alias: o.alias, APIKey: o.apiKey, Build: buildInfo(), Log: env.Stderr,
	})
	// A second signal reaches a second context.
	err = server.Run(ctx, env.Context, l, o.drain, func(ctx context.Context) (*engine.Engine, error) {
		options := engine.Options{Slots: o.parallel, Queue: o.queue, Log: server.LogEngine}
		if o.queue == 0 {
			options.Queue = -1 // there, 0 is for the usual limit
		}
		o.reuse.set(&options)
		return o.load(ctx, env, file, options)
	})
	if errors.Is(err, context.Canceled) {
		return &exitError{Code: ExitInterrupted}
	}
	return err
}

// buildInfo names this build as llama-server names its own, in one word.
func buildInfo() string {
	c := buildCommit()
	return "assay-" + Version + "-" + c[:min(len(c), 9)]
}
