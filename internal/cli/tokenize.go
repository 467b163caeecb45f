package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/tokenizer"
	"assay/models/seedling"
)

const tokenizeLong = `Turn text into a model's token ids, one a line with the text it stands for, or
with --decode ids into text.

The text is the argument, or standard input when there is none.

Examples:
  assay tokenize "Once upon a time"
  assay tokenize -m model.gguf --count < book.txt
  assay tokenize --decode "2996 331 548"

EXIT STATUS
  0  ok
  1  the model can't be read
  2  wrong usage`

type tokenizeOptions struct {
	model        string
	count        bool
	decode       bool
	addSpecial   bool
	parseSpecial bool
	json         bool
}

func newTokenizeCommand(env *Env) *cobra.Command {
	var o tokenizeOptions
	cmd := &cobra.Command{
		Use:   "tokenize [TEXT]",
		Short: "Turn text into token ids, or ids into text",
		Long:  tokenizeLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if o.count && o.decode {
				return usagef("--count and --decode exclude each other")
			}
			text, err := textOf(env, args)
			if err != nil {
				return err
			}
			f, err := openModel(env, o.model)
			if err != nil {
				return err
			}
			defer f.Close()
			t, err := tokenizer.New(f)
			if err != nil {
				return err
			}
			if o.decode {
				return o.runDecode(env, t, text)
			}
			return o.runEncode(env, t, text)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", seedling.Name, modelHelp+"; its tokenizer is used")
	f.BoolVar(&o.count, "count", false, "print only the number of tokens")
	f.BoolVar(&o.decode, "decode", false, "the text is token ids: print what they stand for")
	f.BoolVar(&o.addSpecial, "add-special", false, "add the tokens that the model wants at the start and end")
	f.BoolVar(&o.parseSpecial, "parse-special", false, "read special tokens such as <|im_end|> in the text as what they are")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

func textOf(env *Env, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	b, err := io.ReadAll(env.Stdin)
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return string(b), nil
}

func (o *tokenizeOptions) runEncode(env *Env, t *tokenizer.Tokenizer, text string) error {
	ids := t.Encode(text, tokenizer.Options{AddSpecial: o.addSpecial, ParseSpecial: o.parseSpecial})
	switch {
	case o.json && o.count:
		return json.NewEncoder(env.Stdout).Encode(map[string]int{"count": len(ids)})
	case o.json:
		return json.NewEncoder(env.Stdout).Encode(map[string]any{"count": len(ids), "tokens": append([]int32{}, ids...)})
	case o.count:
		_, err := fmt.Fprintln(env.Stdout, len(ids))
		return err
	}
	var b bytes.Buffer
	for _, id := range ids {
		fmt.Fprintf(&b, "%d\t%q\n", id, t.Piece(id))
	}
	_, err := b.WriteTo(env.Stdout)
	return err
}

func (o *tokenizeOptions) runDecode(env *Env, t *tokenizer.Tokenizer, text string) error {
	var ids []int32
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,[]", r) }) {
		var id int32
		if _, err := fmt.Sscanf(word, "%d", &id); err != nil || fmt.Sprint(id) != word {
			return usagef("id %d: %q is not a token id (want numbers from 0 to %d)", i+1, word, t.Size()-1)
		}
		if id < 0 || int(id) >= t.Size() {
			return usagef("id %d: %d is not in the vocabulary (0 to %d)", i+1, id, t.Size()-1)
		}
		ids = append(ids, id)
	}
	out := t.Decode(ids, true)
	if o.json {
		return json.NewEncoder(env.Stdout).Encode(map[string]any{"count": len(ids), "text": out})
	}
	if f, ok := env.Stdout.(*os.File); ok && isTerminal(f) {
		out += "\n"
	}
	_, err := io.WriteString(env.Stdout, out)
	return err
}
