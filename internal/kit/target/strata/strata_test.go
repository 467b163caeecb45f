package strata_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/target/replay"
	"assay/internal/kit/target/strata"
)

// readSeedBlocks are the strata blocks of the published rows.
func readSeedBlocks() ([]map[string]any, error) {
	f, err := os.Open("../../row/testdata/seed-rows.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []map[string]any
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r struct {
			Strata map[string]any `json:"strata"`
		}
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return nil, err
		}
		out = append(out, r.Strata)
	}
	return out, s.Err()
}

func TestIdentity(t *testing.T) {
	r := serve(t, &replayer{recorded: readRecorded(t)})
	tg, err := target.Attach(t.Context(), r.url+"/v1", target.Options{Adapters: adapters.All})
	if err != nil {
		t.Fatal(err)
	}
	id := tg.Identity
	if id.Engine != "strata" || *id.Version != "0.1.38" || id.Model != "qwen3.8-flash-next-coder-iq1_m" || *id.Context != 65536 {
		t.Errorf("%+v", id)
	}
	for _, name := range []string{"commit", "format", "slots"} {
		if id.Why[name] == "" {
			t.Errorf("no reason for %s", name)
		}
	}
}

func TestReadLog(t *testing.T) {
	const end = ", 256 generated in 5699 ms (44.9 tok/s), drafts accepted 161 of 217, 1 checkpoints\n"
	for _, c := range []struct {
		name, log string
		want      target.LogRecord
		err       string
	}{
		{
			"a request", "12:00:01 strata serve: prompt 94 tokens = 3 reused + 91 read in 2957 ms (31.8 tok/s)" + end,
			target.LogRecord{PromptN: new(91), Cached: new(3), PromptMS: new(2957.0), PromptRate: new(31.8), Generated: new(256), DecodeMS: new(5699.0), DecodeRate: new(44.9), DraftN: new(217), DraftAccepted: new(161)},
			"",
		},
		{
			"no drafts, carriage return", "strata serve: prompt 94 tokens = 0 reused + 94 read in 2957 ms (31.8 tok/s), 1 generated in 0 ms (nan tok/s)\r\n",
			target.LogRecord{PromptN: new(94), Cached: new(0), PromptMS: new(2957.0), PromptRate: new(31.8), Generated: new(1), DecodeMS: new(0.0)},
			"",
		},
		{
			"a cancelled read", "strata serve: prompt 98179 tokens = 0 reused + 12288 of 98179 read in 9000 ms (1365.3 tok/s), 0 generated in 0 ms (0.0 tok/s) (cancelled)\n",
			target.LogRecord{PromptN: new(12288), Cached: new(0), PromptMS: new(9000.0), PromptRate: new(1365.3), Generated: new(0), DecodeMS: new(0.0), DecodeRate: new(0.0), Finish: new("cancelled")},
			"",
		},
		{
			"a cancelled read without an end", "strata serve: prompt 98179 tokens = 0 reused + 12288 of 98179 read in 9000 ms (1365.3 tok/s) (cancelled)\n",
			target.LogRecord{PromptN: new(12288), Cached: new(0), PromptMS: new(9000.0), PromptRate: new(1365.3), Finish: new("cancelled")},
			"",
		},
		{"the line is being written", "strata serve: prompt 94 tokens = 0 reused + 94 read in 2957 ms (31.8 tok/s), 256 gen", target.LogRecord{}, `no line "strata serve: prompt" came`},
		{"nothing", "", target.LogRecord{}, `no line "strata serve: prompt" came`},
		{"other lines", "strata generate: session is up (engine 0.1.39)\n", target.LogRecord{}, `no line "strata serve: prompt" came`},
		{"two requests", strings.Repeat("strata serve: prompt 94 tokens = 3 reused + 91 read in 2957 ms (31.8 tok/s)"+end, 2), target.LogRecord{}, "2 lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := strata.Adapter{}.ReadLog([]byte(c.log))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if err == nil && !strings.HasPrefix(got.Line, "strata serve: prompt") {
				t.Errorf("line %q", got.Line)
			}
			got.Line = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestThreads(t *testing.T) {
	log := "strata generate: 7 expert-pool workers\nold start\nstrata generate: 31 expert-pool workers + the host thread\n"
	got, err := strata.Adapter{}.ReadThreads([]byte(log))
	if err != nil || *got.Workers != 31 || !*got.HostThread || got.Line != "strata generate: 31 expert-pool workers + the host thread" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (strata.Adapter{}).ReadThreads(nil); err == nil {
		t.Error("threads of an empty log")
	}
}

func TestMeter(t *testing.T) {
	r := readRecorded(t)
	d, err := strata.Adapter{}.Metered(r.Before, r.After)
	if err != nil || *d.Predicted != 256 || *d.Prompt != 94 || *d.Cached != 0 || math.Abs(*d.PredictedSeconds-5.6992) > 1e-9 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := (strata.Adapter{}).Metered(r.After, r.Before); !errors.Is(err, target.ErrRestarted) {
		t.Errorf("counts that fall: %v", err)
	}
	m := strata.Adapter{}.Meter()
	if m.Path != "/metrics" || m.Accept != "application/json" {
		t.Errorf("%+v", m)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "strata.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"exe":"strata","args":["--native","m-00001-of-00002.gguf","--max-context","8192","--expert-cache","6400"],"cwd":"/models","log":"engine.log"}`)
	got, err := strata.Adapter{}.Command(target.Settings{Program: []string{"python3", "/s/serve/server.py"}, Model: file, Port: 9000, Context: 8192})
	if err != nil {
		t.Fatal(err)
	}
	want := target.Command{
		Argv: []string{"python3", "/s/serve/server.py", "--engine", "strata", "--config", file, "--port", "9000"},
		Log:  "/models/engine.log", Models: []string{"/models/m-00001-of-00002.gguf"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	for name, c := range map[string]struct {
		s    target.Settings
		text string
		want string
	}{
		"a context that is too short": {target.Settings{Model: file, Context: 16384}, "", "--max-context 8192, but 16384 positions are needed"},
		"threads":                     {target.Settings{Model: file, Threads: new(4)}, "", "threads: "},
		"layers":                      {target.Settings{Model: file, GPULayers: new(4)}, "", "GPU layers: "},
		"no file":                     {target.Settings{Model: filepath.Join(dir, "none.json")}, "", "the configuration: "},
		"not JSON":                    {target.Settings{Model: file}, "args: []", "want JSON"},
		"nothing":                     {target.Settings{}, "", "name that as the model"},
		"not a number":                {target.Settings{Model: file, Context: 1}, `{"args":["--max-context","much"]}`, `--max-context "much" is not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.text != "" {
				write(c.text)
			}
			if _, err := (strata.Adapter{}).Command(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			write(`{"args":["--max-context","8192"]}`)
		})
	}
}

func TestReadiness(t *testing.T) {
	how := strata.Adapter{}.Readiness()
	m := how.Address.FindSubmatch([]byte("ready: http://127.0.0.1:8011/v1  (OpenAI: chat)\n"))
	if m == nil || string(m[1]) != "http://127.0.0.1:8011/v1" {
		t.Errorf("banner: %q", m)
	}
	for body, want := range map[string]bool{
		`{"status":"ok","loaded":true,"service":"strata"}`: true, `{"status":"ok","loaded":false}`: false, `busy`: false, `{"status":"ok"}`: true,
	} {
		if got, why := how.Ready(target.Answer{Status: 200, Body: []byte(body)}); got != want || !got && why == "" {
			t.Errorf("%s: %v %q", body, got, why)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	for _, l := range readRecorded(f).Lines {
		f.Add([]byte(l + "\n"))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		rec, err := strata.Adapter{}.ReadLog(log)
		if err == nil && (rec.Line == "" || rec.Generated != nil && *rec.Generated < 0) {
			t.Errorf("%+v", rec)
		}
		_, _ = strata.Adapter{}.ReadThreads(log)
	})
}

func FuzzMetered(f *testing.F) {
	r := readRecorded(f)
	f.Add([]byte(r.Before), []byte(r.After))
	f.Add([]byte(`{}`), []byte(`{"requests":[{"output_tokens":1e300,"prompt_ms":-1}]}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		d, err := strata.Adapter{}.Metered(before, after)
		for _, v := range []*float64{d.Prompt, d.Cached, d.Predicted, d.PromptSeconds, d.PredictedSeconds} {
			if v != nil && (*v < 0 || err != nil) {
				t.Errorf("%v, %v", *v, err)
			}
		}
	})
}

// Whatever log and counters hold, the block can be written.
func FuzzBlock(f *testing.F) {
	r := readRecorded(f)
	f.Add([]byte(strings.Join(r.Lines, "\n")+"\n"), []byte(r.Before), []byte(r.After))
	f.Add([]byte("strata serve: prompt 1 tokens = 0 reused + 1 read in nan ms (inf tok/s)\n"), []byte(`{}`), []byte(`{"engine":{"a":[null]},"requests":[{}]}`))
	f.Fuzz(func(t *testing.T, log, before, after []byte) {
		a := &target.Account{Log: log, Before: before, After: after, Stream: stream.Decode(nil)}
		a.Record, a.LogErr = strata.Adapter{}.ReadLog(log)
		a.Delta, a.DeltaErr = strata.Adapter{}.Metered(before, after)
		replay.Check(t, strata.Adapter{}.Block(a))
	})
}
