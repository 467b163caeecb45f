//go:build linux

// Command benchmarks times the engine against llama.cpp: the same files, the
// same threads, run by run in turn, on one machine. "make bench" runs it.
//
//	go run ./benchmarks                      the default matrix; after 20 minutes (-budget) nothing new is begun
//	go run ./benchmarks -full -budget 0      with what takes long: pp4096 on one thread, all tests in every column
//	go run ./benchmarks -only Q8_0 -columns huge -pairs 10
//	go run ./benchmarks -model FILE -tests tg16,pp64 -pairs 2
//	go run ./benchmarks -report              only write the page again
//	go run ./benchmarks larger               models larger than memory ("make bench-larger"): see larger.go
//
// Each engine is one process that keeps the model: ours this program itself, by
// the calls of assay speed; theirs peer/driver.cpp, by the calls of llama-bench.
// A pair is one run of either, the order turning from pair to pair. The ratio is
// taken within each pair; shown are medians, with the interval of the ratio's
// median that the ranks of so many pairs allow.
//
// Columns say how memory is laid out, which decides much of decoding:
//
//	huge   both on 2 MiB pages: ours as always, theirs by GLIBC_TUNABLES=glibc.malloc.hugetlb=1 and without mmap
//	4k     both on 4 KiB pages: huge pages forbidden to both processes by prctl
//	user   as a user starts them: llama.cpp's defaults, mmap and repacking as it chooses
//	busy   as huge, while another process keeps the first processor busy
//
// The machine must be idle: the program refuses to start when it is not (-busy-ok
// goes on), and puts down how much of each group's time others used. Results go
// to benchmarks/results/, one file a call; docs/Performance.md is written from all
// files there, the newest figure of a cell winning.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	dir     string // of the models
	model   string // instead of the presets
	only    string
	columns string
	threads string
	tests   string
	pairs   int
	full    bool
	busyOK  bool
	report  bool
	noCheck bool
	budget  time.Duration
	results string
	page    string
}

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "-child-engine":
			exit(engineChild(os.Args[2:], os.Stdin, os.Stdout))
		case "-child-plain-pages":
			exit(execPlainPages(os.Args[2:]))
		case "-child-spin":
			exit(spinChild(os.Args[2]))
		case "-child-larger":
			exit(largerChild(os.Args[2:], os.Stdin, os.Stdout))
		case "-child-in":
			exit(execIn(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "larger" {
		exit(runLarger(ctx, os.Args[2:]))
	}
	exit(run(ctx, os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, args []string) error {
	var o options
	f := flag.NewFlagSet("benchmarks", flag.ExitOnError)
	f.StringVar(&o.dir, "dir", "/var/tmp/assay-synth", "`folder` of the models; those that are missing are made (5 GB)")
	f.StringVar(&o.model, "model", "", "one GGUF `file`, instead of the synthetic models")
	f.StringVar(&o.only, "only", "Q8_0,Q4_K,IQ3_S", "formats of the synthetic model")
	f.StringVar(&o.columns, "columns", "huge,4k,user,busy", "columns")
	f.StringVar(&o.threads, "threads", "1,2", "numbers of threads")
	f.StringVar(&o.tests, "tests", "", "tests, as in tg128,pp512,tg128@4096; empty: the matrix")
	f.IntVar(&o.pairs, "pairs", 5, "runs of each engine in each cell")
	f.BoolVar(&o.full, "full", false, "every test in every column")
	f.DurationVar(&o.budget, "budget", 20*time.Minute, "begin nothing after this `time`; what is left out is named (0: no limit)")
	f.BoolVar(&o.busyOK, "busy-ok", false, "measure although the machine is busy")
	f.BoolVar(&o.report, "report", false, "measure nothing, only write the page")
	f.BoolVar(&o.noCheck, "no-check", false, "don't hold the driver against llama-bench at the end")
	f.StringVar(&o.results, "results", "benchmarks/results", "`folder` of the results")
	f.StringVar(&o.page, "page", "docs/Performance.md", "`file` to write the tables into; empty: none")
	_ = f.Parse(args) // ExitOnError
	if f.NArg() > 0 {
		return fmt.Errorf("no arguments besides flags, not %q", f.Args())
	}
	if !o.report {
		groups, err := o.plan()
		if err != nil {
			return err
		}
		if err := measure(ctx, o, args, groups); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	all, err := readResults(o.results)
	if err != nil {
		return err
	}
	return writePage(o.page, all)
}

// measure runs all groups and writes the results after each, so that an
// interrupted call keeps what it has.
func measure(ctx context.Context, o options, args []string, groups []group) error {
	if err := idle(ctx); err != nil {
		if !o.busyOK {
			return fmt.Errorf("%w (wait, or give -busy-ok and distrust the figures)", err)
		}
		fmt.Fprintln(os.Stderr, "benchmarks: warning:", err)
	}
	peer, err := buildPeer(ctx)
	if err != nil {
		return err
	}
	if o.model == "" {
		if err := makeModels(ctx, o, groups); err != nil {
			return err
		}
	}
	out := newResults(append([]string{"go", "run", "./benchmarks"}, args...), peer)
	if err := os.MkdirAll(o.results, 0o777); err != nil {
		return err
	}
	path := filepath.Join(o.results, out.Time.Format("2006-01-02T150405Z")+".json")
	start := time.Now()
	for i, g := range groups {
		if o.budget > 0 && time.Since(start) > o.budget {
			for _, g := range groups[i:] {
				fmt.Fprintf(os.Stderr, "left out, after %s: %s\n", o.budget, g)
			}
			break
		}
		fmt.Fprintf(os.Stderr, "%6.0f s  %d of %d: %s\n", time.Since(start).Seconds(), i+1, len(groups), g)
		cells, err := g.run(ctx, peer, o.pairs)
		if err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
		out.Cells = append(out.Cells, cells...)
		if err := out.write(path); err != nil {
			return err
		}
	}
	if !o.noCheck && len(groups) > 0 {
		fmt.Fprintf(os.Stderr, "%6.0f s  the driver against llama-bench\n", time.Since(start).Seconds())
		if out.Check, err = checkDriver(ctx, peer, groups[0]); err != nil {
			return err
		}
		if err := out.write(path); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%6.0f s  done: %s\n", time.Since(start).Seconds(), path)
	return nil
}

// test is one thing that is timed.
type test struct {
	Kind  string `json:"kind"` // pp: a prompt, tg: an answer
	N     int    `json:"n"`
	Depth int    `json:"depth"`
}

func (t test) String() string {
	s := t.Kind + strconv.Itoa(t.N)
	if t.Depth > 0 {
		s += "@" + strconv.Itoa(t.Depth)
	}
	return s
}

// parseTest reads "tg128@4096".
func parseTest(s string) (test, error) {
	head, depth, deep := strings.Cut(s, "@")
	t := test{}
	var err, err2 error
	if len(head) > 2 {
		t.Kind = head[:2]
		t.N, err = strconv.Atoi(head[2:])
	}
	if deep {
		t.Depth, err2 = strconv.Atoi(depth)
	}
	if (t.Kind != "pp" && t.Kind != "tg") || errors.Join(err, err2) != nil || t.N < 1 || t.Depth < 0 {
		return t, fmt.Errorf("-tests: %q is no test (want pp512, tg128 or tg128@4096)", s)
	}
	return t, nil
}

// group is what is measured with the same processes: one file, one column, and
// one number of threads, or several at once under a busy neighbour.
type group struct {
	file    string
	name    string // of the file in tables
	column  string
	threads []int
	tests   []test // by depth, so that the tokens before are computed once
}

func (g group) String() string {
	return fmt.Sprintf("%s, column %s, threads %v, tests %v", g.name, g.column, g.threads, g.tests)
}

// plan is the matrix that the flags choose.
func (o *options) plan() ([]group, error) {
	var threads []int
	for _, s := range strings.Split(o.threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > runtime.NumCPU() {
			return nil, fmt.Errorf("-threads: %q is not between 1 and the %d processors", s, runtime.NumCPU())
		}
		threads = append(threads, n)
	}
	if o.pairs < 1 {
		return nil, fmt.Errorf("-pairs: %d is less than 1", o.pairs)
	}
	files := [][2]string{}
	if o.model != "" {
		files = append(files, [2]string{o.model, strings.TrimSuffix(filepath.Base(o.model), ".gguf")})
	} else {
		for _, q := range strings.Split(o.only, ",") {
			files = append(files, [2]string{filepath.Join(o.dir, "synth-2.5b-"+q+".gguf"), q})
		}
	}
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, column := range strings.Split(o.columns, ",") {
		if !slices.Contains(columnNames, column) {
			return nil, fmt.Errorf("-columns: %q is none of %v", column, columnNames)
		}
		for i, file := range files {
			if column == "busy" {
				if i == 0 && len(threads) > 1 {
					groups = append(groups, group{file[0], file[1], column, threads, []test{{"tg", 64, 0}}})
				}
				continue
			}
			for _, g := range o.matrix(column, threads, chosen) {
				g.file, g.name, g.column = file[0], file[1], column
				groups = append(groups, g)
			}
		}
	}
	return groups, nil
}

// matrix is what a column measures: the chosen tests, or its own. In the headline
// column all numbers of threads are measured in turn, so that they can be
// compared; the long prompt is left to the most threads.
func (o *options) matrix(column string, threads []int, chosen []test) []group {
	answer, deep := test{"tg", 128, 0}, test{"tg", 128, 4096}
	prompt, long := test{"pp", 512, 0}, test{"pp", 4096, 0}
	most := threads[len(threads)-1:]
	switch {
	case len(chosen) > 0:
		return []group{{threads: threads, tests: chosen}}
	case column == "huge" && o.full:
		return []group{{threads: threads, tests: []test{answer, prompt, long, deep}}}
	case column == "huge":
		return []group{{threads: threads, tests: []test{answer, prompt, deep}}, {threads: most, tests: []test{long}}}
	case o.full:
		return []group{{threads: most, tests: []test{answer, prompt, long, deep}}}
	}
	return []group{{threads: most, tests: []test{answer, prompt}}}
}

// chosen is what -tests names instead of the matrix.
func (o *options) chosen() ([]test, error) {
	if o.tests == "" {
		return nil, nil
	}
	var out []test
	for _, s := range strings.Split(o.tests, ",") {
		t, err := parseTest(s)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
