package strata_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is testdata/recorded-run.json: one run of Strata 0.1.38, as a public
// report had it.
type recorded struct {
	TTFT    float64           `json:"client_ttft_s"`
	Latency float64           `json:"client_total_latency_s"`
	Before  json.RawMessage   `json:"metrics_before"`
	After   json.RawMessage   `json:"metrics_after"`
	Frames  []json.RawMessage `json:"frames_first_and_last"`
	Lines   []string          `json:"engine_log_lines"`
}

func readRecorded(t testing.TB) *recorded {
	t.Helper()
	r, err := recordedRun()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func recordedRun() (*recorded, error) {
	data, err := os.ReadFile("testdata/recorded-run.json")
	if err != nil {
		return nil, err
	}
	r := new(recorded)
	return r, json.Unmarshal(data, r)
}

// replayer is a server that speaks as Strata's did: HTTP/1.0, /metrics by what is
// accepted, and the engine's log in a file of its own.
type replayer struct {
	*recorded
	url, log string
	middle   int           // frames in place of those that the recording leaves out
	lag      time.Duration // of the log behind the stream
	asked    bool
}

func serve(t testing.TB, r *replayer) *replayer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r.url = "http://" + l.Addr().String()
	r.log = filepath.Join(t.TempDir(), "engine.log")
	if err := os.WriteFile(r.log, []byte(started), 0o644); err != nil {
		t.Fatal(err)
	}
	go r.accept(l)
	return r
}

// started is what the engine logs when it has loaded its model.
const started = "strata generate: 31 expert-pool workers + the host thread\nstrata generate: session is up (engine 0.1.38)\n"

func (r *replayer) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r.answer(c)
		c.Close()
	}
}

// TestMain is the server itself where a test starts this binary as one.
func TestMain(m *testing.M) {
	if os.Getenv("STRATA_REPLAYER") == "" {
		os.Exit(m.Run())
	}
	if err := main(os.Args[1:]); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// main is serve/server.py --engine strata --config FILE --port N, of a model that
// takes a moment to load.
func main(args []string) error {
	data, err := os.ReadFile(args[3])
	if err != nil {
		return err
	}
	var c struct{ Log string }
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	r := &replayer{log: c.Log, middle: 20}
	if r.recorded, err = recordedRun(); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	if err := os.WriteFile(c.Log, []byte(started), 0o644); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+args[5])
	if err != nil {
		return err
	}
	fmt.Printf("ready: http://%s/v1  (OpenAI: /v1/chat/completions)\n", l.Addr())
	r.accept(l)
	return nil
}

func (r *replayer) answer(c net.Conn) {
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, q.Body)
	say := func(status int, kind, body string) {
		fmt.Fprintf(c, "HTTP/1.0 %d %s\r\nServer: strata\r\nContent-Type: %s\r\n\r\n%s", status, http.StatusText(status), kind, body)
	}
	switch q.Method + " " + q.URL.Path {
	case "GET /health":
		say(200, "application/json", `{"status":"ok","max_context":65536,"model":"qwen3.8-flash-next-coder-iq1_m","images":false,"api_key":false,"loaded":true,"service":"strata"}`)
	case "GET /v1/models":
		say(200, "application/json", `{"object":"list","data":[{"id":"qwen3.8-flash-next-coder-iq1_m","object":"model","owned_by":"strata"}]}`)
	case "GET /metrics":
		page := r.Before
		if r.asked {
			page = r.After
		}
		if strings.Contains(q.Header.Get("Accept"), "text/plain") || q.URL.Query().Get("format") == "prometheus" {
			say(200, "text/plain; version=0.0.4", "# HELP strata_output_tokens_total tokens\nstrata_output_tokens_total 256\n")
			return
		}
		say(200, "application/json", string(page))
	case "POST /v1/chat/completions":
		r.asked = true
		say(200, "text/event-stream", "")
		r.stream(c)
		go func() {
			time.Sleep(r.lag)
			r.write(r.Lines)
		}()
	default:
		say(404, "application/json", `{"error":{"type":"not_found","message":"no such path"}}`)
	}
}

func (r *replayer) stream(c net.Conn) {
	frames := slices.Clone(r.Frames)
	last := len(frames) - 1
	for i, f := range frames {
		if i == 1 {
			fmt.Fprint(c, ": keep-alive\n\n: keep-alive\n\n")
		}
		if i == last {
			for range r.middle {
				time.Sleep(200 * time.Microsecond)
				fmt.Fprint(c, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and so on\"},\"finish_reason\":null}]}\n\n")
			}
		}
		fmt.Fprintf(c, "data: %s\n\n", compact(f))
	}
	fmt.Fprint(c, "data: [DONE]\n\n")
}

func compact(raw json.RawMessage) string {
	var v any
	_ = json.Unmarshal(raw, &v)
	b, _ := json.Marshal(v)
	return string(b)
}

// write appends to the log, a line at a time and not always at its end.
func (r *replayer) write(lines []string) {
	f, err := os.OpenFile(r.log, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	for _, l := range lines {
		_, _ = f.WriteString(l[:len(l)/2])
		time.Sleep(2 * time.Millisecond)
		_, _ = f.WriteString(l[len(l)/2:] + "\n")
	}
}
