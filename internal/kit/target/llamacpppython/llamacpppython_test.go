package llamacpppython

import (
	"strings"
	"testing"

	"assay/internal/kit/target"
)

// The library's lines, as llama-cpp-python logs them: 31 passes for 32 tokens.
func TestLlamaCppPythonLog(t *testing.T) {
	log := "llama_perf_context_print:        load time =      58.16 ms\n" +
		"llama_perf_context_print: prompt eval time =      58.10 ms /    90 tokens (    0.65 ms per token,  1549.05 tokens per second)\n" +
		"llama_perf_context_print:        eval time =     310.00 ms /    31 runs   (   10.00 ms per token,   100.00 tokens per second)\n" +
		"llama_perf_context_print:       total time =     400.00 ms /   121 tokens\n"
	got, err := Adapter{}.ReadLog([]byte(log))
	if err != nil || *got.Generated != 31 || got.Offset != 1 || *got.PromptN != 90 || *got.DecodeMS != 310 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		s    target.Settings
		want string
	}{
		{target.Settings{Model: "m.gguf", Port: 1, Context: 512}, "python3 -m llama_cpp.server --model m.gguf --host 127.0.0.1 --port 1 --n_ctx 512"},
		{
			target.Settings{Program: []string{"/venv/bin/python"}, Port: 1, Context: 512, Threads: new(2), GPULayers: new(9), Args: []string{"--config_file", "c.json"}},
			"/venv/bin/python -m llama_cpp.server --host 127.0.0.1 --port 1 --n_ctx 512 --n_threads 2 --n_threads_batch 2 --n_gpu_layers 9 --config_file c.json",
		},
	} {
		got, err := Adapter{}.Command(c.s)
		if err != nil || strings.Join(got.Argv, " ") != c.want {
			t.Errorf("%q, %v\nwant %q", got.Argv, err, c.want)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte("prompt eval time =      58.10 ms /    90 tokens (    0.65 ms per token,  1549.05 tokens per second)\neval time =     310.00 ms /    31 runs   (   10.00 ms per token,   100.00 tokens per second)\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		rec, err := Adapter{}.ReadLog(log)
		if err == nil && (rec.Line == "" || rec.Offset != 1) {
			t.Errorf("%+v", rec)
		}
	})
}
