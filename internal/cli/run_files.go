package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"assay/internal/gguf"
	"assay/internal/kit/prompt"
	"assay/internal/kit/runner"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// openFiles reads what the run needs from files: the tokenizer, the text and the
// hashes of the model. A file that is wrong is told before anything starts.
func (o *runOptions) openFiles(ctx context.Context, env *Env, c *runner.Config) error {
	if o.textFile != "" {
		text, err := readText(o.textFile)
		if err != nil {
			return &exitError{ExitUsage, fmt.Errorf("--file: %w", err)}
		}
		c.Text = text
	}
	if o.url == "" {
		return o.openModelFile(ctx, env, c)
	}
	c.Model.Why = "attached: the files that the server loaded are not known"
	flag, file := "--tokenizer", o.tokenizer
	if file == "" && o.given("model-file") {
		flag, file = "--model-file", o.modelFile
	}
	if file == "" {
		return nil
	}
	counter, err := openCounter(file)
	if err != nil {
		return &exitError{ExitUsage, fmt.Errorf("%s: %w", flag, err)}
	}
	c.Tokens = counter
	return nil
}

func (o *runOptions) openModelFile(ctx context.Context, env *Env, c *runner.Config) error {
	f, err := openModel(o.modelFile)
	if err != nil {
		return &exitError{ExitUsage, fmt.Errorf("--model-file: %w", err)}
	}
	defer f.Close()
	if c.Tokens, err = tokens.FromGGUF(f, modelBase(o.modelFile)); err != nil {
		return &exitError{ExitUsage, fmt.Errorf("--model-file: %w", err)}
	}
	if c.Model.FileSHA256, err = hashModel(ctx, env, f, o.modelFile); err != nil {
		return err
	}
	if c.Model.Path = o.modelFile; o.modelFile == seedling.Name {
		c.Model.Path, err = env.Executable() // which holds that model
	}
	return err
}

// modelBase is how rows call a model file: without the folders of this machine.
func modelBase(file string) string {
	if file == seedling.Name {
		return seedling.File
	}
	return runner.ModelBase(file)
}

// largeModel is the size from which hashing takes long enough to be announced.
const largeModel = 1 << 30

// hashModel gives the sha256 of each of the model's files, numbered from 1.
func hashModel(ctx context.Context, env *Env, f *gguf.File, name string) (map[string]string, error) {
	if name == seedling.Name {
		sum := sha256.Sum256(seedling.GGUF)
		return map[string]string{"1": hex.EncodeToString(sum[:])}, nil
	}
	if f.Size() > largeModel && env.StderrIsTerminal {
		fmt.Fprintf(env.Stderr, "assay: hashing the model's files (%.1f GiB)\n", float64(f.Size())/(1<<30))
	}
	out := map[string]string{}
	for i, shard := range f.Shards() {
		sum, err := hashFile(ctx, shard.Path)
		if err != nil {
			return nil, fmt.Errorf("the hash of the model: %w", err)
		}
		out[strconv.Itoa(i+1)] = sum
	}
	return out, nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 4<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// maxText bounds a text file: more than the longest context needs.
const maxText = 256 << 20

func readText(path string) (*prompt.Text, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Size() > maxText:
		return nil, fmt.Errorf("%s: %d bytes (at most %d)", path, info.Size(), maxText)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s: not UTF-8 text", path)
	}
	return prompt.NewText(runner.ModelBase(path), string(data))
}
