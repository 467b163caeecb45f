package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"assay/internal/kit/stream"
)

// sample is the evidence of a run with a prompt of 4K tokens and 256 generated,
// its frames as llama-server writes them.
func sample() *Record {
	prompt := strings.Repeat("Alice was beginning to get very tired of sitting by her sister. ", 280)
	rec := &stream.Recording{
		T0: 1796161490123456789, DialNS: 123456, SentAt: 40000, HeadersAt: 1000000, Proto: "HTTP/1.1", Status: 200, Clean: true,
		Header: http.Header{"Content-Type": {"text/event-stream"}},
	}
	at := int64(300_123_457)
	for i := range 256 {
		at += 9_876_543 + int64(i*i%1000)*1001
		frame := fmt.Sprintf(`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":" word%d"}}],"created":1796161490,"id":"chatcmpl-k2VkQlMS1CLCx6LhP4dLxt9LvsCZlSm9","model":"seedling-15m-q8_0.gguf","system_fingerprint":"b1-de3ff81","object":"chat.completion.chunk","timings":{"cache_n":0,"prompt_n":4000,"prompt_ms":%d.123,"predicted_n":%d,"predicted_ms":%d.456,"predicted_per_second":%d.789}}`+"\n\n", i*7919%1000, 4806, i, i*10, 100+i%7)
		rec.Reads = append(rec.Reads, stream.Read{At: at, Kernel: at - 40_000, Bytes: []byte(frame)})
	}
	rec.EndAt = at
	return &Record{
		Meta: Meta{
			Row: "a/b/run-001", Method: "POST", URL: "http://127.0.0.1:8080/v1/chat/completions",
			Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer sk-very-secret"}},
			Facts:  json.RawMessage(`{"asked":256}`),
		},
		Recording: rec, Samples: samples(), Request: []byte(`{"prompt":"` + prompt + `"}`), Prompt: prompt, Completion: strings.Repeat(" word", 256),
		MetricsBefore: bytes.Repeat([]byte("llamacpp:tokens 1\n"), 40), MetricsAfter: bytes.Repeat([]byte("llamacpp:tokens 2\n"), 40),
		Log: bytes.Repeat([]byte("slot print_timing: id 0\n"), 20),
	}
}

// samples are readings of a minute: 20 numbers at 10 Hz, none like the one before.
func samples() []byte {
	tracks := map[string][]float64{}
	for i := range 20 {
		for k := range 600 {
			tracks[fmt.Sprint("track ", i)] = append(tracks[fmt.Sprint("track ", i)], float64(i*1000+k*k%977)/8)
		}
	}
	out, _ := json.Marshal(tracks)
	return out
}

func write(t *testing.T, r *Record, secrets ...string) (dir string, sums map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "evidence", "run-001")
	sums, err := Write(dir, r, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return dir, sums
}

// contents reads every file of dir, its stream unpacked.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if filepath.Ext(path) == ".zst" && err == nil {
			dec, _ := zstd.NewReader(nil)
			defer dec.Close()
			b, err = dec.DecodeAll(b, nil)
		}
		out[filepath.Base(path)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWrittenEvidenceReadsBack(t *testing.T) {
	r := sample()
	dir, sums := write(t, r)
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := *r
	want.Meta.Format = Format
	want.Meta.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"[redacted]"}}
	compact := &bytes.Buffer{}
	if err := json.Compact(compact, got.Meta.Facts); err != nil {
		t.Fatal(err)
	}
	got.Meta.Facts = compact.Bytes()
	if d := cmp.Diff(&want, got); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
	if errs := Check(dir, sums); len(errs) > 0 {
		t.Errorf("untouched, but: %v", errs)
	}
	if again, err := Sums(dir); err != nil || cmp.Diff(sums, again) != "" {
		t.Errorf("sums of what was written: %v, %v", again, err)
	}
	names := []string{}
	total := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if d := cmp.Diff([]string{"completion.txt", "engine.log", "meta.json", "metrics-after", "metrics-before", "prompt.txt", "request.json", "samples.zst", "stream.zst"}, names); d != "" {
		t.Error(d)
	}
	if total > 200_000 {
		t.Errorf("%d bytes for a prompt of 4K tokens and 256 generated", total)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestARunWithoutAStreamHasEvidenceToo(t *testing.T) {
	dir, sums := write(t, &Record{Meta: Meta{Row: "x", Method: "POST", URL: "http://127.0.0.1:1/"}})
	if len(sums) != 1 || sums[MetaFile] == "" {
		t.Errorf("files %v", sums)
	}
	r, err := Read(dir)
	if err != nil || r.Recording != nil || r.Request != nil || r.Prompt != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEvidenceIsNeverOverwritten(t *testing.T) {
	dir, sums := write(t, sample())
	if _, err := Write(dir, sample(), nil); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Error(err)
	}
	if errs := Check(dir, sums); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestSecretsNeverReachEvidence(t *testing.T) {
	const key = `sk-"very"-secret`
	escaped := `sk-\"very\"-secret`
	r := sample()
	r.Meta.URL = "http://user:hunter22@127.0.0.1/v1?api_key=plainkey&x=y"
	r.Meta.Header = http.Header{"authorization": {"Bearer " + key}, "X-Api-Key": {"other-key"}, "Cookie": {"c=1"}, "X-Note": {"has " + key}}
	r.Meta.Facts = json.RawMessage(`{"argv":["--api-key","` + escaped + `"]}`)
	r.Request = []byte(`{"key":"` + escaped + `"}`)
	r.Prompt, r.Completion = "p "+key, "c "+key
	r.Log = []byte("started with --api-key " + key + "\n")
	r.MetricsBefore, r.MetricsAfter = []byte(key), []byte(key)
	r.Recording.Header.Set("Set-Cookie", "session=1")
	r.Recording.Header.Set("X-Echo", key)
	r.Recording.Err = "bad key " + key
	// The server echoes the key, cut in two by a read.
	r.Recording.Reads = append(r.Recording.Reads,
		stream.Read{At: r.Recording.EndAt, Kernel: -1, Bytes: []byte("data: " + key[:5])}, stream.Read{At: r.Recording.EndAt, Kernel: -1, Bytes: []byte(key[5:] + "\n\n")})
	before := string(r.Recording.Body())
	dir, _ := write(t, r, key, "")
	for name, text := range contents(t, dir) {
		for _, secret := range []string{key, escaped, "hunter22", "plainkey", "other-key", "c=1", "session=1"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", name, secret)
			}
		}
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if body := string(got.Recording.Body()); len(body) != len(before) || !strings.HasSuffix(body, "data: "+strings.Repeat("*", len(key))+"\n\n") {
		t.Errorf("the stream ends in %q", body[len(body)-40:])
	}
	if len(got.Recording.Reads) != len(r.Recording.Reads) || len(got.Recording.Reads[256].Bytes) != 11 {
		t.Error("the reads were moved")
	}
	if string(r.Recording.Body()) != before || r.Meta.Header.Get("X-Api-Key") != "other-key" || r.Recording.Header.Get("Set-Cookie") != "session=1" {
		t.Error("the caller's record was changed")
	}
	if want := "http://%5Bredacted%5D@127.0.0.1/v1?api_key=%5Bredacted%5D&x=y"; got.Meta.URL != want {
		t.Errorf("URL %s, want %s", got.Meta.URL, want)
	}
}

func TestCheckNamesWhatChanged(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(dir string, sums map[string]string) error
		want  []string
	}{
		{"one byte", func(dir string, _ map[string]string) error {
			return os.WriteFile(filepath.Join(dir, PromptFile), []byte("x"), 0o644)
		}, []string{"prompt.txt: changed"}},
		{"a file less", func(dir string, _ map[string]string) error { return os.Remove(filepath.Join(dir, StreamFile)) }, []string{"stream.zst: missing"}},
		{"a file more", func(dir string, _ map[string]string) error {
			return os.WriteFile(filepath.Join(dir, "more"), nil, 0o644)
		}, []string{"more: the row does not know this file"}},
		{"a link in place of a file", func(dir string, _ map[string]string) error {
			path := filepath.Join(dir, LogFile)
			if err := os.Rename(path, dir+".log"); err != nil {
				return err
			}
			return os.Symlink(dir+".log", path)
		}, []string{"engine.log: not a regular file"}},
		{"a name that leads elsewhere", func(_ string, sums map[string]string) error {
			sums["../x"] = "0"
			return nil
		}, []string{"x: not the name of a file of evidence"}},
		{"two things at once", func(dir string, sums map[string]string) error {
			sums[PromptFile] = "0"
			return os.Remove(filepath.Join(dir, RequestFile))
		}, []string{"prompt.txt: changed", "request.json: missing"}},
		{"the directory is gone", func(dir string, sums map[string]string) error {
			clear(sums)
			return os.RemoveAll(dir)
		}, []string{"no such file or directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, sums := write(t, sample())
			if err := tc.spoil(dir, sums); err != nil {
				t.Fatal(err)
			}
			errs := Check(dir, sums)
			if len(errs) != len(tc.want) {
				t.Fatalf("%v, want %v", errs, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("%v, want ...%s", errs[i], want)
				}
			}
		})
	}
}

func TestDamagedEvidenceIsRefused(t *testing.T) {
	bomb := func() []byte {
		enc, _ := zstd.NewWriter(nil)
		defer enc.Close()
		return enc.EncodeAll(make([]byte, maxPacked+2), nil)
	}
	for _, tc := range []struct {
		name, file string
		data       []byte
		want       string
	}{
		{"no meta", MetaFile, nil, "meta.json: missing"},
		{"meta is not JSON", MetaFile, []byte("{"), "meta.json: "},
		{"another format", MetaFile, []byte(`{"format":"assay-evidence-9"}`), `format "assay-evidence-9", want "assay-evidence-1"`},
		{"the stream is not zstd", StreamFile, []byte("hello"), "stream.zst: "},
		{"the stream is empty", StreamFile, []byte{}, "stream.zst: "},
		{"the samples are not zstd", SamplesFile, []byte("hello"), "samples.zst: "},
		{"the samples unpack to too much", SamplesFile, bomb(), "samples.zst: larger than"},
		{"the stream unpacks to too much", StreamFile, bomb(), "stream.zst: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := write(t, sample())
			path := filepath.Join(dir, tc.file)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if tc.data != nil {
				if err := os.WriteFile(path, tc.data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want ...%s", err, tc.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there gives no error")
	}
}

// FuzzEvidence reads any bytes as meta and stream: an error that names the file,
// or a record.
func FuzzEvidence(f *testing.F) {
	small := sample()
	small.Recording.Reads = small.Recording.Reads[:2]
	files, err := small.encode(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(files[MetaFile], files[StreamFile])
	f.Add([]byte(`{"format":"assay-evidence-1"}`), []byte("\x28\xb5\x2f\xfd"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, meta, packed []byte) {
		for name, b := range map[string][]byte{MetaFile: meta, StreamFile: packed} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Read(dir)
		switch {
		case err != nil && !strings.Contains(err.Error(), MetaFile) && !strings.Contains(err.Error(), StreamFile):
			t.Fatalf("the error names no file: %v", err)
		case err == nil && (r.Recording == nil || r.Meta.Format != Format):
			t.Fatalf("%+v", r)
		}
	})
}
