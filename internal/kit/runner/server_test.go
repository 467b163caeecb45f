package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/internal/kit/plan"
	"assay/internal/kit/proc"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/verify"
)

// The arms of the plans below start this test binary as a server, by "$SERVER $(port)",
// and set what is special about it by variables:
//
//	REQUESTS  file to which every request's body is appended, a line each
//	DIE       file that holds the number of the request in the middle of which it kills
//	          itself, once
//	REFUSE    number of the request that it answers with an error
//	PACE      time between two tokens
//	MUTE      it never gets ready
//	HEALTH    its answer when it is
//	LOGS      file to which it writes what follows it after a ":", and not to its output
//	BROKEN    it says so and ends before it listens
//	SAYS      what it logs before it listens; $PORT is its port
//	SHIFT     it listens on another port than it was told to
//	EAT       it takes 8 MiB of memory with each token
//	LOADS     what it takes of memory before it listens, in MiB, within a limit of 64 MiB
//	          that it sets to its own cgroup

// said are four tokens of the built-in model.
var said = []string{" was", " a", " very", " old"}

// eaten keeps what was taken.
var eaten [][]byte

type server struct {
	mu       sync.Mutex
	seen     map[string]bool // beginnings of conversations
	requests int             // of runs
	pace     time.Duration
}

// serve is OpenAI's API with a prompt cache that knows whole conversations.
func serve(port string) {
	if text := os.Getenv("BROKEN"); text != "" {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(1)
	}
	if os.Getenv("SHIFT") != "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		l.Close()
	}
	if text := os.Getenv("SAYS"); text != "" {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(text, "$PORT", port))
	}
	if file, text, ok := strings.Cut(os.Getenv("LOGS"), ":"); ok {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			panic(err)
		}
	}
	if n, err := strconv.Atoi(os.Getenv("LOADS")); err == nil {
		if why := limitOwn(64 << 20); why != "" {
			fmt.Fprintln(os.Stderr, noLimit+why)
			os.Exit(1)
		}
		for range n / 8 {
			eat()
		}
	}
	s := &server{seen: map[string]bool{}, pace: time.Millisecond}
	if d, err := time.ParseDuration(os.Getenv("PACE")); err == nil {
		s.pace = d
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if os.Getenv("MUTE") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, cmp.Or(os.Getenv("HEALTH"), `{"status":"healthy","issues":[]}`))
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"tiny","owned_by":"a test"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+port, mux))
	os.Exit(1)
}

// eat takes 8 MiB.
func eat() {
	b := make([]byte, 8<<20)
	for k := 0; k < len(b); k += 4096 {
		b[k] = 1
	}
	eaten = append(eaten, b)
}

// noLimit begins what a server says that can't limit itself.
const noLimit = "no limit can be set: "

// limitOwn limits the memory of the cgroup that was made for this process, and of no
// other; the text says why it can't.
func limitOwn(bytes int) string {
	g, err := proc.Root("/").MemoryCgroup("self")
	if err != nil {
		return err.Error()
	}
	dir := filepath.Join("/", g.Dirs[0])
	if !strings.HasPrefix(filepath.Base(dir), "assay-target-") {
		return "it has no cgroup of its own"
	}
	return limitMemory(dir, "", bytes)
}

// dies says whether the file of DIE names this request, and takes it away.
func dies(n int) bool {
	file := os.Getenv("DIE")
	data, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(data)) == fmt.Sprint(n) && os.Remove(file) == nil
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages  []prompt.Message `json:"messages"`
		MaxTokens int              `json:"max_tokens"`
	}
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil || json.Unmarshal(raw, &q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	cached := 0
	if s.seen[q.Messages[0].Content] {
		cached = 60
	}
	if strings.HasPrefix(q.Messages[0].Content, "Ticket ") { // else the adapter looks what is refused
		s.requests++
		s.seen[q.Messages[0].Content] = true
		if file := os.Getenv("REQUESTS"); file != "" {
			f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err == nil {
				fmt.Fprintf(f, "%s\n", raw)
				f.Close()
			}
		}
	}
	n := s.requests
	s.mu.Unlock()
	if os.Getenv("REFUSE") == fmt.Sprint(n) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"not this one"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	for i := range q.MaxTokens {
		if i == q.MaxTokens/2 && dies(n) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Second)
		}
		time.Sleep(s.pace)
		if os.Getenv("EAT") != "" {
			eat()
		}
		say(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, said[i%len(said)])
	}
	say(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
	say(`{"choices":[],"usage":{"prompt_tokens":80,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, q.MaxTokens, cached)
	say("[DONE]")
}

// started is the config of a plan whose arms start the server. In the plan $SERVER
// stands for the test binary and $DIR for a folder of the test's own.
func started(t *testing.T, text string) Config {
	t.Helper()
	if testing.Short() && t.Name() != "TestBlocks" && t.Name() != "TestFinish" {
		t.Skip("starts programs")
	}
	t.Parallel() // they mostly wait
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text = strings.NewReplacer("$SERVER", exe, "$DIR", dir).Replace(text)
	p, err := plan.Parse("plan.yaml", []byte(text), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Plan: *p, Dir: filepath.Join(dir, "rows"), Version: "test", Executable: exe,
		Environ:  os.Environ(),
		Adapters: adapters.All, Text: prompt.Books(), Arms: map[string]Files{}, Prompts: map[string]string{},
	}
	counter := seedlingTokens(t)
	for _, a := range p.Arms {
		c.Arms[a.Name] = Files{Tokens: counter, Model: Model{Why: "the plan names no model file"}}
	}
	for _, file := range p.Prompts {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c.Prompts[file] = string(data)
	}
	return c
}

// asked are the bodies of the requests that a server got.
func asked(t *testing.T, c *Config, file string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(c.Dir), file))
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for line := range strings.Lines(string(data)) {
		var q map[string]any
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
	return out
}

// whole checks that the folder holds every run of the plan once with status ok, and
// no attempt twice, and that verify finds nothing.
func whole(t *testing.T, c *Config) []*row.Row {
	t.Helper()
	ok, ids := map[string]int{}, map[string]bool{}
	all := rows(t, c.Dir)
	for _, r := range all {
		if ids[r.RowID] {
			t.Errorf("%s is there twice", r.RowID)
		}
		ids[r.RowID] = true
		if r.Phase == row.Measure && r.Status == row.OK {
			ok[plan.Key(r.Cell, false, r.Repeat)]++
		}
	}
	for _, r := range c.Plan.Runs() {
		if n := ok[r.Key()]; !r.Warmup && n != 1 {
			t.Errorf("%s: %d rows of status ok", r.Key(), n)
		}
	}
	clean(t, c.Dir)
	return all
}

func clean(t *testing.T, dir string) {
	t.Helper()
	rep, err := verify.Dir(t.Context(), dir, verify.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Findings {
		t.Errorf("verify: %s", f)
	}
}

// ids are the rows' names, in order.
func ids(all []*row.Row) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.RowID)
	}
	return out
}

// starts are the rows' start ids as letters, in the order in which they come up.
func starts(all []*row.Row) string {
	var known []string
	out := ""
	for _, r := range all {
		i := slices.Index(known, *r.StartID)
		if i < 0 {
			i, known = len(known), append(known, *r.StartID)
		}
		out += string(rune('A' + i))
	}
	return out
}
