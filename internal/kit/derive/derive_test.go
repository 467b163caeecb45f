package derive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/gguf"
	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/host"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/telemetry"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

const sha = "4c1eb2ceb4915e1192f4f386021897bde56a97f40a0bb78bb86465e0f7d2aca3"

// words are 40 tokens of the built-in model.
var words = func() []string {
	var out []string
	for range 10 {
		out = append(out, " was", " a", " very", " old")
	}
	return out
}()

// timed is a stream of the words, the first 100 ms after t0 and the others 10 ms
// apart, and of what comes after them, 5 ms later.
func timed(words []string, end ...string) *stream.Recording {
	r := &stream.Recording{
		T0: 1796161490_000000000, DialNS: 1000, Remote: "127.0.0.1:8080", SentAt: 1000, HeadersAt: 2000, Proto: "HTTP/1.1",
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Clean: true,
	}
	send := func(ms int, data string) {
		r.Reads = append(r.Reads, stream.Read{At: int64(ms) * 1e6, Kernel: int64(ms)*1e6 - 1000, Bytes: []byte("data: " + data + "\n\n")})
	}
	ms := 90
	for _, w := range words {
		ms += 10
		q, _ := json.Marshal(w)
		send(ms, `{"choices":[{"index":0,"delta":{"content":`+string(q)+`}}]}`)
	}
	for _, e := range end {
		send(ms+5, e)
	}
	r.EndAt = int64(ms+6) * 1e6
	return r
}

const (
	finish  = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	usage   = `{"choices":[],"usage":{"prompt_tokens":88,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":0}}}`
	logLine = "assay serve: request 1: prompt 88 tokens = 0 reused + 88 read in 80.0 ms (1100.0 tok/s), 40 generated in 390.0 ms (100.0 tok/s), finish length\n"
)

func metrics(predicted int) []byte {
	return fmt.Appendf(nil, "assay_tokens_predicted_total %d\nassay_tokens_predicted_seconds_total %v\nassay_prompt_tokens_total 88\n", predicted, float64(predicted)/100)
}

// samples were read around a run of 496 ms: the processor's package drew 100 W, a
// GPU between 40 and 60 W, and another program ran beside ours.
func samples(t0 int64) *telemetry.Record {
	const before, after = 998e6, 1498e6 // since Origin; the run begins at 1 s
	track := func(source string, hz float64, at []int64, series ...telemetry.Series) telemetry.Track {
		return telemetry.Track{Source: source, Hz: hz, At: at, Series: series}
	}
	two := []int64{before, after}
	one := func(m telemetry.Metric, of string, v ...float64) telemetry.Series {
		return telemetry.Series{Metric: m, Of: of, V: v}
	}
	package0, at := one(telemetry.RAPLEnergy, "package-0"), []int64{}
	package0.Counter = true
	for ns := int64(before); ns <= after; ns += 50e6 {
		at, package0.V = append(at, ns), append(package0.V, float64(ns)/1e9*100)
	}
	return &telemetry.Record{Form: telemetry.Form, Origin: t0 - 1e9, Tracks: []telemetry.Track{
		track("rapl", 20, at, package0),
		track("nvidia-smi/0", 1, two, one(telemetry.GPUPower, "GPU 0", 40, 60), one(telemetry.GPUMem, "GPU 0", 1<<30, 1<<30)),
		track("host", 1, two, one(telemetry.Load1, "", 1, 2), one(telemetry.MemAvailable, "", 1<<33, 1<<32)),
		track("processes", 1, two, one(telemetry.VmRSS, "", 5e8, 6e8), one(telemetry.VmLck, "", 0, 0), one(telemetry.VmPin, "", 0, 0)),
		track("noise", 1, two, one(telemetry.NoiseProcs, "", 0, 1), one(telemetry.NoiseCPU, "ffmpeg", 0, 1.25)),
		track("cgroup", 1, two, one(telemetry.CgroupAtLimit, "", 3, 5)),
		track("disk", 1, two, one(telemetry.DiskReads, "nvme0n1", 100, 150), one(telemetry.DiskRead, "nvme0n1", 1e6, 6e6)),
		track("lag", 40, []int64{1100e6, 1200e6}, one(telemetry.SelfLag, "", 0.25, 0.5)),
	}}
}

func encoded(r *telemetry.Record) []byte {
	out, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return out
}

// sample is the evidence of one run of our engine, with its facts.
func sample() (*evidence.Record, *Facts) {
	const nonce = "Ticket 10000000."
	message := nonce + "\n\n" + "Alice was beginning to get very tired."
	body, _ := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "user", "content": message}}, "max_tokens": 40, "temperature": 0})
	rec := &evidence.Record{
		Meta:      evidence.Meta{Row: "arm/measure/a1/run-002", Method: "POST", URL: "http://127.0.0.1:8080/v1/chat/completions"},
		Recording: timed(words, finish, usage, "[DONE]"),
		Request:   body, Prompt: message, Completion: strings.Join(words, ""),
		MetricsBefore: metrics(10), MetricsAfter: metrics(50), Log: []byte(logLine),
	}
	ends, at := []int{}, 0
	for _, w := range words {
		at += len(w)
		ends = append(ends, at)
	}
	f := &Facts{
		Form: Form, AssayVersion: "test", TimingRule: figure.Rule,
		Plan:   Plan{Arm: "arm", Cell: "arm/64", Ctx: 64, Phase: row.Measure, Repeat: 1, Attempt: 1, Run: 2, Cache: "cold"},
		Target: Target{Adapter: "assay", Engine: "assay", Commit: new("abcdef0"), Format: new("Q8_0"), EndTokenCounted: new(true), DecodeBasis: "n-1", ThreadsLog: "assay serve: threads 2 (1 workers + the caller), context 512"},
		Start:  &Start{ID: "s1", Argv: []string{"assay", "serve"}, Env: map[string]string{}, LoadMS: 12.5, Requests: 2},
		Model:  Model{FileSHA256: map[string]string{"1": sha}},
		Host: host.Host{
			OS: new("linux"), Distribution: new("d"), Kernel: new("k"), Arch: new("amd64"), CPUModel: new("c"), Sockets: new(1), Cores: new(2), CPUs: new(2),
			Governor: new("performance"), MemoryBytes: new(int64(1 << 33)), Virtualisation: new("none"),
			Detail: host.Detail{
				Caches: []host.Cache{{Level: 3, Type: "Unified", Bytes: 1 << 25, Count: 1, SharedBy: 2}}, NUMANodes: []host.Node{{CPUs: "0-1", MemoryBytes: 1 << 33}},
				Mitigations: map[string]string{"meltdown": "Mitigation: PTI"}, HugePages: new("madvise"), Clock: new("tsc"), SwapBytes: new(int64(0)),
				GPUs: []host.GPU{{Vendor: "nvidia", PCIID: "10de:2335", Slot: "0000:41:00.0", Driver: new("nvidia"), DriverVersion: new("580.1"), Name: new("H200"), Why: map[string]string{"memory_bytes": "the driver was not asked"}}},
			},
			Why: map[string]string{"smt": "not told", "microcode": "not told"},
		},
		Prompt:   Prompt{Nonce: nonce, Total: new(88), BeforeNonce: new(6)},
		Exchange: Exchange{MonotonicNS: 500e6, WallNS: 500e6},
		Text:     Text{Tokenizer: seedling.File, Ends: ends},
		Around: Around{Disk: "nvme0n1", Baseline: &telemetry.Baseline{Why: "no GPU"}, Model: &host.Model{
			Disk:             host.Disk{FileSystem: new("ext4"), Kind: new("nvme"), Device: new("nvme0n1"), Below: []string{}, Rotational: new(false), Why: map[string]string{"model": "not told"}},
			PageCachePercent: new(12.5),
		}},
	}
	rec.Samples = encoded(samples(rec.Recording.T0))
	return rec, f
}

// derived is the row as it would be appended.
func derived(t testing.TB, rec *evidence.Record, f *Facts) *row.Row {
	t.Helper()
	r, err := Row(rec, f)
	if err != nil {
		t.Fatal(err)
	}
	r.Evidence = row.Evidence{Dir: new("evidence/x"), Files: map[string]string{evidence.MetaFile: sha}}
	r.Place(1, nil)
	return r
}

// The values of a plain run, worked out by hand.
func TestRow(t *testing.T) {
	rec, f := sample()
	r := derived(t, rec, f)
	if bad := row.Validate(r); len(bad) > 0 {
		t.Error(bad)
	}
	for name, v := range map[string]struct{ got, want *float64 }{
		"ttft_ms":                        {r.TTFTMS, new(100.0)},
		"decode_tok_s":                   {r.DecodeTokS, new(39 / 0.390)},
		"decode_tok_s_server":            {r.DecodeTokSServer, new(39 / 0.390)},
		"prompt_tok_s_client":            {r.PromptTokSClient, new(88 / 0.1)},
		"load_ms":                        {r.LoadMS, new(12.5)},
		"page_cache_percent":             {r.PageCachePercent, new(12.5)},
		"telemetry.load.load1_mean":      {r.Telemetry.Load.Load1Mean, new(1.5)},
		"telemetry.memory.mem_available": {r.Telemetry.Memory.MemAvailableGiBMin, new(4.0)},
		"telemetry.rapl_package0.joules": {r.Telemetry.RAPLPackage0.Joules, new(49.6)},
		"telemetry.board.max_w":          {r.Telemetry.Board.MaxW, new(60.0)},
		"telemetry.vram.max_used_mib":    {r.Telemetry.VRAM.MaxUsedMiB, new(1024.0)},
		"telemetry.data_reads_per_s":     {r.Telemetry.DataReads.Mean, new(100.0)},
		"telemetry.data_read_mb_per_s":   {r.Telemetry.DataReadMB.Mean, new(10.0)},
		"telemetry.window.seconds":       {r.Telemetry.Window.Seconds, new(0.496)},
	} {
		if v.got == nil || math.Abs(*v.got-*v.want) > 1e-9**v.want {
			t.Errorf("%s: %v, want %v", name, v.got, *v.want)
		}
	}
	if *r.CountCheck.Verdict != "agree-independent" || len(r.CountCheck.Sources) != 4 || *r.Decode.NSource != "text tokenised whole" {
		t.Errorf("%s of %v, positions by %s", *r.CountCheck.Verdict, r.CountCheck.Sources, *r.Decode.NSource)
	}
	if r.RowID != "arm/measure/a1/run-002" || r.Ctx != "64" || *r.Requested.MaxTokens != 40 || *r.Requested.Sampling.Temperature != 0 || *r.Requested.Endpoint != "/v1/chat/completions" {
		t.Errorf("%s, ctx %s, requested %+v", r.RowID, r.Ctx, r.Requested)
	}
	if *r.Threads.Workers != 1 || *r.Assay.EngineGenerated != 40 || *r.Assay.Metrics.OutputTokens != 40 || *r.Telemetry.Pinned.VmRSSMaxBytes != 6e8 {
		t.Errorf("threads %+v, block %+v", r.Threads, r.Assay)
	}
	if h := &r.Host; *h.SwapBytes != 0 || h.Caches[0].Bytes != 1<<25 || *h.GPUs[0].Name != "H200" || r.Why["host.gpus[0].memory_bytes"] != "the driver was not asked" || *h.ModelDisk.Device != "nvme0n1" {
		t.Errorf("host %+v, %v", h, r.Why)
	}
	if want := hash("Alice was beginning to get very tired."); *r.SliceSHA256 != want {
		t.Errorf("slice %s, want %s", *r.SliceSHA256, want)
	}
}

// Each energy is held against its own readings: a counter that was read at the
// edges of the run is shown, half a second of power at 1 Hz is not.
func TestEnergy(t *testing.T) {
	rec, f := sample()
	r := derived(t, rec, f)
	got := map[string]string{}
	for _, w := range r.Withheld {
		got[w.Figure] = fmt.Sprintf("%.3g %v %s", *w.Value, w.Codes, w.Why)
	}
	short := func(value string, seconds float64) string {
		return fmt.Sprintf("%s [energy-short energy-gap] %.1f s at 1 Hz, at least 10 s are needed; 0.5 s without a sample, in a window of %.1f s", value, seconds, seconds)
	}
	if diff := cmp.Diff(map[string]string{
		"telemetry.board.joules":                     short("24.8", 0.5),
		"telemetry.board.mean_w":                     short("50", 0.5),
		"telemetry.board.j_per_prompt_token":         short("0.0478", 0.1),
		"telemetry.board.j_per_output_token":         short("0.519", 0.4),
		"telemetry.rapl_package0.j_per_prompt_token": "0.114 [energy-gap] 0.1 s without a sample, in a window of 0.1 s",
	}, got); diff != "" {
		t.Errorf("withheld: want -, got +:\n%s", diff)
	}
	if v := r.Telemetry.RAPLPackage0.JPerOutputToken; v == nil || math.Abs(*v-1) > 1e-9 {
		t.Errorf("100 W for 10 ms a token: %v J", v)
	}
	if got := r.Why["telemetry.rapl_package0.j_per_output_token_net"]; !strings.HasPrefix(got, "no loaded idle was measured: it takes 30 s") {
		t.Errorf("net: %q", got)
	}
	if got := r.Notes["telemetry.load.noise_procs_max"]; *r.Telemetry.Load.NoiseProcsMax != 1 || !strings.Contains(got, "ffmpeg (1.2)") {
		t.Errorf("noise: %d, %q", *r.Telemetry.Load.NoiseProcsMax, got)
	}
	if got := r.Why["telemetry.vram.growth_mib"]; got != "no GPU" {
		t.Errorf("growth: %q", got)
	}
	if got := r.Sources["telemetry.rapl_package0.joules"]; got != "RAPL energy counter: 11 readings, at most 0.05 s apart, over 100 % of the time" {
		t.Errorf("source of the package's joules: %q", got)
	}
}

// Without receive times of the kernel, the lateness of our ticker counts.
func TestLagOfTheTicker(t *testing.T) {
	rec, f := sample()
	for i := range rec.Recording.Reads {
		rec.Recording.Reads[i].Kernel = -1
	}
	if r := derived(t, rec, f); r.DecodeTokS == nil || r.TTFTMS == nil {
		t.Fatalf("0.5 ms in 100 ms: withheld %+v", r.Withheld)
	}
	late := samples(rec.Recording.T0)
	for i := range late.Tracks {
		if tr := &late.Tracks[i]; tr.Source == "lag" {
			tr.Series[0].V = telemetry.Values{0.25, 2}
		}
	}
	rec.Samples = encoded(late)
	if r := derived(t, rec, f); r.TTFTMS != nil || r.Withheld[0].Codes[0] != string(figure.ClientLag) {
		t.Errorf("2 ms in 100 ms: TTFT %v, withheld %+v", r.TTFTMS, r.Withheld)
	}
}

// From the evidence as it lies on the disk comes the same row, to the byte.
func TestStoredEvidenceGivesTheSameRow(t *testing.T) {
	rec, f := sample()
	want, err := derived(t, rec, f).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if rec.Meta.Facts, err = json.Marshal(f); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "x")
	if _, err := evidence.Write(dir, rec, nil); err != nil {
		t.Fatal(err)
	}
	kept, err := evidence.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := ReadFacts(kept)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // reading changes nothing
		got, err := derived(t, kept, facts).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("(-at first +from the disk):\n%s", diff)
		}
	}
	if bad := Contradictions(kept); len(bad) > 0 {
		t.Error(bad)
	}
}

// However a run goes, its row is one that can be written: no null without a
// reason.
func TestRunsOfAllKinds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rec *evidence.Record, f *Facts)
		status row.Status
		kind   string // fail_kind, or "" and then
		holds  string // what the row's JSON holds
	}{
		"attached": {func(_ *evidence.Record, f *Facts) {
			f.Start, f.Target.ThreadsLog, f.Target.ThreadsWhy = nil, "", "attached: its start was not seen"
			f.Model = Model{Why: "attached: the files that the server loaded are not known"}
		}, row.OK, "", `"start_id":"attached to a server`},
		"on another host": {func(rec *evidence.Record, f *Facts) {
			rec.Samples, f.Around = nil, Around{Why: "remote target: this host's figures say nothing of it"}
		}, row.OK, "", `"telemetry.pinned.vmrss_max_bytes":"remote target: this host`},
		"without samples":   {func(rec *evidence.Record, _ *Facts) { rec.Samples = nil }, row.OK, "", `no samples were kept`},
		"nothing was found": {func(rec *evidence.Record, _ *Facts) { rec.Samples = []byte(`{"form":"assay-samples-1"}`) }, row.OK, "", `no source of it was recorded`},
		"samples of nonsense": {func(rec *evidence.Record, _ *Facts) {
			rec.Samples = []byte(`{"form":"assay-samples-1","origin_unix_ns":1796161489000000000,"tracks":[{"source":"x","at_ns":[1,2000000000],"series":[{"metric":"vmrss","v":[1e300,-1e300]},{"metric":"load1","v":[-1,null]},{"metric":"noise_procs","v":[1e18,1e18]},{"metric":"gpu_energy","of":"g","counter":true,"v":[9,1]}]}]}`)
		}, row.OK, "", `the readings are out of range`},
		"without tokenizer": {func(_ *evidence.Record, f *Facts) {
			f.Text, f.Prompt = Text{Why: "none"}, Prompt{Nonce: f.Prompt.Nonce, Why: "none"}
		}, row.OK, "", `"unread":[{"source":"text","why":"none"}]`},
		"the server's ids": {func(_ *evidence.Record, f *Facts) {
			f.Text = Text{Tokenizer: "the server's own tokenizer", IDs: make([]int32, 40)}
		}, row.OK, "", `"text by the server's own tokenizer":40`},
		"the tokenizer failed": {func(_ *evidence.Record, f *Facts) { f.Text = Text{Tokenizer: "x", Why: "POST /tokenize: status 500"} }, row.OK, "", `{"source":"text by x","why":"POST /tokenize: status 500"}`},
		"no log":               {func(rec *evidence.Record, f *Facts) { rec.Log, f.Exchange.LogWhy = nil, "gone" }, row.OK, "", `{"source":"log","why":"gone"}`},
		"empty log":            {func(rec *evidence.Record, _ *Facts) { rec.Log = nil }, row.OK, "", `no line \"assay serve: request\" came`},
		"huge numbers in the log": {func(rec *evidence.Record, _ *Facts) {
			rec.Log = []byte(strings.ReplaceAll(logLine, "40 generated", strings.Repeat("9", 40)+" generated"))
		}, row.OK, "", `out of range in the log`},
		"no metrics":   {func(rec *evidence.Record, f *Facts) { rec.MetricsAfter, f.Exchange.MetricsAfterWhy = nil, "status 404" }, row.OK, "", `{"source":"/metrics","why":"status 404"}`},
		"started anew": {func(rec *evidence.Record, _ *Facts) { rec.MetricsAfter = metrics(3) }, row.Failed, "engine-restarted", `fell from 10 to 3`},
		"died": {func(rec *evidence.Record, f *Facts) {
			rec.Recording = timed(words[:20])
			f.Text = Text{Tokenizer: seedling.File, Ends: f.Text.Ends[:20]}
			f.Exchange.Ended = "signal: killed: killed by the kernel for memory: cgroup /x, limit 64.0 MiB, peak 64.0 MiB"
		}, row.Failed, "target-ended", `"error":"the target ended by itself: signal: killed: killed by the kernel for memory: cgroup /x, limit 64.0 MiB, peak 64.0 MiB"`},
		"cut": {func(rec *evidence.Record, f *Facts) {
			rec.Recording, f.Text.Ends = timed(words[:20]), f.Text.Ends[:20]
		}, row.Failed, "truncated", `neither a finish_reason nor [DONE] came`},
		"interrupted": {func(rec *evidence.Record, f *Facts) {
			rec.Recording, f.Text.Ends = timed(words[:20]), f.Text.Ends[:20]
			rec.Recording.Phase, rec.Recording.Err, rec.Recording.Clean = stream.PhaseBody, "stopped: context canceled", false
			f.Exchange.Interrupted = true
		}, row.Stopped, "interrupted", `interrupted by the user`},
		"too slow": {func(rec *evidence.Record, f *Facts) {
			rec.Recording, f.Text = timed(nil), Text{Tokenizer: "x", Why: "no text"}
			rec.Recording.Phase, rec.Recording.Err = stream.PhaseBody, "stopped: context deadline exceeded"
			f.Exchange.TimedOut, f.Exchange.MonotonicNS, f.Exchange.WallNS = true, 3e9, 3e9
		}, row.Failed, "run-limit", `longer than its limit of 3s`},
		"no connection": {func(rec *evidence.Record, f *Facts) {
			rec.Recording, f.Text = nil, Text{Tokenizer: "x", Why: "no text"}
			f.Exchange.Err = "dial: connection refused"
		}, row.Failed, "stream-error", `dial: connection refused`},
		"a page": {func(rec *evidence.Record, f *Facts) {
			rec.Recording.Header.Set("Content-Type", "text/html")
			f.Text = Text{Tokenizer: "x", Why: "no text"}
		}, row.Failed, "stream-error", `is not a stream`},
		"the clock was set": {func(_ *evidence.Record, f *Facts) { f.Exchange.WallNS = 5e9 }, row.OK, "", `"codes":["clock-step"]`},
		"nonsense": {func(rec *evidence.Record, _ *Facts) {
			rec.Recording = timed(words, finish, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":90}},"timings":{"predicted_n":40,"predicted_ms":-3,"prompt_ms":1e300,"prompt_n":5,"prompt_per_second":-1,"draft_n":1,"draft_n_accepted":7}}`)
		}, row.OK, "", `90 tokens came from a cache`},
	} {
		t.Run(name, func(t *testing.T) {
			rec, f := sample()
			c.change(rec, f)
			r := derived(t, rec, f)
			if bad := row.Validate(r); len(bad) > 0 {
				t.Error(bad)
			}
			kind := ""
			if r.FailKind != nil {
				kind = *r.FailKind
			}
			if r.Status != c.status || kind != c.kind {
				t.Errorf("status %s, kind %q; want %s, %q", r.Status, kind, c.status, c.kind)
			}
			line, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(line), c.holds) {
				t.Errorf("the row does not say %s:\n%s", c.holds, line)
			}
		})
	}
}

// Evidence that can't be computed is refused, with the file and the field.
func TestUnfitEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rec *evidence.Record, f *Facts)
		want   string
	}{
		"rule":          {func(_ *evidence.Record, f *Facts) { f.TimingRule = "timing-9" }, `timing rule "timing-9": this version does not know the rule`},
		"adapter":       {func(_ *evidence.Record, f *Facts) { f.Target.Adapter = "x" }, `meta.json: facts.target.adapter: no adapter is called "x"`},
		"request":       {func(rec *evidence.Record, _ *Facts) { rec.Request = []byte("{") }, "request.json: "},
		"nonce":         {func(_ *evidence.Record, f *Facts) { f.Prompt.Nonce = "Ticket 1." }, `prompt.txt: it does not begin with the nonce "Ticket 1."`},
		"no nonce":      {func(_ *evidence.Record, f *Facts) { f.Prompt.Nonce = "" }, `prompt.txt: it does not begin with the nonce`},
		"ends too far":  {func(_ *evidence.Record, f *Facts) { f.Text.Ends[39]++ }, "meta.json: facts.text.ends: token 39 ends at byte 151"},
		"ends too soon": {func(_ *evidence.Record, f *Facts) { f.Text.Ends = f.Text.Ends[:39] }, "meta.json: facts.text.ends: the tokens end at byte"},
		"samples":       {func(rec *evidence.Record, _ *Facts) { rec.Samples = []byte(`{"form":"x"}`) }, `samples.zst: samples: form "x"`},
		"ends go back":  {func(_ *evidence.Record, f *Facts) { f.Text.Ends[3] = f.Text.Ends[2] }, "meta.json: facts.text.ends: token 3 ends at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			rec, f := sample()
			f.Text.Ends = slices.Clone(f.Text.Ends)
			c.change(rec, f)
			if _, err := Row(rec, f); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	rec, f := sample()
	f.TimingRule = "timing-9"
	if _, err := Row(rec, f); !errors.Is(err, ErrUnknownRule) {
		t.Errorf("%v is not ErrUnknownRule", err)
	}
	for facts, want := range map[string]string{
		"":                       "meta.json: facts: unexpected end of JSON input",
		`{"form":"other"}`:       `meta.json: facts: form "other", want "assay-facts-1"`,
		`{"plan":{"run":"one"}}`: "meta.json: facts: json: cannot unmarshal string",
	} {
		rec.Meta.Facts = []byte(facts)
		if _, err := ReadFacts(rec); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", facts, err, want)
		}
	}
}

func TestContradictions(t *testing.T) {
	rec, _ := sample()
	if bad := Contradictions(rec); len(bad) > 0 {
		t.Error(bad)
	}
	rec.Completion += "x"
	rec.Prompt += "x"
	if got := fmt.Sprint(Contradictions(rec)); got != "[completion.txt: it is not the text of stream.zst prompt.txt: it is not what request.json asks]" {
		t.Error(got)
	}
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

// With the tokenizer at hand the kept counts are counted anew, and a wrong one
// is named, in whatever form it was kept.
func TestRecount(t *testing.T) {
	c := seedlingCounter(t)
	genuine := func() (*evidence.Record, *Facts) {
		rec, f := sample()
		f.Text = CountText(c, rec)
		f.Prompt = CountPrompt(c, rec.Request, f.Prompt.Nonce)
		return rec, f
	}
	if _, f := genuine(); len(f.Text.Ends) != 40 || f.Prompt.Total == nil || *f.Prompt.BeforeNonce < 1 {
		t.Fatalf("%d tokens, prompt %+v", len(f.Text.Ends), f.Prompt)
	}
	for name, tt := range map[string]struct {
		change func(f *Facts)
		want   string
		same   bool // the facts are not changed by it
	}{
		"genuine": {func(*Facts) {}, "[]", true},
		"only ids were kept": {func(f *Facts) {
			f.Text.IDs, f.Text.Ends = make([]int32, 40), nil
		}, "[]", true},
		"other ends":   {func(f *Facts) { f.Text.Ends = append([]int{2}, f.Text.Ends...) }, "[meta.json: facts.text.ends: 41 tokens, but " + seedling.File + " makes 40 of the text, or others]", false},
		"fewer ids":    {func(f *Facts) { f.Text.IDs, f.Text.Ends = make([]int32, 39), nil }, "[meta.json: facts.text.ids: 39 tokens, but " + seedling.File + " makes 40 of the text]", false},
		"none kept":    {func(f *Facts) { f.Text = Text{Why: "none"} }, "[]", true},
		"other prompt": {func(f *Facts) { f.Prompt.Total = new(1) }, "[]", false},
		"no own total": {func(f *Facts) { f.Prompt.Total, f.Prompt.Why = nil, "its own word" }, "[]", true},
		"prompt not counted": {func(f *Facts) {
			f.Prompt = Prompt{Nonce: f.Prompt.Nonce, Why: "no template"}
		}, "[]", true},
	} {
		t.Run(name, func(t *testing.T) {
			rec, f := genuine()
			tt.change(f)
			before, _ := json.Marshal(f)
			if got := fmt.Sprint(f.Recount(c, rec)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			after, _ := json.Marshal(f)
			if same := string(before) == string(after); same != tt.same {
				t.Errorf("facts kept: %v, want %v\n%s\n%s", same, tt.same, before, after)
			}
		})
	}
}

// A run that had no tokenizer is counted later: its verdict becomes what the
// text says, and the row is that of a run which counted at once. One that did
// count is left alone, and so is one whose text can't be counted.
func TestLater(t *testing.T) {
	c := seedlingCounter(t)
	rec, f := sample()
	f.Text = Text{Why: "no tokenizer was given"}
	if r := derived(t, rec, f); *r.CountCheck.Verdict != "agree-same-origin" {
		t.Fatalf("at run time: %s", *r.CountCheck.Verdict)
	}
	r, err := Later(rec, *f, c)
	if err != nil || r == nil || *r.CountCheck.Verdict != "agree-independent" {
		t.Fatalf("later: %+v, %v", r, err)
	}
	if f.Text.Why == "" {
		t.Error("the facts of the run were changed")
	}
	_, counted := sample()
	if want := derived(t, rec, counted); *r.DecodeTokS != *want.DecodeTokS {
		t.Errorf("decode %g, counted at once %g", *r.DecodeTokS, *want.DecodeTokS)
	}
	if r, err := Later(rec, *counted, c); r != nil || err != nil {
		t.Errorf("a run that did count: %v, %v", r, err)
	}
	if r, err := Later(rec, *f, &tokens.Counter{Why: "none"}); r != nil || err != nil {
		t.Errorf("without a tokenizer: %v, %v", r, err)
	}
}

// Whatever a server sends, the row can be written: nothing that it says may stop
// a plan, and nothing may make the reader fail.
func FuzzRow(f *testing.F) {
	rec, _ := sample()
	f.Add(rec.Recording.Body(), rec.Log, rec.MetricsBefore, rec.MetricsAfter)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"timings\":{\"predicted_n\":3,\"predicted_ms\":-1,\"draft_n\":0,\"draft_n_accepted\":9}}\n\n"), []byte("prompt eval time = 9 ms"), []byte("assay_tokens_predicted_total 1e308\n"), []byte("assay_tokens_predicted_total NaN\n"))
	f.Fuzz(func(t *testing.T, body, log, before, after []byte) {
		rec, facts := sample()
		rec.Recording.Reads = nil
		for i := 0; len(body) > 0; i++ {
			n := min(len(body), 20+i%50)
			rec.Recording.Reads = append(rec.Recording.Reads, stream.Read{At: int64(i) * 5e6, Kernel: -1, Bytes: body[:n]})
			body = body[n:]
		}
		rec.Log, rec.MetricsBefore, rec.MetricsAfter = log, before, after
		facts.Text = Text{Tokenizer: "x", Why: "not counted"}
		r := derived(t, rec, facts)
		if bad := row.Validate(r); len(bad) > 0 {
			t.Fatal(bad)
		}
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := row.CheckSchema(row.Written, line); err != nil {
			t.Fatal(err)
		}
	})
}
