package engine

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// How weights are kept and how a prompt is cut changes no token, for each type
// of cache.
func TestOptionsChangeNoToken(t *testing.T) {
	f, err := gguf.Open(filepath.Join("..", "..", "models", "seedling", "seedling-15m-iq3_s.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	prompt := make([]int32, 40)
	for i := range prompt {
		prompt[i] = int32(300 + 7*i)
	}
	for _, cache := range []string{"f16", "q8_0", "f32"} {
		var want []int32
		for _, o := range []Options{{}, {Batch: 1}, {Batch: 7, Threads: 1}, {Mmap: true, Threads: 3}} {
			o.CacheType, o.Context = cache, 128
			e, err := Load(context.Background(), f, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Options().CacheType; got != cache {
				t.Errorf("the cache is %s, want %s", got, cache)
			}
			if _, total, err := e.HugeBytes(); (total == 0) != o.Mmap && err == nil {
				t.Errorf("%d bytes of weights in memory with Mmap %v", total, o.Mmap)
			}
			ids, _ := collect(t, e, Request{Prompt: prompt, MaxTokens: 12, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1})
			if want == nil {
				want = ids
			}
			if !slices.Equal(ids, want) {
				t.Errorf("%+v wrote %v, want %v", o, ids, want)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLoadRefusesOptions(t *testing.T) {
	f := rebuilt(t, nil)
	for want, o := range map[string]Options{
		`cache type: "q4_0" is not one of f16, q8_0 and f32`: {CacheType: "q4_0"},
		"batch: 513 is not between 1 and 512":                {Batch: 513},
	} {
		if e, err := Load(context.Background(), f, o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
			if err == nil {
				_ = e.Close()
			}
		}
	}
}
