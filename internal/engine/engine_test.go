package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/engine/grammar"
	"assay/internal/engine/sample"
	"assay/internal/gguf"
	"assay/internal/tokenizer"
	"assay/models/seedling"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, o Options) *Engine {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func greedy() sample.Params { return sample.Params{TopP: 1, RepeatPenalty: 1} }

func collect(t *testing.T, e *Engine, r Request) ([]int32, Result) {
	t.Helper()
	var ids []int32
	result, err := e.Generate(context.Background(), r, func(tok Token) error {
		ids = append(ids, tok.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, result
}

func TestGenerate(t *testing.T) {
	e := load(t, Options{Threads: 2, Context: 512})
	prompt := e.Tokenizer().Encode("<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n", tokenizer.Options{ParseSpecial: true})

	ids, result := collect(t, e, Request{Prompt: prompt, MaxTokens: 60, Sampling: greedy(), Logprobs: -1})
	if text := e.Tokenizer().Decode(ids, false); !strings.Contains(text, "Seedling") {
		t.Errorf("answered %q, want its name in it", text)
	}
	if result.Finish != FinishStop || !e.Tokenizer().IsEOG(ids[len(ids)-1]) {
		t.Errorf("finish %q after %v, want a stop at an end token", result.Finish, ids)
	}
	tm := result.Timings
	if tm.Prompt != len(prompt) || tm.Cached != 0 || tm.Predicted != len(ids) || tm.PromptTime <= 0 || tm.DecodeTime <= 0 {
		t.Errorf("timings %+v for %d and %d tokens", tm, len(prompt), len(ids))
	}

	more, result := collect(t, e, Request{Prompt: prompt, MaxTokens: 60, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1})
	if len(more) != 60 || result.Finish != FinishLength || !slices.Equal(more[:len(ids)-1], ids[:len(ids)-1]) {
		t.Errorf("with ignored ends: %d tokens, finish %q", len(more), result.Finish)
	}
	for _, id := range more {
		if e.Tokenizer().IsEOG(id) {
			t.Errorf("drew the end token %d", id)
		}
	}

	none, result := collect(t, e, Request{Prompt: prompt, MaxTokens: 0, Sampling: greedy(), Logprobs: -1})
	if len(none) != 0 || result.Finish != FinishLength || result.Timings.Prompt != len(prompt) {
		t.Errorf("asked for no tokens: got %v, %+v", none, result)
	}
}

// Generation ends where the context does: every position is used.
func TestContextEnds(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 40})
	prompt := slices.Repeat([]int32{42}, 30)
	ids, result := collect(t, e, Request{Prompt: prompt, MaxTokens: -1, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1})
	if len(ids) != 10 || result.Finish != FinishLength {
		t.Errorf("%d tokens and %q, want 10 and length", len(ids), result.Finish)
	}
	_, err := e.Generate(context.Background(), Request{Prompt: slices.Repeat(prompt, 2), Sampling: greedy()}, nil)
	var long *ContextError
	if !errors.As(err, &long) || long.Prompt != 60 || long.Context != 40 {
		t.Errorf("60 tokens in a context of 40: %v", err)
	}
	for _, bad := range [][]int32{{}, {-1}, {4096}} {
		if _, err := e.Generate(context.Background(), Request{Prompt: bad, Sampling: greedy()}, nil); err == nil {
			t.Errorf("prompt %v was accepted", bad)
		}
	}
}

// Requests that run side by side write what each writes alone, sampled too, for
// any number of threads.
func TestNeighboursChangeNothing(t *testing.T) {
	alone := load(t, Options{Threads: 1, Context: 256})
	p := sample.Defaults()
	requests := make([]Request, 4)
	want := make([][]int32, len(requests))
	for i := range requests {
		p.Seed = uint64(i)
		requests[i] = Request{Prompt: []int32{int32(40 + i), 263, 300}, MaxTokens: 24, Sampling: p, IgnoreEOS: true, Logprobs: -1}
		want[i], _ = collect(t, alone, requests[i])
	}
	if slices.Equal(want[0][1:], want[1][1:]) {
		t.Fatal("two seeds wrote the same text; the test proves nothing")
	}
	together := load(t, Options{Threads: 3, Context: 256, Slots: 2})
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			var ids []int32
			if _, err := together.Generate(context.Background(), r, func(tok Token) error {
				ids = append(ids, tok.ID)
				return nil
			}); err != nil {
				t.Error(err)
			}
			if !slices.Equal(ids, want[i]) {
				t.Errorf("request %d wrote %v, alone %v", i, ids, want[i])
			}
		})
	}
	wg.Wait()
}

// A request that is given up stops before its next token, and its slot is free
// for the next.
func TestCancelStopsWithinAToken(t *testing.T) {
	e := load(t, Options{Threads: 2, Context: 2048})
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	r := Request{Prompt: []int32{42}, MaxTokens: -1, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	_, err := e.Generate(ctx, r, func(Token) error {
		if n++; n == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 5 {
		t.Errorf("%d tokens and %v, want 5 and cancelled", n, err)
	}
	stop, _ := e.Generate(context.Background(), r, func(Token) error { return ErrStop })
	if stop.Finish != FinishStop || stop.Timings.Predicted != 1 {
		t.Errorf("ErrStop: %+v", stop)
	}
	broken := errors.New("broken pipe")
	if _, err := e.Generate(context.Background(), r, func(Token) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("emit's error came back as %v", err)
	}
}

func TestCloseEndsRequests(t *testing.T) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load(context.Background(), f, Options{Threads: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	started, done := make(chan struct{}), make(chan error)
	var once sync.Once
	r := Request{Prompt: []int32{42}, MaxTokens: -1, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	go func() {
		_, err := e.Generate(context.Background(), r, func(Token) error {
			once.Do(func() { close(started) })
			return nil
		})
		done <- err
	}()
	<-started
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("the request ended with %v, want ErrClosed", err)
			}
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Close hangs")
		}
	}
	if _, err := e.Generate(context.Background(), r, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestLogprobs(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 64})
	_, err := e.Generate(context.Background(), Request{Prompt: []int32{42}, MaxTokens: 3, Sampling: greedy(), Logprobs: 3}, func(tok Token) error {
		if len(tok.Top) != 3 || tok.Top[0].ID != tok.ID || tok.Top[0].Logprob != tok.Logprob || tok.Logprob > 0 || tok.Top[1].Logprob > tok.Logprob {
			t.Errorf("a greedy token %d of %g with %v beside it", tok.ID, tok.Logprob, tok.Top)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadSaysWhatItRead(t *testing.T) {
	e := load(t, Options{})
	got := e.Info()
	if got.Name != "Seedling MoE 15M" || got.Architecture != "qwen3moe" || got.FileType != "IQ3_S" || got.Parameters != 15_485_696 ||
		got.Context != 8192 || got.TrainContext != 32768 || got.Embedding != 256 || got.Vocabulary != 4096 {
		t.Errorf("Info: %+v", got)
	}
	if o := e.Options(); o.Threads != runtime.NumCPU() || o.Slots != 1 {
		t.Errorf("Options: %+v", o)
	}
	if huge, total, err := e.HugeBytes(); runtime.GOOS == "linux" && (err != nil || huge < 0 || huge > total || total < 7_000_000) {
		t.Errorf("HugeBytes: %d of %d, %v", huge, total, err)
	}
	if runtime.GOMAXPROCS(0) < e.Options().Threads+2 {
		t.Errorf("GOMAXPROCS %d with %d threads", runtime.GOMAXPROCS(0), e.Options().Threads)
	}
}

// A model that can't be run is refused with the file, the key or the tensor.
func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change map[string]any
		o      Options
		want   string
	}{
		{"context", nil, Options{Context: 1 << 20}, "context: 1048576 is not between 2 and the 32768"},
		{"threads", nil, Options{Threads: -1}, "threads: -1 is not between"},
		{"architecture", map[string]any{"general.architecture": "mamba"}, Options{}, `changed.gguf: general.architecture is "mamba"`},
		{"layers", map[string]any{"qwen3moe.block_count": uint32(5)}, Options{}, "changed.gguf: 12 tensors are missing: blk.4.attn_q.weight, blk.4.attn_k.weight"},
		{"width", map[string]any{"qwen3moe.embedding_length": uint32(512)}, Options{}, "tensor token_embd.weight has dimensions [256 4096], but the metadata ask for [512 4096]"},
		{"heads", map[string]any{"qwen3moe.attention.head_count_kv": uint32(3)}, Options{}, "qwen3moe.attention.head_count_kv: 3 does not divide the 4"},
		{"experts", map[string]any{"qwen3moe.expert_used_count": uint32(17)}, Options{}, "qwen3moe.expert_used_count: 17 is not between 1 and 16"},
		{"everything", map[string]any{"qwen3moe.expert_used_count": uint32(17), "qwen3moe.rope.scaling.type": "longrope"}, Options{}, "changed.gguf: this engine can't run it:\n  qwen3moe.rope.scaling.type: \"longrope\" is not supported yet\n  qwen3moe.expert_used_count: 17 is not between"},
		{"eps", map[string]any{"qwen3moe.attention.layer_norm_rms_epsilon": float32(-1)}, Options{}, "layer_norm_rms_epsilon: -1 is not between"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := rebuilt(t, c.change)
			e, err := Load(context.Background(), f, c.o, nil)
			if err == nil {
				_ = e.Close()
				t.Fatal("it was loaded")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
		})
	}
}

// rebuilt is Seedling with changed metadata.
func rebuilt(t *testing.T, change map[string]any) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	b := gguf.NewBuilder()
	for _, kv := range f.KVs() {
		if _, changed := change[kv.Key]; !changed {
			b.Set(kv.Key, plain(t, kv))
		}
	}
	for key, v := range change {
		b.Set(key, v)
	}
	for _, tensor := range f.Tensors() {
		b.Tensor(tensor.Name, tensor.Type, tensor.Dims, tensor.Data())
	}
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Parse("changed.gguf", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// plain is a metadata value as a Go value.
func plain(t *testing.T, kv gguf.KV) any {
	t.Helper()
	v := kv.Value
	if s, ok := v.Text(); ok {
		return s
	}
	if b, ok := v.Bool(); ok {
		return b
	}
	if n, ok := v.Uint(); ok {
		return n
	}
	if x, ok := v.Float(); ok {
		return x
	}
	if s, ok := v.Strings(); ok {
		return s
	}
	if n, ok := v.Ints(); ok {
		return n
	}
	t.Fatalf("key %s: a %s", kv.Key, v.Kind())
	return nil
}

// A form is complete when the context ends, however many tokens are allowed.
func TestFormsEndWithTheContext(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 60})
	form, err := grammar.Schema(json.RawMessage(`{"type":"array","items":{"enum":["yes","no","perhaps"]},"minItems":3}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.Compile(form, grammar.NewVocabulary(e.Tokenizer()))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 1000, math.MaxInt} {
		ids, result := collect(t, e, Request{Prompt: []int32{42, 43, 44}, MaxTokens: n, Sampling: greedy(), Logprobs: -1, Constraint: g.Matcher()})
		if text := e.Tokenizer().Decode(ids, false); !json.Valid([]byte(text)) || result.Finish != FinishStop {
			t.Errorf("at most %d tokens: %q, and %s", n, text, result.Finish)
		}
	}
}

// A pass that panics ends the program, though the goroutine that ran it would recover:
// all others would wait for it.
func TestPanicInAPassEndsTheProgram(t *testing.T) {
	const child = "ASSAY_TEST_PANIC"
	if os.Getenv(child) != "" {
		e := load(t, Options{Threads: 1})
		b, err := e.Bench(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = recover() }()                // as net/http does
		_ = b.Feed(t.Context(), []int32{math.MaxInt32}) // no such token, which Generate would refuse
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicInAPassEndsTheProgram$")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in a pass:") {
		t.Errorf("it ended with %v and %q", err, out)
	}
}
