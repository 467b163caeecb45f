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

	"assay/internal/engine"
	"assay/internal/tokenizer"
)

const generateLong = `Go on from a prompt, as plain text: no chat template is applied. The text is
written to stdout as it comes; what it cost goes to stderr, on a terminal.

The prompt is -p, a file, or stdin. Names of special tokens in it (<|im_start|>)
are taken as those tokens, and the model's start token goes first where it has
one; --raw takes the prompt as bare text and ends the output without a newline.

Examples:
  assay generate -p "Once upon a time" -n 64
  assay generate -m model.gguf -f prompt.txt --temperature 0 --json
  echo "It was" | assay generate --seed 1

EXIT STATUS
  0    ok
  1    the model could not be loaded, or generation failed
  2    a flag, an argument or the prompt is wrong
  130  interrupted`

type generateOptions struct {
	engineFlags
	samplingFlags
	prompt string
	file   string
	asJSON bool
	raw    bool
}

func newGenerateCommand(env *Env) *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Go on from a prompt",
		Long:  generateLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prompt, err := o.readPrompt(env, cmd.Flags().Changed("prompt"))
			if err != nil {
				return err
			}
			return runGenerate(cmd.Context(), env, o, prompt)
		},
	}
	o.engineFlags.register(cmd)
	o.samplingFlags.register(cmd, 128)
	f := cmd.Flags()
	f.StringVarP(&o.prompt, "prompt", "p", "", "`text` to go on from")
	f.StringVarP(&o.file, "file", "f", "", "`file` with the prompt (-: stdin)")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object when all is done")
	f.BoolVar(&o.raw, "raw", false, "take the prompt as bare text, and add nothing to the output")
	cmd.MarkFlagsMutuallyExclusive("prompt", "file")
	return cmd
}

// readPrompt reads the prompt from where the flags say, stdin last.
func (o *generateOptions) readPrompt(env *Env, given bool) (string, error) {
	var text []byte
	var err error
	switch {
	case given:
		return o.prompt, nil
	case o.file != "" && o.file != "-":
		if text, err = os.ReadFile(o.file); err != nil {
			return "", usagef("--file: %w", err)
		}
	default:
		if text, err = io.ReadAll(env.Stdin); err != nil {
			return "", fmt.Errorf("reading the prompt from stdin: %w", err)
		}
	}
	// An editor's or echo's newline at the end is not meant.
	if o.raw {
		return string(text), nil
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

func runGenerate(ctx context.Context, env *Env, o generateOptions, prompt string) error {
	if err := errors.Join(o.engineFlags.check(), o.samplingFlags.check()); err != nil {
		return err
	}
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer e.Close()

	tok := e.Tokenizer()
	ids := tok.Encode(prompt, tokenizer.Options{AddSpecial: !o.raw, ParseSpecial: !o.raw})
	if len(ids) == 0 {
		return usagef("the prompt is empty (give one with -p, --file or on stdin)")
	}
	out := io.Discard
	if !o.asJSON {
		out = env.Stdout
	}
	text, result, err := streamText(ctx, e, o.request(ids), out)
	var tooLong *engine.ContextError
	if errors.As(err, &tooLong) {
		return &exitError{ExitUsage, err}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if o.asJSON && err == nil {
		return json.NewEncoder(env.Stdout).Encode(newGenerated(o.model, text, result))
	}
	if !o.asJSON && !o.raw && !strings.HasSuffix(text, "\n") {
		fmt.Fprintln(env.Stdout)
	}
	if env.StderrIsTerminal && err == nil {
		printTimings(env.Stderr, result.Timings, string(result.Finish))
	}
	if err != nil {
		return &exitError{Code: ExitInterrupted}
	}
	return nil
}

// streamText generates and writes the text to out as it comes.
func streamText(ctx context.Context, e *engine.Engine, r engine.Request, out io.Writer) (string, engine.Result, error) {
	var all strings.Builder
	w := bufio.NewWriter(io.MultiWriter(out, &all))
	stream := e.Tokenizer().Stream(false)
	show := func(text string) error {
		_, _ = w.WriteString(text) // Flush returns its error
		return w.Flush()
	}
	result, err := e.Generate(ctx, r, func(t engine.Token) error {
		if t.End {
			return nil
		}
		return show(stream.Push(t.ID))
	})
	if flushed := show(stream.Flush()); err == nil {
		err = flushed
	}
	return all.String(), result, err
}

// generated is what --json prints. A rate is null where there is no interval.
type generated struct {
	Model        string   `json:"model"`
	Text         string   `json:"text"`
	Finish       string   `json:"finish"`
	PromptTokens int      `json:"prompt_tokens"`
	PromptMS     float64  `json:"prompt_ms"`
	PromptTokS   *float64 `json:"prompt_tok_s"`
	Tokens       int      `json:"completion_tokens"`
	DecodeMS     float64  `json:"decode_ms"`
	DecodeTokS   *float64 `json:"decode_tok_s"` // over completion_tokens-1

	// Only where something was drafted.
	Offered  *int `json:"drafts_offered,omitempty"`
	Accepted *int `json:"drafts_accepted,omitempty"`
	Rounds   *int `json:"rounds,omitempty"`
}

func newGenerated(model, text string, r engine.Result) generated {
	t := r.Timings
	perSecond := func(n int, ms float64) *float64 {
		if n <= 0 || ms <= 0 {
			return nil
		}
		v := float64(n) / ms * 1000
		return &v
	}
	g := generated{
		Model: model, Text: text, Finish: string(r.Finish),
		PromptTokens: t.Prompt + t.Cached, PromptMS: t.PromptTime.Seconds() * 1000,
		Tokens: t.Predicted, DecodeMS: t.DecodeTime.Seconds() * 1000,
	}
	g.PromptTokS = perSecond(t.Prompt, g.PromptMS)
	g.DecodeTokS = perSecond(t.Predicted-1, g.DecodeMS)
	if t.Offered > 0 {
		g.Offered, g.Accepted, g.Rounds = &t.Offered, &t.Accepted, &t.Rounds
	}
	return g
}
