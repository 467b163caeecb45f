//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"assay/internal/engine"
	"assay/internal/gguf"
)

// child is a process that holds a model and times tests on command: peer's
// driver, or this program as -child-engine. Commands are lines as in "tg 128
// 4096"; answers are lines of JSON.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	hello hello
}

// hello is a child's first line.
type hello struct {
	Ready  bool   `json:"ready"`
	Info   string `json:"system_info"`
	Batch  int    `json:"n_batch"`
	UBatch int    `json:"n_ubatch"`
	KVType string `json:"kv_type"`
	Model  *modelFacts
}

func (h hello) info() string {
	s := fmt.Sprintf("batch %d", h.Batch)
	if h.UBatch > 0 {
		s += fmt.Sprintf(", ubatch %d", h.UBatch)
	}
	return s + ", keys and values " + h.KVType
}

// modelFacts is what our engine says of the file, for figures of bytes and
// operations.
type modelFacts struct {
	Weights    int64 `json:"weights"`     // bytes in the file
	Memory     int64 `json:"memory"`      // bytes of the loaded weights
	PerToken   int64 `json:"per_token"`   // bytes of weights in the file that a token reads
	Operations int64 `json:"operations"`  // of a token
	KVPosition int64 `json:"kv_position"` // bytes of a position in our engine
}

func startChild(ctx context.Context, argv, env []string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LLAMA_") && !strings.HasPrefix(v, "GGML_") && !strings.HasPrefix(v, "OMP_") && !strings.HasPrefix(v, "GLIBC_TUNABLES=") {
			c.cmd.Env = append(c.cmd.Env, v)
		}
	}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = dieWithParent()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.answer(&c.hello); err != nil || !c.hello.Ready {
		_ = c.close() // err says more
		return nil, fmt.Errorf("%s: it never got ready: %w", argv[0], err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) answer(into any) error {
	if !c.out.Scan() {
		if err := c.out.Err(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(c.out.Bytes(), into)
}

// time runs one test and returns what it took, in nanoseconds.
func (c *child) time(t test) (int64, error) {
	if _, err := fmt.Fprintf(c.in, "%s %d %d\n", t.Kind, t.N, t.Depth); err != nil {
		return 0, err
	}
	var a struct {
		NS int64 `json:"ns"`
	}
	if err := c.answer(&a); err != nil {
		return 0, fmt.Errorf("%s: %w", c.cmd.Path, err)
	}
	if a.NS <= 0 {
		return 0, fmt.Errorf("%s: it says %d ns", c.cmd.Path, a.NS)
	}
	return a.NS, nil
}

func (c *child) close() error {
	_ = c.in.Close() // ends the child
	return c.cmd.Wait()
}

// engineChild is our engine as a child: args are a file, threads and context.
func engineChild(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: -child-engine FILE THREADS CONTEXT")
	}
	threads, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	positions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	f, err := gguf.Open(args[0])
	if err != nil {
		return err
	}
	e, err := engine.Load(ctx, f, engine.Options{Threads: threads, Context: positions}, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	d, err := engine.DemandOf(f, e.Options())
	if err != nil {
		return err
	}
	_, memory, _ := e.HugeBytes() // what lies in huge pages is read from outside
	if err := f.Close(); err != nil {
		return err
	}
	b, err := e.Bench(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	say := json.NewEncoder(out)
	if err := say.Encode(hello{Ready: true, Batch: engine.BatchTokens, KVType: d.KVType, Model: &modelFacts{
		Weights: d.Weights, Memory: memory, PerToken: d.PerToken, Operations: d.Operations, KVPosition: d.KVPosition,
	}}); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = r.Int32N(int32(e.Info().Vocabulary))
		}
		return ids
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var t test
		if _, err := fmt.Sscan(lines.Text(), &t.Kind, &t.N, &t.Depth); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if b.Len() > t.Depth {
			b.Truncate(t.Depth)
		}
		if err := b.Feed(ctx, random(t.Depth-b.Len())); err != nil {
			return err
		}
		ids := random(t.N)
		start := time.Now()
		for len(ids) > 0 {
			n := len(ids)
			if t.Kind == "tg" {
				n = 1
			}
			if err := b.Feed(ctx, ids[:n]); err != nil {
				return err
			}
			ids = ids[n:]
		}
		if err := say.Encode(map[string]int64{"ns": time.Since(start).Nanoseconds()}); err != nil {
			return err
		}
	}
	return lines.Err()
}
