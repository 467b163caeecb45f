// Command synth makes GGUF models of random weights, for measuring speed: any
// architecture that the engine runs, of any size, in any format. A seed gives the
// same bytes on every machine.
//
//	go -C tools run ./synth -preset 2.5b -quant Q4_K -o /var/tmp/synth-2.5b-Q4_K.gguf
//	go -C tools run ./synth -preset qwen3-30b-a3b -quant Q4_K_M -o FILE
//	go -C tools run ./synth -preset 2.5b -layers 2 -experts 16 -quant F16 -o FILE
//
// Paths are relative to tools/ then. -quant is one format for all matrices, or a mix of llama.cpp's (Q4_K_M). Norms
// and routers are F32, as in real files.
//
// Blocks hold random bits under scales that give every matrix the size of a
// trained one: an input of size 1 gives outputs of size 1. So the stream neither
// explodes nor vanishes, and routing depends on the token. Experts are chosen
// with a Zipf skew (-skew; route.go says how it arises). What the model writes is
// noise.
//
// The vocabulary is the built-in model's, padded with unused tokens; for 151,936
// tokens Qwen2's, where ../shared/data/vocab has it; or that of the GGUF file of
// -tokenizer.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "synth:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("synth", flag.ExitOnError)
	m := model{}
	preset := f.String("preset", "2.5b", "`shape` to begin with: "+strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	out := f.String("o", "", "`file` to write")
	tokenizer := f.String("tokenizer", "", "GGUF `file` to take the vocabulary from")
	f.StringVar(&m.quant, "quant", "Q8_0", "format of the matrices, or a mix")
	f.Uint64Var(&m.seed, "seed", 1, "of the random numbers")
	f.Float64Var(&m.skew, "skew", 1, "exponent of the experts' Zipf distribution; 0: none")
	var s shape
	f.StringVar(&s.arch, "arch", "", "architecture: "+strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	f.IntVar(&s.layers, "layers", 0, "layers")
	f.IntVar(&s.width, "width", 0, "width of the stream")
	f.IntVar(&s.heads, "heads", 0, "query heads")
	f.IntVar(&s.kvHeads, "kv-heads", 0, "key-value heads")
	f.IntVar(&s.headDim, "head-dim", 0, "size of a head")
	f.IntVar(&s.experts, "experts", 0, "experts a layer")
	f.IntVar(&s.used, "used", 0, "experts a token")
	f.IntVar(&s.expertWidth, "expert-width", 0, "inner width of an expert")
	f.IntVar(&s.vocab, "vocab", 0, "tokens")
	f.IntVar(&s.context, "context", 0, "positions that the file declares")
	_ = f.Parse(args) // ExitOnError
	if f.NArg() > 0 || *out == "" {
		return fmt.Errorf("want -o FILE and no arguments besides flags (see -h)")
	}
	var ok bool
	if m.shape, ok = presets[*preset]; !ok {
		return fmt.Errorf("-preset %s: want one of %s", *preset, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	}
	m.shape.override(s)
	if *tokenizer == "" {
		*tokenizer = findVocabulary(m.shape.vocab)
	}
	var err error
	if m.vocab, err = chooseVocabulary(*tokenizer, m.shape.vocab); err != nil {
		return err
	}
	start := time.Now()
	n, err := m.create(*out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.3f GB in %.1f s\n", *out, float64(n)/1e9, time.Since(start).Seconds())
	return nil
}

// override replaces what o sets.
func (s *shape) override(o shape) {
	if o.arch != "" {
		s.arch = o.arch
	}
	for _, p := range []struct {
		to   *int
		from int
	}{
		{&s.layers, o.layers},
		{&s.width, o.width},
		{&s.heads, o.heads},
		{&s.kvHeads, o.kvHeads},
		{&s.headDim, o.headDim},
		{&s.experts, o.experts},
		{&s.used, o.used},
		{&s.expertWidth, o.expertWidth},
		{&s.vocab, o.vocab},
		{&s.context, o.context},
	} {
		if p.from != 0 {
			*p.to = p.from
		}
	}
}
