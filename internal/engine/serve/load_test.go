package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

var (
	loadTime    = flag.Duration("load.time", 20*time.Second, "how long TestLoad asks")
	loadClients = flag.Int("load.clients", 8, "clients of TestLoad")
	loadJobs    = flag.Int("load.jobs", 24, "different requests of TestLoad")
	loadPrompt  = flag.Int("load.prompt", 800, "tokens of TestLoad's prompts, at most")
	loadSlots   = flag.Int("load.slots", 4, "slots of TestLoad")
	loadThreads = flag.Int("load.threads", 2, "compute threads of TestLoad")
	loadReuse   = flag.Int("load.reuse", 64, "MiB for prompts that TestLoad keeps")
	loadDrafts  = flag.Int("load.drafts", 0, "drafts a round in TestLoad, at most")
)

// loadJob is a request with the text that it gets alone.
type loadJob struct {
	body   string
	frames []string
}

// Many clients for a while, with requests of mixed lengths, of which some hang up in
// the middle: each gets the text that it gets alone, memory does not grow, and all
// slots are free at the end. It reports what all got together against what one gets
// alone, and against the bound by the experts that passes read (BenchmarkTogether has
// it without a server and its clients on the same processors, and without prompts). It
// runs with ASSAY_WIDE=1, on the model that ASSAY_BENCH_MODEL names or the
// built-in one:
//
//	ASSAY_WIDE=1 go test ./internal/engine/serve -run TestLoad -v -args -load.time 5m
func TestLoad(t *testing.T) {
	if os.Getenv("ASSAY_WIDE") == "" {
		t.Skip("takes long; set ASSAY_WIDE=1")
	}
	f, err := loadModel()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs := make([]loadJob, *loadJobs)
	r := rand.New(rand.NewPCG(5, 8))
	for i := range jobs {
		jobs[i].body = randomBody(r)
	}
	alone := readAlone(t, f, jobs)
	s := loadServer(t, f, engine.Options{Slots: *loadSlots, ReuseBytes: int64(*loadReuse) << 20, Drafts: *loadDrafts})
	defer s.close()
	var asked, hungUp, wrong atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), *loadTime)
	defer cancel()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range *loadClients {
		r := rand.New(rand.NewPCG(9, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				j, leaves := jobs[r.IntN(len(jobs))], -1
				if r.IntN(4) == 0 {
					leaves = r.IntN(len(j.frames) + 1)
				}
				frames, err := readTexts(ctx, s.url, j.body, leaves)
				switch {
				case leaves >= 0 || ctx.Err() != nil:
					hungUp.Add(1)
				case err != nil:
					t.Error(err)
				}
				asked.Add(1)
				if got, want := strings.Join(frames, ""), strings.Join(j.frames, ""); !strings.HasPrefix(want, got) || leaves < 0 && ctx.Err() == nil && got != want {
					if wrong.Add(1) < 3 {
						t.Errorf("%s got %q, alone %q", j.body, got, want)
					}
				}
			}
		})
	}
	time.Sleep(*loadTime / 4)
	early := heap()
	wg.Wait()
	elapsed := time.Since(began).Seconds()
	eventually(t, "all slots free", func() bool {
		st := s.engine.Load().Stats()
		return st.Running == 0 && st.Waiting == 0 && s.metrics.inFlight() == 0
	})
	late := heap()
	if late > early+early/4+16<<20 {
		t.Errorf("the heap grew from %d MiB in the first quarter to %d MiB", early>>20, late>>20)
	}
	st, m := s.engine.Load().Stats(), readMetrics(t, s.url)
	t.Logf("%d requests of %d clients in %.0f s, %d hung up, %d slots, heap %d then %d MiB", asked.Load(), *loadClients, elapsed, hungUp.Load(), *loadSlots, early>>20, late>>20)
	again := readAlone(t, f, jobs)
	alone.computed, alone.drawn, alone.writing = (alone.computed+again.computed)/2, (alone.drawn+again.drawn)/2, (alone.writing+again.writing)/2
	rate, drawn := float64(st.RoundTokens)/elapsed, m["assay_tokens_predicted_total"]/elapsed
	t.Logf("alone: %.0f tokens/s computed, %.0f drawn, %.0f once a prompt is read; together: %.0f computed (%.2f times), %.0f drawn (%.2f times), %.0f reused", alone.computed, alone.drawn, alone.writing, rate, rate/alone.computed, drawn, drawn/alone.drawn, m["assay_prompt_tokens_cached_total"]/elapsed)
	d, err := engine.DemandOf(f, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	experts := float64(st.Experts) / float64(st.Rounds)
	least := float64(st.Rounds) * d.RoundReads(experts) / (alone.writing * float64(d.PerToken))
	t.Logf("%.0f experts a pass: to read them at the rate of one that writes takes %.0f s, %.0f %% of the time", experts, least, 100*least/elapsed)
	t.Logf("%.2f sequences and %.1f tokens a pass, %.0f of prompts reused", m["assay_n_busy_slots_per_decode"], float64(st.RoundTokens)/float64(st.Rounds), m["assay_prompt_tokens_cached_total"])
	if wrong.Load() > 0 || asked.Load() < int64(*loadClients) {
		t.Errorf("%d of %d texts were wrong", wrong.Load(), asked.Load())
	}
}

// aloneRates are tokens a second of requests one after another.
type aloneRates struct {
	computed, drawn float64 // of prompts as well, and without them, in the whole time
	writing         float64 // from a request's first token on
}

// readAlone asks for every job by itself, and keeps what it gets.
func readAlone(t *testing.T, f *gguf.File, jobs []loadJob) aloneRates {
	t.Helper()
	s := loadServer(t, f, engine.Options{})
	defer s.close()
	began := time.Now()
	for i := range jobs {
		frames, err := readTexts(context.Background(), s.url, jobs[i].body, -1)
		if err != nil {
			t.Fatal(err)
		}
		jobs[i].frames = frames
	}
	took := time.Since(began).Seconds()
	m := readMetrics(t, s.url)
	drawn := m["assay_tokens_predicted_total"]
	return aloneRates{
		computed: float64(s.engine.Load().Stats().RoundTokens) / took,
		drawn:    drawn / took,
		writing:  (drawn - float64(len(jobs))) / m["assay_tokens_predicted_seconds_total"],
	}
}

// heap is what the program holds after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func loadModel() (*gguf.File, error) {
	if path := os.Getenv("ASSAY_BENCH_MODEL"); path != "" {
		return gguf.Open(path)
	}
	return gguf.Parse(seedling.Name, seedling.GGUF)
}

// loadedServer is a server that can be closed before the test ends.
type loadedServer struct {
	testServer
	close func()
}

func loadServer(t *testing.T, f *gguf.File, o engine.Options) loadedServer {
	t.Helper()
	log := &lockedBuffer{}
	s := New(Config{ModelPath: f.Name(), Build: "assay-test", Log: log})
	o.Threads, o.Context, o.Log = *loadThreads, 2048, s.LogEngine
	e, err := engine.Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetEngine(e)
	h := httptest.NewServer(s)
	return loadedServer{testServer{s, h.URL, log}, func() {
		h.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}}
}

// randomBody is a request of any length, sampled or not, that may begin as others do.
func randomBody(r *rand.Rand) string {
	prompt := make([]int, 1+r.IntN(60))
	if r.IntN(4) == 0 {
		prompt = make([]int, 200+r.IntN(600))
	}
	prompt = prompt[:min(len(prompt), *loadPrompt)]
	for i, kind := 0, r.IntN(3); i < len(prompt); i++ {
		prompt[i] = 300 + (i*(7+kind)+kind*100)%900
		if i > len(prompt)/2 {
			prompt[i] = 300 + r.IntN(900)
		}
	}
	raw, _ := json.Marshal(prompt)
	return fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"ignore_eos":true,"stream":true,"seed":%d,"temperature":%g}`, raw, 5+r.IntN(120), r.IntN(1000), float64(r.IntN(3))/2)
}

// readTexts reads the texts of a stream's frames: all of them, or some and then hangs up.
func readTexts(ctx context.Context, url, body string, leaves int) (texts []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if len(texts) == leaves {
			return texts, nil
		}
		if data == "[DONE]" {
			return texts, nil
		}
		var f received
		if err := json.Unmarshal([]byte(data), &f); err != nil || f.Error != nil {
			return texts, fmt.Errorf("%w in %s", err, data)
		}
		texts = append(texts, f.content())
	}
	return texts, fmt.Errorf("the stream ended: %w", lines.Err())
}
