package assay

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

func TestAssayLog(t *testing.T) {
	log := "assay serve: threads 2 (1 workers + the caller), context 4096, slots 1, model Seedling IQ3_S\n" +
		"assay serve: listening on http://127.0.0.1:40001\n" +
		"assay serve: request 7: prompt 515 tokens = 3 reused + 512 read in 812.34 ms (630.28 tok/s), 128 generated in 402.12 ms (315.82 tok/s), finish length\n"
	threads, err := Adapter{}.ReadThreads([]byte(log))
	if err != nil || *threads.Workers != 1 || !*threads.HostThread {
		t.Errorf("threads %+v, %v", threads, err)
	}
	got, err := Adapter{}.ReadLog([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	got.Line = ""
	want := target.LogRecord{
		PromptN: new(512), Cached: new(3), PromptMS: new(812.34), PromptRate: new(630.28),
		Generated: new(128), DecodeMS: new(402.12), DecodeRate: new(315.82), Finish: new("length"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestAssayCommit(t *testing.T) {
	for info, want := range map[string]string{"assay-0.1.0-dev-0123abcde": "0123abcde", "assay-0.1.0-dev-unknown": "", "": ""} {
		p := &target.Probe{Answers: map[string]target.Answer{"/props": {Status: 200, Body: []byte(`{"build_info":"` + info + `"}`)}}}
		id := Adapter{}.Identify(p)
		if (id.Commit == nil) != (want == "") || id.Commit != nil && *id.Commit != want || (id.Commit == nil) != (id.Why["commit"] != "") {
			t.Errorf("build_info %q: commit %v, why %q", info, id.Commit, id.Why["commit"])
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte("assay serve: request 7: prompt 515 tokens = 3 reused + 512 read in 812.34 ms (630.28 tok/s), 128 generated in 402.12 ms (315.82 tok/s), drafts accepted 3 of 9, finish length\n"), []byte("assay_tokens_predicted_total 5\n"))
	f.Fuzz(func(t *testing.T, log, metrics []byte) {
		a := &target.Account{Log: log, Stream: &stream.Completion{FinishFrame: -1, FinishAt: -1}, Before: nil, After: metrics}
		a.Record, a.LogErr = Adapter{}.ReadLog(log)
		a.Delta, a.DeltaErr = Adapter{}.Metered(metrics, metrics)
		if _, err := json.Marshal((Adapter{}).Block(a).Fields); err != nil {
			t.Errorf("the block does not encode: %v", err)
		}
		_, _ = Adapter{}.ReadThreads(log)
	})
}

// How many tokens can arrive at once is judged by how many are drafted.
func TestDraftWindow(t *testing.T) {
	for params, want := range map[string]string{
		`"speculative.types":"suffix","speculative.n_max":8`: "8",
		`"speculative.types":"none","speculative.n_max":0`:   "",
		`"speculative.types":"none","speculative.n_max":16`:  "",
		`"speculative.n_max":16`:                             "", // older: it is said also where nothing is drafted
		`"speculative.types":"mtp","speculative.n_max":-1`:   "",
		`"speculative.types":"mtp","speculative.n_max":1e99`: "1024",
	} {
		p := &target.Probe{Answers: map[string]target.Answer{"/props": {Status: 200, Body: []byte(`{"default_generation_settings":{"params":{` + params + `}}}`)}}}
		if got := (Adapter{}).Identify(p).Found[target.DraftWindow]; got != want {
			t.Errorf("%s: %q, want %q", params, got, want)
		}
	}
}
