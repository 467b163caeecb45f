package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/chat"
	"assay/internal/engine"
	"assay/internal/engine/serve"
)

const chatLong = `Talk to a model, a line at a time, through its own chat template. Answers are
written as they come; lines can also be piped in, and then only the answers are
printed.

  /reset  forget the conversation
  /help   show these commands
  /exit   end (as does Ctrl-D)

Ctrl-C stops an answer, which the conversation keeps as far as it got; twice in
a row ends.

Examples:
  assay chat
  assay chat -m model.gguf --system "Answer in one sentence." --temperature 0
  echo "Who are you?" | assay chat -n 32

EXIT STATUS
  0    ok
  1    the model could not be loaded, or generation failed
  2    a flag or an argument is wrong
  130  interrupted`

const chatHelp = "/reset  forget the conversation\n/help   show these commands\n/exit   end\n"

type chatOptions struct {
	engineFlags
	samplingFlags
	system string
}

func newChatCommand(env *Env) *cobra.Command {
	var o chatOptions
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to a model",
		Long:  chatLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runChat(cmd.Context(), env, o)
		},
	}
	o.engineFlags.register(cmd)
	o.samplingFlags.register(cmd, -1)
	cmd.Flags().StringVar(&o.system, "system", "", "`text` of the system message that the conversation begins with")
	return cmd
}

func runChat(ctx context.Context, env *Env, o chatOptions) error {
	if err := errors.Join(o.engineFlags.check(), o.samplingFlags.check()); err != nil {
		return err
	}
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer e.Close()
	template, err := e.Template()
	if err != nil {
		return fmt.Errorf("%w (assay generate needs no template)", err)
	}
	c := &conversation{env: env, options: o, engine: e, template: template, interactive: stdinIsTerminal(env)}
	c.reset()
	return c.run(ctx)
}

func stdinIsTerminal(env *Env) bool {
	f, ok := env.Stdin.(*os.File)
	return ok && isTerminal(f)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation is what has been said, and with whom.
type conversation struct {
	env         *Env
	options     chatOptions
	engine      *engine.Engine
	template    *chat.Template
	interactive bool
	messages    []message
}

func (c *conversation) reset() {
	c.messages = nil
	if c.options.system != "" {
		c.messages = []message{{"system", c.options.system}}
	}
}

// run reads lines and answers them. The first signal ends ctx for good, so each
// wait has a context of its own.
func (c *conversation) run(ctx context.Context) error {
	if !c.interactive {
		return c.script(ctx)
	}
	done := make(chan struct{})
	defer close(done)
	lines := readLines(c.env.Stdin, done)
	fmt.Fprintf(c.env.Stderr, "%s. /help for help, /exit to end.\n", c.engine.Info().Name)
	warned := false // a signal came, and nothing since
	for {
		wait, release := c.env.Context()
		fmt.Fprint(c.env.Stdout, "> ")
		select {
		case <-wait.Done():
			release()
			if warned {
				return &exitError{Code: ExitInterrupted}
			}
			warned = true
			fmt.Fprint(c.env.Stderr, "\n(Ctrl-C again or /exit to end)\n")
		case line, ok := <-lines:
			release()
			warned = false
			if !ok {
				fmt.Fprintln(c.env.Stdout)
				return nil
			}
			answer, release := c.env.Context()
			ended, err := c.line(answer, line)
			warned = answer.Err() != nil
			release()
			if ended || err != nil {
				return err
			}
		}
	}
}

// script answers lines that are piped in; any signal ends it.
func (c *conversation) script(ctx context.Context) error {
	done := make(chan struct{})
	defer close(done)
	lines := readLines(c.env.Stdin, done)
	for {
		select {
		case <-ctx.Done():
			return &exitError{Code: ExitInterrupted}
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			if ended, err := c.line(ctx, line); ended || err != nil {
				return err
			}
		}
	}
}

// readLines reads on in the background, since a read can't be interrupted.
func readLines(r io.Reader, done <-chan struct{}) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		b := bufio.NewReader(r)
		for {
			line, err := b.ReadString('\n')
			if line = strings.TrimRight(line, "\r\n"); line != "" || err == nil {
				select {
				case lines <- line:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// line does what one line asks for.
func (c *conversation) line(ctx context.Context, line string) (ended bool, err error) {
	switch command := strings.TrimSpace(line); {
	case command == "":
		return false, nil
	case command == "/exit":
		return true, nil
	case command == "/reset":
		c.reset()
		return false, nil
	case command == "/help":
		_, err := fmt.Fprint(c.env.Stdout, chatHelp)
		return false, err
	case strings.HasPrefix(command, "/") && !strings.Contains(command, " "):
		fmt.Fprintf(c.env.Stderr, "there is no %s (/help shows what there is)\n", command)
		return false, nil
	}
	return false, c.answer(ctx, line)
}

// answer asks the model and shows its answer. A conversation that has grown too
// long is told, not ended: /reset helps.
func (c *conversation) answer(ctx context.Context, line string) error {
	said := append(c.messages, message{"user", line})
	raw, err := json.Marshal(said)
	if err != nil {
		return err
	}
	prompt, err := c.template.Render(chat.Input{Messages: raw, AddGenerationPrompt: true})
	if err != nil {
		return err
	}
	ids := serve.EncodePrompt(c.engine.Tokenizer(), prompt)
	text, result, err := streamText(ctx, c.engine, c.options.request(ids), c.env.Stdout)
	var tooLong *engine.ContextError
	switch {
	case errors.As(err, &tooLong) && c.interactive:
		fmt.Fprintf(c.env.Stderr, "%v, or /reset\n", err)
		return nil
	case errors.Is(err, context.Canceled) && !c.interactive:
		fmt.Fprintln(c.env.Stdout)
		return &exitError{Code: ExitInterrupted}
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	}
	c.messages = append(said, message{"assistant", text})
	fmt.Fprintln(c.env.Stdout)
	if c.interactive && c.env.StderrIsTerminal && err == nil {
		printTimings(c.env.Stderr, result.Timings, string(result.Finish))
	}
	return nil
}
