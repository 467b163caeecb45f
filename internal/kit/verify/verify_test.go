package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"assay/internal/gguf"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// recorded is a folder of three rows of our own server with the built-in model,
// made by
//
//	assay run --ctx 0.2K --repeats 2 --max-tokens 64 --threads 1
//
// It must stay clean for every later version that knows its rules; internal/cli
// checks folders that are made in the test.
const recorded = "testdata/recorded"

// recordedVersion is the version that wrote it.
const recordedVersion = "0.1.0-dev"

// folder is a copy of the recorded one that a test may spoil.
func folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(recorded)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checked runs the check as a later version does.
func checked(t testing.TB, dir string) *Report {
	t.Helper()
	r, err := Dir(t.Context(), dir, Options{Version: "later"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func seedlingCounter(t testing.TB) *tokens.Counter {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	c, err := tokens.FromGGUF(f, seedling.File)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rowsOf reads the rows of a folder as plain JSON.
func rowsOf(t testing.TB, dir string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for line := range bytes.Lines(data) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// forge writes rows with every hash and number of the chain made anew, as
// someone would who hides what he changed.
func forge(t testing.TB, dir string, rows []map[string]any) {
	t.Helper()
	var out []byte
	last := ""
	for i, m := range rows {
		m["seq"], m["prev_sha256"] = i+1, nil
		why := m["why"].(map[string]any)
		delete(why, "prev_sha256")
		if i > 0 {
			m["prev_sha256"] = last
		} else {
			why["prev_sha256"] = "the first row of its journal"
		}
		line, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		last = sum(line)
		out = append(append(out, line...), '\n')
	}
	write(t, filepath.Join(dir, row.RowsFile), out)
	write(t, filepath.Join(dir, row.HeadFile), fmt.Appendf(nil, `{"rows":%d,"bytes":%d,"sha256":%q}`+"\n", len(rows), len(out), last))
}

// forgeFile changes a file of a row's evidence, and its hash in the row.
func forgeFile(t testing.TB, dir string, line int, name string, change func(data []byte) []byte) {
	t.Helper()
	rows := rowsOf(t, dir)
	ev := rows[line-1]["evidence"].(map[string]any)
	path := filepath.Join(dir, ev["dir"].(string), name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = change(data)
	write(t, path, data)
	ev["files"].(map[string]any)[name] = sum(data)
	forge(t, dir, rows)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUntouchedFolderIsClean(t *testing.T) {
	c := seedlingCounter(t)
	for name, o := range map[string]Options{
		"by a later version":      {Version: "later"},
		"with the tokenizer":      {Version: "later", Counter: func(string) *tokens.Counter { return c }},
		"forged without a change": {Version: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			if strings.HasPrefix(name, "forged") {
				forge(t, dir, rowsOf(t, dir))
			}
			r, err := Dir(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Clean || len(r.Findings) > 0 {
				t.Errorf("%v", r.Findings)
			}
			if r.Rows != 3 || r.Recomputed != 3 || r.Rules["timing-1"] != 3 || r.Files != 27 {
				t.Errorf("%+v", r)
			}
			left := "seedling-15m-iq3_s.gguf is not at hand (name it with --tokenizer); the ends of the kept tokens fit the text"
			if o.Counter != nil {
				if r.Recounted[seedling.File] != 3 || len(r.Left) > 0 {
					t.Errorf("recounted %v, left %v", r.Recounted, r.Left)
				}
			} else if !slices.Equal(r.Left, []Left{{left, 3}}) {
				t.Errorf("left %v", r.Left)
			}
		})
	}
}

// Any byte that is changed in the rows, their head or the evidence is found.
func TestRandomChangesAreFound(t *testing.T) {
	const shards = 4
	n := 1000
	if testing.Short() {
		n = 100
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(shard)))
			dir := folder(t)
			rows := rowsOf(t, dir) // two of them take less time
			if err := os.RemoveAll(filepath.Join(dir, rows[2]["evidence"].(map[string]any)["dir"].(string))); err != nil {
				t.Fatal(err)
			}
			forge(t, dir, rows[:2])
			files := filesOf(t, dir)
			if len(files) != 20 {
				t.Fatalf("%d files, want rows, head and 18 of evidence: %v", len(files), files)
			}
			for range n / shards {
				spoilOneByte(t, rng, dir, files[rng.IntN(len(files))])
			}
			if r := checked(t, dir); !r.Clean {
				t.Errorf("the test left something behind: %v", r.Findings)
			}
		})
	}
}

func filesOf(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func spoilOneByte(t testing.TB, rng *rand.Rand, dir, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := rng.IntN(len(data))
	spoilt := bytes.Clone(data)
	spoilt[at] ^= byte(1 + rng.IntN(255))
	write(t, path, spoilt)
	if r, err := Dir(t.Context(), dir, Options{Version: "later"}); err == nil && r.Clean {
		t.Errorf("%s: byte %d changed from %q to %q and not found", path, at, data[at], spoilt[at])
	}
	write(t, path, data)
}

// Rows that are gone, doubled or moved are found by the chain; and where the
// chain was forged, by the evidence.
func TestRowsOutOfPlace(t *testing.T) {
	// lines writes the rows in another order without touching a hash.
	lines := func(t *testing.T, dir string, order ...int) {
		path := filepath.Join(dir, row.RowsFile)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := bytes.SplitAfter(data, []byte("\n"))
		var out []byte
		for _, i := range order {
			out = append(out, all[i]...)
		}
		write(t, path, out)
	}
	forged := func(t *testing.T, dir string, order ...int) {
		rows := rowsOf(t, dir)
		var out []map[string]any
		for _, i := range order {
			var m map[string]any
			b, err := json.Marshal(rows[i]) // a row that is doubled has two places
			if err != nil {
				t.Fatal(err)
			}
			dec := json.NewDecoder(bytes.NewReader(b))
			dec.UseNumber()
			if err := dec.Decode(&m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		forge(t, dir, out)
	}
	const deleted = "evidence that no row names: its row was deleted"
	for name, c := range map[string]struct {
		place func(t *testing.T, dir string, order ...int)
		order []int
		want  string // within a finding
		note  string
	}{
		"first deleted":          {lines, []int{1, 2}, "rows.jsonl:1: seq: 2, want 1: rows are missing", ""},
		"middle deleted":         {lines, []int{0, 2}, "rows.jsonl:2: seq: 3, want 2: rows are missing", ""},
		"last deleted":           {lines, []int{0, 1}, deleted, ""},
		"last two deleted":       {lines, []int{0}, "1 rows, but there were 3: the last ones are missing", ""},
		"all deleted":            {lines, nil, "0 rows, but there were 3", ""},
		"doubled":                {lines, []int{0, 1, 1, 2}, "rows.jsonl:3: seq: 2, want 3: rows are missing, doubled or out of order", ""},
		"last doubled":           {lines, []int{0, 1, 2, 2}, "rows.jsonl:4: seq: 3, want 4", ""},
		"swapped":                {lines, []int{0, 2, 1}, "rows.jsonl:2: seq: 3, want 2", ""},
		"forged, first deleted":  {forged, []int{1, 2}, deleted, ""},
		"forged, middle deleted": {forged, []int{0, 2}, deleted, ""},
		"forged, last deleted":   {forged, []int{0, 1}, deleted, ""},
		"forged, doubled":        {forged, []int{0, 1, 1, 2}, "the row of line 2 has the same row_id", ""},
		"forged, swapped":        {forged, []int{0, 2, 1}, "", "the run began before the one above it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			c.place(t, dir, c.order...)
			r := checked(t, dir)
			for want, list := range map[string][]Finding{c.want: r.Findings, c.note: r.Notes} {
				if want != "" && !slices.ContainsFunc(list, func(f Finding) bool { return strings.Contains(f.String(), want) }) {
					t.Errorf("nothing says %q: %v", want, list)
				}
			}
			if r.Clean != (c.want == "") {
				t.Errorf("clean: %v", r.Clean)
			}
		})
	}
}

// repacked changes what a packed file holds.
func repacked(change func([]byte) []byte) func([]byte) []byte {
	return func(packed []byte) []byte {
		dec, _ := zstd.NewReader(nil)
		defer dec.Close()
		raw, err := dec.DecodeAll(packed, nil)
		if err != nil {
			panic(err)
		}
		enc, _ := zstd.NewWriter(nil)
		defer enc.Close()
		return enc.EncodeAll(change(raw), nil)
	}
}

// What was changed together with every hash that covers it shows in what the
// evidence says of itself or in the values that follow from it.
func TestForgeries(t *testing.T) {
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				panic("nothing to replace: " + old)
			}
			return bytes.Replace(b, []byte(old), []byte(new), 1)
		}
	}
	for name, c := range map[string]struct {
		file   string
		change func([]byte) []byte
		want   string
	}{
		"log":        {evidence.LogFile, replace("64 generated", "65 generated"), "count_check.against.log: 64 in the row, 65 by the evidence"},
		"request":    {evidence.RequestFile, replace(`"max_tokens":64`, `"max_tokens":63`), "requested.max_tokens: 64 in the row, 63 by the evidence"},
		"prompt":     {evidence.PromptFile, func(b []byte) []byte { return append(b, 'x') }, "prompt.txt: it is not what request.json asks"},
		"completion": {evidence.CompletionFile, func(b []byte) []byte { return append(b, 'x') }, "completion.txt: it is not the text of stream.zst"},
		"facts":      {evidence.MetaFile, replace(`"load_ms": `, `"load_ms": 1`), "load_ms: "},
		"samples":    {evidence.SamplesFile, repacked(replace(`"metric":"vmrss"`, `"metric":"vmpin"`)), "telemetry.pinned.vmrss_max_bytes: "},
		"no samples": {evidence.SamplesFile, repacked(func([]byte) []byte { return []byte("{}") }), `samples.zst: samples: form ""`},
		"rule":       {evidence.MetaFile, replace(`"timing-1"`, `"timing-9"`), `timing rule "timing-9": this version does not know the rule`},
		"form":       {evidence.MetaFile, replace(`"assay-facts-1"`, `"assay-facts-9"`), `meta.json: facts: form "assay-facts-9", want "assay-facts-1"`},
		"row":        {evidence.MetaFile, replace(`/run-002"`, `/run-009"`), `row_id: "assay-builtin-seedling-t1/measure/a1/run-002" in the row, "assay-builtin-seedling-t1/measure/a1/run-009" by the evidence`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			forgeFile(t, dir, 2, c.file, c.change)
			r := checked(t, dir)
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.String(), c.want) && f.Line == 2 }) {
				t.Errorf("nothing about line 2 says %q: %v", c.want, r.Findings)
			}
			if r.Clean || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == Chain || f.Kind == File }) {
				t.Errorf("clean: %v, %v", r.Clean, r.Findings)
			}
		})
	}
}

// Values that were changed in the row with all hashes: exactly they are named.
func TestForgedValues(t *testing.T) {
	for path, change := range map[string]func(m map[string]any){
		"decode_tok_s": func(m map[string]any) { m["decode_tok_s"] = 999.5 },
		"status":       func(m map[string]any) { m["status"] = "failed" },
		"count_check.sources[1].tokens": func(m map[string]any) {
			m["count_check"].(map[string]any)["sources"].([]any)[1].(map[string]any)["tokens"] = 3
		},
		"telemetry.board.joules": func(m map[string]any) { m["telemetry"].(map[string]any)["board"].(map[string]any)["joules"] = 12 },
		"command_line[1]":        func(m map[string]any) { m["command_line"].([]any)[1] = "other" },
		"flags[0]":               func(m map[string]any) { m["flags"] = []any{"short"} },
		"withheld[0]": func(m map[string]any) {
			m["withheld"] = append(m["withheld"].([]any), map[string]any{"figure": "ttft_ms", "value": 1, "unit": "ms", "codes": []any{"clumped"}, "why": "x"})
		},
		"added_by_hand":                       func(m map[string]any) { m["added_by_hand"] = true },
		"engine_env.OMP_NUM_THREADS":          func(m map[string]any) { m["engine_env"].(map[string]any)["OMP_NUM_THREADS"] = "1" },
		"server_timings.predicted_per_second": func(m map[string]any) { delete(m["server_timings"].(map[string]any), "predicted_per_second") },
	} {
		t.Run(path, func(t *testing.T) {
			dir := folder(t)
			rows := rowsOf(t, dir)
			if n := len(rows[1]["withheld"].([]any)); n > 0 {
				t.Fatalf("the recorded row withholds %d figures", n)
			}
			change(rows[1])
			forge(t, dir, rows)
			r := checked(t, dir)
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Path)
				if f.Kind != Value || f.Line != 2 {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, []string{path}) {
				t.Errorf("named %v, want %s", got, path)
			}
		})
	}
}

// Another version may say the same in other words and know more fields; the same
// version may not.
func TestWordsOfOtherVersions(t *testing.T) {
	dir := folder(t)
	rows := rowsOf(t, dir)
	rows[2]["decode_rule"] = "in other words"
	rows[2]["why"].(map[string]any)["telemetry.board"] = "another reason"
	forge(t, dir, rows)
	r, err := Dir(t.Context(), dir, Options{Version: "later"})
	if err != nil || !r.Clean {
		t.Errorf("%v, %v", err, r.Findings)
	}
	var paths []string
	for _, f := range r.Notes {
		if f.Line == 3 {
			paths = append(paths, f.Path)
		}
	}
	if !slices.Contains(paths, "decode_rule") || !slices.Contains(paths, "why.telemetry.board") {
		t.Errorf("noted %v", paths)
	}
	r, err = Dir(t.Context(), dir, Options{Version: recordedVersion})
	if err != nil || r.Clean {
		t.Errorf("%v: the version that wrote the row does not mind", err)
	}
	for path, want := range map[string]bool{"why.ttft_ms": true, "telemetry.pinned.rule": true, "decode_tok_s": false, "count_check.verdict": false} {
		if got := (difference{path, "a", "b"}).ofVersion(); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !(difference{"new_field", absent{}, 1}).ofVersion() || (difference{"old_field", 1, absent{}}).ofVersion() {
		t.Error("a version may know more fields than the row, not fewer")
	}
}

func TestRowsThatCannotBeChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m map[string]any)
		want   string
	}{
		"other schema": {func(m map[string]any) { m["schema"] = "assay-row-9" }, `schema "assay-row-9" is not known to this version`},
		"no evidence":  {func(m map[string]any) { m["evidence"] = map[string]any{"dir": nil, "files": nil} }, "the row names no evidence"},
		"evidence elsewhere": {func(m map[string]any) {
			m["evidence"].(map[string]any)["dir"] = "../../etc"
		}, `evidence.dir: "../../etc" leads out of the folder`},
		"evidence missing": {func(m map[string]any) { m["evidence"].(map[string]any)["dir"] = "evidence/none" }, "meta.json: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			rows := rowsOf(t, dir)
			c.change(rows[0])
			forge(t, dir, rows)
			r := checked(t, dir)
			if r.Clean || !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.String(), c.want) }) {
				t.Errorf("nothing says %q: %v", c.want, r.Findings)
			}
			if r.Recomputed != 2 {
				t.Errorf("%d rows were computed anew, want the other 2", r.Recomputed)
			}
		})
	}
}

// With the tokenizer, tokens that fit the text and are not its own are found.
func TestForgedTokens(t *testing.T) {
	dir := folder(t)
	forgeFile(t, dir, 2, evidence.MetaFile, func(b []byte) []byte {
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		text := m["facts"].(map[string]any)["text"].(map[string]any)
		ends := text["ends"].([]any)
		text["ends"] = append(slices.Clone(ends[:5]), ends[6:]...) // the sixth token joins the next
		out, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
	c := seedlingCounter(t)
	r, err := Dir(t.Context(), dir, Options{Version: "later", Counter: func(string) *tokens.Counter { return c }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Clean || !strings.Contains(r.Findings[0].String(), "meta.json: facts.text.ends: 63 tokens, but seedling-15m-iq3_s.gguf makes 64 of the text, or others") {
		t.Errorf("%v", r.Findings)
	}
}

func TestStrayFiles(t *testing.T) {
	dir := folder(t)
	for path, want := range map[string]string{
		"evidence/stray":                      "evidence/stray: no row knows this file",
		"evidence/.evidence-123/meta.json":    "evidence/.evidence-123: left behind by a crash while evidence was written",
		"evidence/other/run-001/prompt.txt":   "evidence/other/run-001: evidence that no row names",
		"evidence/" + rowDir(t, dir) + "/new": "/new: the row does not know this file",
	} {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, full, []byte("x"))
		defer func() {
			if r := checked(t, dir); !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.String(), want) }) {
				t.Errorf("nothing says %q: %v", want, r.Findings)
			}
		}()
	}
	// What lies beside the rows and is no evidence is the user's.
	write(t, filepath.Join(dir, "notes.txt"), []byte("x"))
}

func rowDir(t testing.TB, dir string) string {
	t.Helper()
	ev := rowsOf(t, dir)[0]["evidence"].(map[string]any)
	return strings.TrimPrefix(ev["dir"].(string), evidence.Folder+"/")
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dir(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "is "+dir+" a folder of rows?") {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, row.RowsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(t.Context(), dir, Options{}); err == nil {
		t.Error("a folder passes for the file of rows")
	}
}
