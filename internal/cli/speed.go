package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/machine"
	"assay/internal/engine/spec"
	"assay/models/seedling"
)

const speedLong = `Measure the engine's own speed, inside this process: how fast it reads a prompt
(pp) and generates (tg) at one or more depths, like llama-bench. Tokens are
random and nothing is sampled, so this is what the forward pass costs, and more
than a server gives. To measure an engine as its users meet it, use assay run.

Each figure is the median of -r repetitions, with the smallest and the largest.
Beside it stands what this machine can do at best, measured around each test on
as many threads:

  MB/token   bytes that one generated token reads: the weights of the experts it
             takes and of all else, as they lie in memory, and the keys and
             values of the positions before it
  GB/s       that times tokens a second; "of read" is its share of what plain
             loads read from memory larger than the caches, in huge pages; a
             model small enough for the caches comes out above 100 %
  Gop/s      multiplications and additions of a prompt's tokens with the weights
             (attention's are left out); "of peak" is the share of what int8
             multiply-and-add instructions give with operands in registers

--spec N generates in rounds that verify N drafts, all of them right: the most that
drafts can give, since making them costs nothing here. Its bytes are not known, for
the tokens of a round choose different experts.

Memory that other programs or other guests of the host use in the same second
makes both sides slower: run it on an idle machine. --jsonl has llama-bench's
names for what means the same.

Examples:
  assay speed -m model.gguf
  assay speed -m model.gguf -p 512,4096 -n 128 -d 0,4096 -t 1,2
  assay speed -m model.gguf -p 0 -n 128 --json

EXIT STATUS
  0    ok
  1    the model could not be loaded or run
  2    a flag is wrong
  130  interrupted`

type speedOptions struct {
	model       string
	prompts     []int
	gens        []int
	depths      []int
	drafts      []int
	threads     []int
	repetitions int
	keyType     string
	valueType   string
	experts     expertFlags
	asJSON      bool
	asJSONL     bool
}

func newSpeedCommand(env *Env) *cobra.Command {
	var o speedOptions
	cmd := &cobra.Command{
		Use:   "speed",
		Short: "Measure the engine's own speed, against what the machine can do",
		Long:  speedLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tests, err := o.tests()
			if err != nil {
				return err
			}
			return runSpeed(cmd.Context(), env, o, tests)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", seedling.Name, modelHelp)
	f.IntSliceVarP(&o.prompts, "n-prompt", "p", []int{512}, "`tokens` of a prompt, a list (0: no such test)")
	f.IntSliceVarP(&o.gens, "n-gen", "n", []int{128}, "`tokens` to generate, a list (0: no such test)")
	f.IntSliceVarP(&o.depths, "n-depth", "d", []int{0}, "`tokens` that are there before, a list")
	f.IntSliceVar(&o.drafts, "spec", []int{0}, "`drafts` that each round of an answer verifies, a list (0: none)")
	f.IntSliceVarP(&o.threads, "threads", "t", []int{0}, "compute threads, a list (0: one a core)")
	f.IntVarP(&o.repetitions, "repetitions", "r", 5, "how often each test is made")
	f.StringVar(&o.keyType, "cache-type-k", cacheType, "`format` of the keys that are kept")
	f.StringVar(&o.valueType, "cache-type-v", cacheType, "`format` of the values that are kept")
	o.experts.register(cmd)
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&o.asJSONL, "jsonl", false, "print one JSON object a test, as each is done")
	cmd.MarkFlagsMutuallyExclusive("json", "jsonl")
	return cmd
}

// speedTest is a prompt or an answer of so many tokens, after depth others.
type speedTest struct{ prompt, gen, depth, drafts, threads int }

// name is llama-bench's: "pp512", "tg128 @ d4096"; with drafts "tg128 +4 @ d4096".
func (t speedTest) name() string {
	s := fmt.Sprintf("tg%d", t.gen)
	if t.prompt > 0 {
		s = fmt.Sprintf("pp%d", t.prompt)
	}
	if t.drafts > 0 {
		s += fmt.Sprintf(" +%d", t.drafts)
	}
	if t.depth > 0 {
		s += fmt.Sprintf(" @ d%d", t.depth)
	}
	return s
}

func (t speedTest) tokens() int { return t.prompt + t.gen }

// tests checks the lists and multiplies them out, ordered so that a model is
// loaded once a number of threads and a depth filled once.
func (o *speedOptions) tests() ([]speedTest, error) {
	for _, l := range []struct {
		flag        string
		list        []int
		least, most int
	}{
		{"n-prompt", o.prompts, 0, 1 << 20},
		{"n-gen", o.gens, 0, 1 << 20},
		{"n-depth", o.depths, 0, 1 << 20},
		{"spec", o.drafts, 0, spec.MaxDrafts},
		{"threads", o.threads, 0, 1024},
		{"repetitions", []int{o.repetitions}, 1, 1 << 20},
	} {
		for _, v := range l.list {
			if v < l.least || v > l.most {
				return nil, usagef("--%s: %d is not between %d and %d", l.flag, v, l.least, l.most)
			}
		}
	}
	check := engineFlags{keyType: o.keyType, valueType: o.valueType, experts: o.experts}
	if err := check.check(); err != nil {
		return nil, err
	}
	var tests []speedTest
	for _, t := range o.threads {
		for _, d := range o.depths {
			for _, p := range o.prompts {
				if p > 0 {
					tests = append(tests, speedTest{prompt: p, depth: d, threads: t})
				}
			}
			for _, n := range o.gens {
				for _, k := range o.drafts {
					if n > 0 {
						tests = append(tests, speedTest{gen: n, depth: d, drafts: k, threads: t})
					}
				}
			}
		}
	}
	if len(tests) == 0 {
		return nil, usagef("--n-prompt and --n-gen are both 0: there is nothing to measure")
	}
	return tests, nil
}

func runSpeed(ctx context.Context, env *Env, o speedOptions, tests []speedTest) error {
	s := speedRun{env: env, o: o}
	var err error
	if s.reader, err = machine.NewReader(speedMemory(), true); err != nil {
		return err
	}
	defer s.reader.Close()
	report := speedReport{Command: append([]string{"assay"}, env.Args...)}
	for len(tests) > 0 {
		n := 1
		for n < len(tests) && tests[n].threads == tests[0].threads {
			n++
		}
		if err := s.threads(ctx, tests[:n], &report); err != nil {
			return err
		}
		tests = tests[n:]
	}
	switch {
	case o.asJSON:
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	case o.asJSONL:
		return nil
	}
	return report.print(env.Stdout)
}

// speedRun is one call of the command.
type speedRun struct {
	env    *Env
	o      speedOptions
	reader *machine.Reader
}

// threads makes the tests of one number of threads.
func (s *speedRun) threads(ctx context.Context, tests []speedTest, report *speedReport) error {
	f, err := openModel(s.env, s.o.model)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := engineFlags{model: s.o.model, threads: tests[0].threads, keyType: s.o.keyType, valueType: s.o.valueType, experts: s.o.experts}
	if err := flags.experts.check(); err != nil {
		return err
	}
	for _, t := range tests {
		flags.context = max(flags.context, t.depth+t.tokens(), 2)
	}
	start := time.Now()
	e, err := flags.load(ctx, s.env, f, engine.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	loadTime := time.Since(start)
	demand, err := engine.DemandOf(f, e.Options())
	if err != nil {
		return err
	}
	bench, err := e.Bench(ctx)
	if err != nil {
		return err
	}
	defer bench.Close()
	report.describe(e, f, demand, loadTime)
	for _, t := range tests {
		t.threads = e.Options().Threads
		s.say("%s, %d threads ...", t.name(), t.threads)
		r, err := s.measure(ctx, e, bench, t)
		s.say("")
		if err != nil {
			return err
		}
		r.judge(t, demand)
		report.Tests = append(report.Tests, r)
		if s.o.asJSONL {
			if err := json.NewEncoder(s.env.Stdout).Encode(report.line(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// say writes what is done now to a terminal, "" clears it.
func (s *speedRun) say(format string, args ...any) {
	if s.env.StderrIsTerminal {
		fmt.Fprintf(s.env.Stderr, "\r\x1b[K"+format, args...)
	}
}

// machinePasses is how often memory and arithmetic are measured before, and
// after, each test.
const machinePasses = 5

// measure makes one test: a warm-up, then the repetitions.
func (s *speedRun) measure(ctx context.Context, e *engine.Engine, b *engine.Bench, t speedTest) (*speedResult, error) {
	r := &speedResult{Test: t.name(), Prompt: t.prompt, Gen: t.gen, Depth: t.depth, Drafts: t.drafts, Threads: t.threads, Time: time.Now().UTC()}
	tokens := randomTokens(e.Info().Vocabulary, t.depth+t.tokens())
	if b.Len() < t.depth {
		if err := b.Feed(ctx, tokens[b.Len():t.depth]); err != nil {
			return nil, err
		}
	}
	var read, dot machine.Result
	around := func() {
		m, a := s.reader.Read(ctx, t.threads, machinePasses), machine.Arithmetic(ctx, t.threads, machinePasses)
		read.Passes, dot.Passes = append(read.Passes, m.Passes...), append(dot.Passes, a.Passes...)
		read.How, dot.How = m.How, a.How
	}
	for i := range s.o.repetitions + 1 {
		if i == 1 {
			around()
		}
		b.Truncate(t.depth)
		start := time.Now()
		if err := feedTest(ctx, b, t, tokens[t.depth:], i == 0); err != nil {
			return nil, err
		}
		if i > 0 {
			r.sample(time.Since(start))
		}
	}
	b.Truncate(t.depth)
	around()
	r.machine(read, dot)
	return r, ctx.Err()
}

// feedTest feeds a prompt at once, or an answer round by round. A warm-up is
// one pass of a prompt, or a few tokens.
func feedTest(ctx context.Context, b *engine.Bench, t speedTest, tokens []int32, warmup bool) error {
	if t.prompt > 0 {
		if warmup {
			tokens = tokens[:min(len(tokens), engine.BatchTokens)]
		}
		return b.Feed(ctx, tokens)
	}
	if warmup {
		tokens = tokens[:min(len(tokens), 4)]
	}
	for round := range slices.Chunk(tokens, 1+t.drafts) {
		if err := b.Verify(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// randomTokens are n ids below vocabulary, the same ones in every run.
func randomTokens(vocabulary, n int) []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocabulary))
	}
	return ids
}
