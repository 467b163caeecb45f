//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"assay/internal/kit/stats"
)

// The tables lie between these lines of the page; what is written around them by
// hand stays.
const (
	pageBegin = "<!-- benchmarks: written by make bench from here -->"
	pageEnd   = "<!-- benchmarks: to here -->"
)

// placed is a cell with the number of the call that it came from.
type placed struct {
	*cell
	call int
}

// writePage writes the tables into the page.
func writePage(path string, all []*results) error {
	old, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		old, err = []byte("# Performance\n\n"+pageBegin+"\n"+pageEnd+"\n"), nil
	}
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(pageBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(pageEnd))
	if !ok || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing", path, pageBegin, pageEnd)
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(pageBegin + "\n\n")
	tables(&out, all)
	out.WriteString(pageEnd)
	out.Write(after)
	return os.WriteFile(path, out.Bytes(), 0o666)
}

// tables writes everything that the results say, a part for each machine, the one that
// was measured last first.
func tables(w *bytes.Buffer, all []*results) {
	var names []string
	for _, r := range slices.Backward(all) {
		if !slices.Contains(names, r.machine()) {
			names = append(names, r.machine())
		}
	}
	fmt.Fprint(w, "tok/s are medians, with the smallest and the largest. The ratio is ours over theirs, taken pair by pair, then the median; in brackets the interval of the median, with its confidence. GB/s are the bytes that a token reads, keys and values included, times tok/s, and their share of what plain loads read from memory between the same runs; Gop/s the multiplications and additions with the weights, and their share of what the int8 instruction gives from registers. \"Others\" is how many processors other programs used meanwhile, and the host's other guests.\n\n")
	for _, name := range names {
		fmt.Fprintf(w, "## %s\n\n", name)
		machineTables(w, all, name)
	}
}

// machine tells machines apart.
func (r *results) machine() string {
	return fmt.Sprintf("%s, %s processors", text(r.Host.CPUModel), text(r.Host.CPUs))
}

// machineTables writes what was measured on one machine, the newest of each cell.
func machineTables(w *bytes.Buffer, all []*results, name string) {
	type key struct {
		file, column string
		threads      int
		test         test
	}
	var made []*results // there
	newest := map[key]placed{}
	for i, r := range all {
		if r.machine() != name {
			continue
		}
		made = append(made, r)
		for _, c := range r.Cells {
			newest[key{c.File, c.Column, c.Threads, c.Test}] = placed{c, i + 1}
		}
	}
	var cells []placed
	used := map[int]bool{}
	for _, c := range newest {
		cells = append(cells, c)
		used[c.call] = true
	}
	slices.SortFunc(cells, func(a, b placed) int {
		return cmp.Or(
			cmp.Compare(slices.Index(columnNames, a.Column), slices.Index(columnNames, b.Column)),
			cmp.Compare(fileOrder(a.File), fileOrder(b.File)), cmp.Compare(a.File, b.File),
			cmp.Compare(b.Test.Kind, a.Test.Kind), cmp.Compare(a.Test.Depth, b.Test.Depth),
			cmp.Compare(a.Test.N, b.Test.N), cmp.Compare(a.Threads, b.Threads),
		)
	})
	machines(w, all, used)
	for _, column := range columnNames {
		var mine []placed
		for _, c := range cells {
			if c.Column == column {
				mine = append(mine, c)
			}
		}
		if len(mine) == 0 {
			continue
		}
		fmt.Fprintf(w, "### %s\n\n%s\n\n", columnTitles[column], columnTexts[column])
		columnTable(w, mine)
		if column == "busy" {
			neighbourTable(w, mine)
		}
		if column == "huge" {
			scalingTable(w, mine)
		}
	}
	checkTable(w, made)
	fmt.Fprintf(w, "### The commands\n\n")
	for i, r := range all {
		if !used[i+1] {
			continue
		}
		fmt.Fprintf(w, "%d. `%s` on %s, assay %s, %s\n", i+1, strings.Join(r.Command, " "), r.Time.Format("2006-01-02 15:04 UTC"), r.Commit, r.Go)
	}
	fmt.Fprintln(w)
}

// fileOrder puts the synthetic formats in the order of their size.
func fileOrder(file string) int {
	if i := slices.Index([]string{"Q8_0", "Q4_K", "IQ3_S"}, file); i >= 0 {
		return i
	}
	return 99
}

var columnTitles = map[string]string{
	"huge": "Both on 2 MiB pages",
	"4k":   "Both on 4 KiB pages",
	"user": "As a user starts them",
	"busy": "With a busy neighbour",
}

var columnTexts = map[string]string{
	"huge": "The headline: neither is held up by the page table. llama.cpp gets huge pages by `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, with mmap off; ours asks for them itself.",
	"4k":   "Huge pages are forbidden to both processes (`prctl(PR_SET_THP_DISABLE)`), and mmap is off.",
	"user": "No settings on either side: llama.cpp maps the file and repacks weights as it chooses.",
	"busy": "As on 2 MiB pages, while another process keeps the first processor busy.",
}

// machines names where it was measured, and what with.
func machines(w *bytes.Buffer, all []*results, used map[int]bool) {
	var seen []string
	for i, r := range all {
		if !used[i+1] {
			continue
		}
		line := r.about()
		if !slices.Contains(seen, line) {
			seen = append(seen, line)
			fmt.Fprintln(w, line)
		}
	}
}

// about names the machine, and the peer if there is one.
func (r *results) about() string {
	h := r.Host
	s := fmt.Sprintf("Machine: %s, %s processors, %s of memory, Linux %s, %s; transparent huge pages `%s`.\n",
		text(h.CPUModel), text(h.CPUs), gib(h.MemoryBytes), text(h.Kernel), virtual(h.Virtualisation), r.Huge)
	if p := r.Peer; p != nil {
		s += fmt.Sprintf("\nPeer: llama.cpp as in the PyPI package %s (its version is llama.cpp's build number; sha256 of the source `%s`), compiled here with `%s`; %s.\n",
			p.Package, p.SHA256, p.Flags, p.Settings)
	}
	return s
}

func text[T any](v *T) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

func gib(v *int64) string {
	if v == nil {
		return "unknown size"
	}
	return fmt.Sprintf("%.0f GiB", float64(*v)/(1<<30))
}

func virtual(v *string) string {
	if v == nil || *v == "none" {
		return "no hypervisor known"
	}
	return "virtual machine (" + *v + ")"
}

// columnTable has a line a cell.
func columnTable(w *bytes.Buffer, cells []placed) {
	fmt.Fprint(w, "| file | test | -t | ours, tok/s | llama.cpp, tok/s | ratio | ours | of the machine | others | run |\n|---|---|---|---|---|---|---|---|---|---|\n")
	settings := map[string]bool{}
	for _, c := range cells {
		moved, share := c.against()
		fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %d |\n", c.File, c.Test, c.Threads,
			spread(c.tokS(c.Ours)), spread(c.tokS(c.Theirs)), ratioText(c.ratios()), moved, share, c.others(), c.call)
		settings[fmt.Sprintf("ours: %s; llama.cpp: %s", c.OursInfo, c.TheirsInfo)] = true
	}
	fmt.Fprintln(w)
	var list []string
	for s := range settings {
		list = append(list, s)
	}
	slices.Sort(list)
	fmt.Fprintf(w, "Settings: %s. %s\n\n", strings.Join(list, "; "), hugeText(cells))
}

// tokS turns times into tokens a second.
func (c *cell) tokS(ns []int64) []float64 {
	out := make([]float64, len(ns))
	for i, v := range ns {
		out[i] = float64(c.Test.N) / float64(v) * 1e9
	}
	return out
}

// ratios are ours over theirs, pair by pair.
func (c *cell) ratios() []float64 {
	return pairRatios(c.tokS(c.Ours), c.tokS(c.Theirs))
}

// ratioText is the median with its interval, or with the range where there are
// too few for an interval.
func ratioText(v []float64) string {
	s, ok := stats.Summarize(v)
	if !ok {
		return "none"
	}
	if i, err := stats.MedianInterval(v, 0.9); err == nil {
		return fmt.Sprintf("**%.2f** [%.2f, %.2f; %.0f %%]", s.Median, i.Low, i.High, 100*i.Confidence)
	}
	return fmt.Sprintf("**%.2f** (%d pairs: %.2f-%.2f)", s.Median, s.N, s.Min, s.Max)
}

// against is what our engine moves or computes, and its share of what the
// machine can do.
func (c *cell) against() (moved, share string) {
	s, ok := stats.Summarize(c.tokS(c.Ours))
	if !ok || c.Model == nil {
		return "unknown", "unknown"
	}
	best, v, unit := c.Read, s.Median*c.bytesPerToken(), "GB/s"
	if c.Test.Kind == "pp" {
		best, v, unit = c.Peak, s.Median*float64(c.Model.Operations), "Gop/s"
	}
	moved = three(v/1e9) + " " + unit
	b, ok := stats.Summarize(best)
	if !ok {
		return moved, "unknown"
	}
	return moved, fmt.Sprintf("%.0f %% of %s", 100*v/b.Median, three(b.Median/1e9))
}

// bytesPerToken is what the middle token of an answer reads.
func (c *cell) bytesPerToken() float64 {
	before := float64(c.Test.Depth) + float64(c.Test.N-1)/2
	return float64(c.Model.PerToken)*float64(c.Model.Memory)/float64(c.Model.Weights) + before*float64(c.Model.KVPosition)
}

func (c *cell) others() string {
	if c.Foreign == nil || c.Steal == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f + %.2f", *c.Foreign, *c.Steal)
}

// hugeText says how much of both processes' memory lay in huge pages.
func hugeText(cells []placed) string {
	shares := func(get func(*cell) (huge, rss *int64)) string {
		var v []float64
		for _, c := range cells {
			if huge, rss := get(c.cell); huge != nil && rss != nil && *rss > 0 {
				v = append(v, 100*float64(*huge)/float64(*rss))
			}
		}
		s, ok := stats.Summarize(v)
		if !ok {
			return "unknown"
		}
		return fmt.Sprintf("%.0f-%.0f %%", s.Min, s.Max)
	}
	return fmt.Sprintf("Of resident memory in huge pages: ours %s, llama.cpp %s.",
		shares(func(c *cell) (*int64, *int64) { return c.OursHuge, c.OursRSS }),
		shares(func(c *cell) (*int64, *int64) { return c.TheirsHuge, c.TheirsRSS }))
}

// of finds the cell of the same test on another number of threads.
func of(cells []placed, c placed, threads int) (placed, bool) {
	for _, o := range cells {
		if o.File == c.File && o.Column == c.Column && o.Test == c.Test && o.Threads == threads {
			return o, true
		}
	}
	return placed{}, false
}

// scalingTable says what more threads give, and what they give the machine.
func scalingTable(w *bytes.Buffer, cells []placed) {
	var lines []string
	for _, c := range cells {
		one, ok := of(cells, c, 1)
		if c.Threads == 1 || !ok {
			continue
		}
		best, bestOne := c.Read, one.Read
		what := "reads"
		if c.Test.Kind == "pp" {
			best, bestOne, what = c.Peak, one.Peak, "computes"
		}
		got, able := pairRatios(c.tokS(c.Ours), one.tokS(one.Ours)), pairRatios(best, bestOne)
		theirs := pairRatios(c.tokS(c.Theirs), one.tokS(one.Theirs))
		lines = append(lines, fmt.Sprintf("| %s | %s | %d | %.2f | %.2f | %s %.2f | %s |", c.File, c.Test, c.Threads,
			middle(got), middle(theirs), what, middle(able), ratioText(pairRatios(got, able))))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "What more threads give, against one. Runs on one and on more threads, and the machine's own limit on as many, were measured in turn; the last column is ours over the machine's, pair by pair:\n\n| file | test | -t | ours | llama.cpp | the machine | ours of the machine |\n|---|---|---|---|---|---|---|\n%s\n\n", strings.Join(lines, "\n"))
}

// pairRatios are a over b, one by one.
func pairRatios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

// neighbourTable says what is left of two threads when one is disturbed. The
// runs on one and on two threads alternated, so they are compared in pairs.
func neighbourTable(w *bytes.Buffer, cells []placed) {
	for _, c := range cells {
		one, ok := of(cells, c, 1)
		if c.Threads == 1 || !ok {
			continue
		}
		fmt.Fprintf(w, "%s, %s: %d threads against one beside the same neighbour: ours %s, llama.cpp %s.\n\n", c.File, c.Test, c.Threads,
			ratioText(pairRatios(c.tokS(c.Ours), one.tokS(one.Ours))), ratioText(pairRatios(c.tokS(c.Theirs), one.tokS(one.Theirs))))
	}
}

// three writes v with three digits.
func three(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
