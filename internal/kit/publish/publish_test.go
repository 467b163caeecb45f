package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/bundle"
	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	machine "assay/internal/kit/host"
	"assay/internal/kit/row"
	"assay/internal/kit/verify"
)

// recorded is a folder of three rows of our own server; see package verify.
const recorded = "../verify/testdata/recorded"

// What is planted in the recorded evidence, wherever a real run could have it.
const (
	home    = "/home/alice.w"
	keyArgv = "correct-horse-battery" // no form of its own: only the flag says what it is
	keyLog  = "sk-proj-0123456789abcdefABCDEF"
	keyEnv  = "s3cr3t-of-the-environment"
	host    = "build-7.corp.example"
	address = "192.168.7.20"
	mac     = "de:ad:be:ef:00:17"
	serial  = "GPU-5c0e2f11-1a2b-3c4d-5e6f-0123456789ab"
	mail    = "alice@corp.example"
	port    = "48151"
)

var planted = []string{home, keyArgv, keyLog, keyEnv, host, address, mac, serial, mail, port}

// plant makes a folder whose rows and evidence are full of what identifies, and
// which is clean all the same: its rows are computed from that evidence.
func plant(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	j, err := row.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	f, err := os.Open(filepath.Join(recorded, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r, err := range row.Read(f, recorded) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := evidence.Read(filepath.Join(recorded, *r.Evidence.Dir))
		if err != nil {
			t.Fatal(err)
		}
		facts, err := derive.ReadFacts(rec)
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, rec, facts)
		again, err := derive.Row(rec, facts)
		if err != nil {
			t.Fatal(err)
		}
		again.Evidence.Dir = r.Evidence.Dir
		if again.Evidence.Files, err = evidence.Write(filepath.Join(dir, *r.Evidence.Dir), rec, nil); err != nil {
			t.Fatal(err)
		}
		if err := j.Append(again); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// spoil plants everything in one run's evidence.
func spoil(t testing.TB, rec *evidence.Record, f *derive.Facts) {
	t.Helper()
	f.Host = machine.Read("/") // the recorded one is of a version that knew less
	f.Start.Argv[slices.Index(f.Start.Argv, "--port")+1] = port
	f.Start.Argv = append(f.Start.Argv, "--api-key", keyArgv, "--model", home+"/models/x.gguf", "--host="+host)
	f.Start.Env = map[string]string{"LLAMA_API_KEY": keyEnv, "HF_HOME": home + "/hf"}
	f.Target.Why["commit"] = "asked " + host + " at " + address
	rec.Meta.URL = "http://" + address + ":" + port + "/v1/chat/completions"
	rec.Log = fmt.Appendf(rec.Log, "listening on %s:%s as %s, key %s\nbasic %s\nopened %s\nmail to %s, card %s, %s\n",
		host, port, strings.ToUpper(host), keyLog, base64.StdEncoding.EncodeToString([]byte("user:"+keyEnv)), url.QueryEscape(home+"/models"), mail, serial, mac)
	rec.MetricsBefore = fmt.Appendf(rec.MetricsBefore, "# HELP x of %s\n", home)
	// A prompt that quotes a path, written with JSON's escapes in the request.
	was := rec.Prompt
	rec.Prompt += "\nSee \"" + home + "/notes.txt\", or ask " + mail + "."
	enc, err := json.Marshal(rec.Prompt)
	if err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	rec.Request = bytes.Replace(rec.Request, old, bytes.ReplaceAll(enc, []byte("/"), []byte(`\/`)), 1)
	if !bytes.Contains(rec.Request, []byte(`alice`)) {
		t.Fatal("the request does not hold the prompt")
	}
	// The server names its model's path in every frame.
	for i := range rec.Recording.Reads {
		b := &rec.Recording.Reads[i].Bytes
		*b = bytes.ReplaceAll(*b, []byte(`"object":`), []byte(`"path":"`+home+`/models/x.gguf","object":`))
	}
	rec.Recording.Remote = address + ":" + port
	rec.Recording.Header.Set("Server", "engine at "+host)
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	rec.Meta.Facts = raw
}

// options are those of a publisher whose environment holds a key and whose
// machine has a name.
func options(level bundle.Evidence, fields ...string) Options {
	return Options{
		Evidence: level, Fields: append(fields, "command_line.port"), Day: time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC),
		Machine: Machine{Homes: []string{home}, Users: []string{"alice.w"}, Hosts: []string{host}, Keys: []string{keyEnv}},
		Verify:  verify.Options{Version: "later"},
	}
}

// published publishes and gives the bundle's file.
func published(t testing.TB, dir string, o Options) (string, *Written) {
	t.Helper()
	d, err := Prepare(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	k, err := bundle.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar.zst")
	w, err := d.Write(t.Context(), file, k)
	if err != nil {
		t.Fatal(err)
	}
	return file, w
}

// long leaves a test out of the run under the race detector: it computes a lot and
// shares nothing between goroutines.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("much work for one goroutine")
	}
}

// contents unpacks a bundle, what is packed in it too.
func contents(t testing.TB, file string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	o, err := bundle.Open(t.Context(), file, dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := evidence.Unpacked(filepath.Dir(path), e.Name())
		out[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out[bundle.ManifestFile] = string(m)
	return out
}

// Nothing that was planted is in the bundle, in any of the forms in which it was
// planted, at any level; and what is left can be verified.
func TestNothingLeaks(t *testing.T) {
	dir := plant(t)
	before, err := verify.Dir(t.Context(), dir, verify.Options{Version: "later"})
	if err != nil || !before.Clean {
		t.Fatalf("the planted folder is not clean: %v, %v", err, before.Findings)
	}
	for _, level := range bundle.Levels {
		t.Run(string(level), func(t *testing.T) {
			if level != bundle.All {
				long(t)
			}
			file, w := published(t, dir, options(level))
			all := contents(t, file)
			for name, text := range all {
				low := strings.ToLower(text)
				for _, secret := range planted {
					for _, form := range []string{
						secret, strings.ReplaceAll(secret, "/", `\/`), url.QueryEscape(secret),
						base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
					} {
						if secret == port && name == "rows.jsonl" && !strings.Contains(low, `"`+port) {
							continue // digits of another number
						}
						if strings.Contains(low, strings.ToLower(form)) {
							t.Errorf("%s holds %q", name, form)
						}
					}
				}
			}
			if !strings.Contains(all[row.RowsFile], `"--port","redacted-2026-12-02"`) || !strings.Contains(all[row.RowsFile], `"redacted-2026-12-02/models/x.gguf"`) {
				t.Errorf("the command line: %s", regexp.MustCompile(`"command_line":\[[^]]*\]`).FindString(all[row.RowsFile]))
			}
			if !w.Check.Clean || w.Check.Rows != 3 || w.Check.Redacted == 0 || w.Check.Altered != 3 {
				t.Errorf("%+v", w.Check)
			}
			// Figures are computed anew from what is left, however redacted.
			if want := map[bundle.Evidence]int{bundle.None: 0, bundle.Figures: 3, bundle.All: 3}[level]; w.Check.Recomputed != want {
				t.Errorf("%d rows were computed anew, want %d; not checked: %+v", w.Check.Recomputed, want, w.Check.Unchecked)
			}
			if _, has := all["evidence/assay-builtin-seedling-t1/measure/a1/run-002/prompt.txt"]; has != (level == bundle.All) {
				t.Error("the prompt is there:", has)
			}
		})
	}
}

// What is redacted, or hashed with it, is not there as a hash either: with all
// else known, a port would be found by 65,536 guesses.
func TestNoHashOfWhatIsRedacted(t *testing.T) {
	long(t)
	dir := plant(t)
	file, _ := published(t, dir, options(bundle.All))
	all := strings.Join(slices.Collect(values(contents(t, file))), "\n")
	rows, err := os.ReadFile(filepath.Join(dir, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(rows) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var r row.Row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		hashes := map[string]string{"line": hashOf(line), "prompt_sha256": *r.PromptSHA256, "slice_sha256": *r.SliceSHA256}
		for _, name := range []string{"meta.json", "request.json", "prompt.txt", "engine.log", "stream.zst", "metrics-before"} {
			hashes[name] = r.Evidence.Files[name]
		}
		for what, h := range hashes {
			if n++; strings.Contains(all, h) {
				t.Errorf("line %d: the sha256 of its original %s is in the bundle", r.Seq, what)
			}
		}
		// What nothing was taken out of keeps its hash.
		if h := r.Evidence.Files["completion.txt"]; !strings.Contains(all, h) {
			t.Errorf("line %d: completion.txt lost its hash", r.Seq)
		}
	}
	if n != 27 {
		t.Errorf("%d hashes were looked for", n)
	}
}

func hashOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func values(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// A port is revealed and proved; another one is not, nor is it with another salt.
func TestReveal(t *testing.T) {
	long(t)
	file, w := published(t, plant(t), options(bundle.All, "host.kernel"))
	salts, err := LoadOpenings(w.Salts)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(w.Salts); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the salts: %v, %v", info.Mode(), err)
	}
	r, err := Reveal(salts, []string{"command_line.port", "host.*"}, "assay-builtin-seedling-t1/measure/a1/run-002")
	if err != nil {
		t.Fatal(err)
	}
	check := func(o *bundle.Openings) *verify.BundleReport {
		rep, err := verify.Bundle(t.Context(), file, verify.BundleOptions{Options: verify.Options{Version: "later"}, Reveal: o})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	rep := check(r)
	if !rep.Clean || len(rep.Revealed) != 2 || string(rep.Revealed[0].Value) != `"`+port+`"` {
		t.Fatalf("%v %+v", rep.Findings, rep.Revealed)
	}
	i := slices.IndexFunc(r.Openings, func(o bundle.Opening) bool { return strings.HasPrefix(o.Path, "command_line") })
	for name, change := range map[string]func(o *bundle.Openings){
		"another port":    func(o *bundle.Openings) { o.Openings[i].Value = json.RawMessage(`"48152"`) },
		"another salt":    func(o *bundle.Openings) { o.Openings[i].Salt = flipHex(o.Openings[i].Salt) },
		"a short salt":    func(o *bundle.Openings) { o.Openings[i].Salt = o.Openings[i].Salt[:8] },
		"another line":    func(o *bundle.Openings) { o.Openings[i].Line = 1 },
		"no redaction":    func(o *bundle.Openings) { o.Openings[i].Path = "ttft_ms" },
		"another bundle":  func(o *bundle.Openings) { o.Bundle = strings.Repeat("0", 64) },
		"another's place": func(o *bundle.Openings) { o.Openings[i].Path = "host.kernel" },
	} {
		forged := *r
		forged.Openings = slices.Clone(r.Openings)
		change(&forged)
		if rep := check(&forged); rep.Clean {
			t.Errorf("%s: proved", name)
		}
	}
	if _, err := Reveal(salts, []string{"command_line.nothing"}, ""); err == nil {
		t.Error("a field that was not redacted is revealed")
	}
	// Whole lines and the links between them prove the chain.
	lines, err := Reveal(salts, []string{bundle.WholeLine, "prev_sha256"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if rep := check(lines); !rep.Clean || len(rep.Revealed) != 5 {
		t.Errorf("%v, %d revealed", rep.Findings, len(rep.Revealed))
	}
}

func flipHex(s string) string {
	if s[0] == '0' {
		return "1" + s[1:]
	}
	return "0" + s[1:]
}

// What can't be ruled out is not published.
func TestRefused(t *testing.T) {
	long(t)
	dir := plant(t)
	k, err := bundle.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		options Options
		want    string
	}{
		"a figure that the evidence gives": {options(bundle.All, "ttft_ms"), "ttft_ms is redacted, but the evidence in the bundle gives it"},
		"what a row is worth":              {options(bundle.None, "status"), "status can't be taken out"},
		"flags":                            {options(bundle.None, "flags"), "flags can't be taken out"},
		"no name":                          {options(bundle.None, "a b"), "is no name of a field"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "b")
			d, err := Prepare(t.Context(), dir, tt.options)
			if err == nil {
				_, err = d.Write(t.Context(), file, k)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			for _, f := range []string{file, SaltsOf(file)} {
				if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was written", f)
				}
			}
		})
	}
	// A figure can be redacted where nothing gives it.
	if _, w := published(t, dir, options(bundle.None, "ttft_ms")); !w.Check.Clean {
		t.Error(w.Check.Findings)
	}
	// A folder that was changed is not published.
	rows := filepath.Join(dir, row.RowsFile)
	data, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rows, bytes.Replace(data, []byte(`"repeat":0`), []byte(`"repeat":7`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(t.Context(), dir, options(bundle.All)); err == nil || !strings.Contains(err.Error(), "rows that contradict their evidence are not published") {
		t.Error(err)
	}
}

// The search of the finished bundle is a check of its own: a draft that forgets to
// redact is refused, and the place is named.
func TestSearchFindsWhatIsLeft(t *testing.T) {
	long(t)
	file, _ := published(t, plant(t), options(bundle.All))
	for text, want := range map[string]string{
		"64 generated":       "engine.log",
		"Barrymore":          "", // in the prompt, the request or the text
		"timing-1":           "",
		"text/event-stream":  "stream.zst",
		"assay-facts-1":      "meta.json",
		"assay-samples-1":    "samples.zst",
		"seedling-15m-iq3_s": "",
	} {
		d := &Draft{secrets: []*secret{newSecret(KindListed, text)}}
		err := d.search(t.Context(), file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "still there") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := (&Draft{secrets: []*secret{newSecret(KindListed, "is nowhere in it")}}).search(t.Context(), file); err != nil {
		t.Error(err)
	}
	// Text that arrives in pieces, a token a frame, is put together first.
	words := strings.Fields(completionIn(t, file))
	d := &Draft{secrets: []*secret{newSecret(KindListed, strings.Join(words[3:7], " "))}}
	for name := range contents(t, file) {
		if strings.HasSuffix(name, "run-002/stream.zst") {
			dir := t.TempDir()
			if _, err := bundle.Open(t.Context(), file, dir); err != nil {
				t.Fatal(err)
			}
			if err := d.cleanMember(dir, name); err == nil || !strings.Contains(err.Error(), "its text") {
				t.Errorf("in pieces: %v", err)
			}
		}
	}
}

func completionIn(t testing.TB, file string) string {
	t.Helper()
	for name, text := range contents(t, file) {
		if strings.HasSuffix(name, "run-002/completion.txt") {
			return text
		}
	}
	t.Fatal("no completion")
	return ""
}

// A redacted text that the stream holds in pieces takes the stream with it.
func TestCompletionHead(t *testing.T) {
	long(t)
	file, w := published(t, plant(t), options(bundle.All, "completion_head"))
	all := contents(t, file)
	for name := range all {
		if strings.HasSuffix(name, "stream.zst") || strings.HasSuffix(name, "completion.txt") {
			t.Errorf("%s is there", name)
		}
	}
	var r row.Row
	first, _, _ := strings.Cut(all[row.RowsFile], "\n")
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	if !row.IsRedaction(*r.CompletionHead) || !row.IsRedaction(*r.CompletionSHA256) || !row.IsRedaction(r.Evidence.Files["completion.txt"]) {
		t.Errorf("%q %q %q", *r.CompletionHead, *r.CompletionSHA256, r.Evidence.Files)
	}
	if w.Check.Recomputed != 0 || len(w.Check.Unchecked) == 0 {
		t.Errorf("%+v", w.Check)
	}
}
