package ollama_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"assay/internal/gguf"
	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/stream"
	"assay/internal/kit/target/ollama"
	"assay/internal/kit/target/replay"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// recorded is one exchange with Ollama 0.17.4, as testdata has it.
type recorded struct {
	Request struct {
		Method  string
		Path    string
		Request json.RawMessage
	}
	Status  string
	Headers []string
	Body    []struct {
		NS   int64
		Text string
	}
}

func readRecorded(t testing.TB, name string) *recorded {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	r := new(recorded)
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorded) status() int {
	n, _ := strconv.Atoi(strings.Fields(r.Status)[1])
	return n
}

func (r *recorded) text() string {
	var b strings.Builder
	for _, part := range r.Body {
		b.WriteString(part.Text)
	}
	return b.String()
}

// change replaces text in the answer.
func (r *recorded) change(old, with string) *recorded {
	for i := range r.Body {
		r.Body[i].Text = strings.ReplaceAll(r.Body[i].Text, old, with)
	}
	return r
}

// recording is the exchange as our client would have kept it.
func (r *recorded) recording() *stream.Recording {
	out := &stream.Recording{
		T0: 1796164285_000000000, DialNS: 1000, Remote: "127.0.0.1:11434", SentAt: 1000, HeadersAt: 2000, Proto: "HTTP/1.1",
		Status: r.status(), Header: http.Header{}, Clean: true, EndAt: 1,
	}
	for _, h := range r.Headers {
		k, v, _ := strings.Cut(h, ": ")
		out.Header.Add(k, v)
	}
	for _, b := range r.Body {
		out.Reads = append(out.Reads, stream.Read{At: b.NS, Kernel: -1, Bytes: []byte(b.Text)})
		out.EndAt = b.NS
	}
	return out
}

// evidenceOf is the exchange as a run would have kept it. The recorded prompt has
// no blank line behind its nonce, so ours stands in its place, with as many tokens.
// Prompt and text are counted by the model's own tokenizer.
func evidenceOf(t testing.TB, r *recorded) (*evidence.Record, *derive.Facts) {
	t.Helper()
	rec, f := replay.New(ollama.Adapter{}, replay.Message)
	rec.Meta.URL = "http://127.0.0.1:11434" + r.Request.Path
	var q map[string]any
	if err := json.Unmarshal(r.Request.Request, &q); err != nil {
		t.Fatal(err)
	}
	if said, ok := q["messages"].([]any); ok {
		c := said[0].(map[string]any)["content"].(string)
		if strings.Contains(c, "9000 times") {
			rec.Prompt = replay.Nonce + "\n\n" + strings.Repeat("word ", 9000)
			f.Plan.Ctx = 9000
		}
	}
	q["messages"] = []map[string]string{{"role": "user", "content": rec.Prompt}}
	var err error
	if rec.Request, err = json.Marshal(q); err != nil {
		t.Fatal(err)
	}
	rec.Recording = r.recording()
	f.Exchange.MonotonicNS, f.Exchange.WallNS = rec.Recording.EndAt, rec.Recording.EndAt
	counter := counterOf(t)
	f.Text = derive.CountText(counter, rec)
	f.Prompt = derive.CountPrompt(counter, rec.Request, replay.Nonce)
	return rec, f
}

func counterOf(t testing.TB) *tokens.Counter {
	t.Helper()
	file, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	c, err := tokens.FromGGUF(file, seedling.File)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveLog are the lines of the recorded log, from the first that holds from up to
// and with the first after it that holds to.
func serveLog(t testing.TB, from, to string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/serve.log")
	if err != nil {
		t.Fatal(err)
	}
	s := string(data)
	at := strings.Index(s, from)
	if at < 0 {
		t.Fatalf("serve.log has no %q", from)
	}
	at = strings.LastIndexByte(s[:at], '\n') + 1
	end := strings.Index(s[at:], to)
	if end < 0 {
		t.Fatalf("serve.log has no %q after that", to)
	}
	end += at
	return []byte(s[at : end+strings.IndexByte(s[end:], '\n')+1])
}
