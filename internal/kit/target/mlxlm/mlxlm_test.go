package mlxlm

import (
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

func TestBlock(t *testing.T) {
	b := Adapter{}.Block(&target.Account{Stream: &stream.Completion{Fingerprint: "0.32.0-0.31.1-macOS-26.1-arm64-arm-64bit-applegpu_g17s"}})
	f := b.Fields.(*Fields)
	if *f.Version != "0.32.0" || *f.MLX != "0.31.1" {
		t.Errorf("version %s, MLX %s", *f.Version, *f.MLX)
	}
	b = Adapter{}.Block(&target.Account{Stream: &stream.Completion{}})
	if f := b.Fields.(*Fields); f.Version != nil || f.Fingerprint != nil || b.Why["fingerprint"] == "" {
		t.Errorf("%+v", f)
	}
}

// Its /health is good before the model is there, so a token is asked for.
func TestReadiness(t *testing.T) {
	r := Adapter{}.Readiness()
	if r.Method != "POST" || r.Path != target.ChatPath || !strings.Contains(r.Body, `"max_tokens":1`) {
		t.Errorf("%+v", r)
	}
}

func TestCommand(t *testing.T) {
	if _, err := (Adapter{}).Command(target.Settings{Threads: new(2)}); err == nil {
		t.Error("threads can't be set, and no error")
	}
	c, err := Adapter{}.Command(target.Settings{Model: "m", Port: 8080, Context: 4096})
	if got := strings.Join(c.Argv, " "); err != nil || got != "mlx_lm.server --model m --host 127.0.0.1 --port 8080 --decode-concurrency 1 --prompt-concurrency 1" {
		t.Errorf("%s, %v", got, err)
	}
}
