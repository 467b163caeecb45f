package lmstudio

import (
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

const models = `{"object":"list","data":[
 {"id":"other","state":"not-loaded","quantization":"Q4_K_M","compatibility_type":"gguf","max_context_length":4096},
 {"id":"m","state":"loaded","quantization":"Q8_0","compatibility_type":"gguf","max_context_length":32768,"loaded_context_length":8192}]}`

// The model that is loaded is asked for: another one would be loaded within the
// first run.
func TestIdentify(t *testing.T) {
	p := &target.Probe{Answers: map[string]target.Answer{
		"/v1/models":     {Status: 200, Body: []byte(`{"data":[{"id":"other"},{"id":"m"}]}`)},
		"/api/v0/models": {Status: 200, Body: []byte(models)},
	}}
	if !(Adapter{}).Recognise(p) {
		t.Error("not recognised")
	}
	id := Adapter{}.Identify(p)
	if id.Model != "m" || *id.Format != "Q8_0" || *id.Context != 8192 {
		t.Errorf("%+v", id)
	}
	p.Answers["/api/v0/models"] = target.Answer{Status: 200, Body: []byte(strings.ReplaceAll(models, `"loaded"`, `"not-loaded"`))}
	if id := (Adapter{}).Identify(p); id.Context != nil || !strings.Contains(id.Why["context"], "load one") {
		t.Errorf("nothing is loaded: %+v", id)
	}
}

func TestBlock(t *testing.T) {
	c := &stream.Completion{
		FinishReason: "length", Usage: &stream.Usage{Completion: new(9)},
		Objects: map[string]json.RawMessage{"stats": []byte(`{"tokens_per_second":57.69,"time_to_first_token":0.1,"generation_time":0.156}`)},
	}
	b := Adapter{}.Block(&target.Account{Stream: c, Asked: new(10)})
	f := b.Fields.(*Fields)
	if *f.TTFTMS != 100 || *f.GenerationMS != 156 || *f.TokensPerSecond != 57.69 || len(b.Failed) != 1 {
		t.Errorf("%+v, failed %q", f, b.Failed)
	}
	c.FinishReason = "stop"
	if b := (Adapter{}).Block(&target.Account{Stream: c, Asked: new(10)}); len(b.Failed) != 0 {
		t.Errorf("one less than the limit, and ended by itself: %q", b.Failed)
	}
}
