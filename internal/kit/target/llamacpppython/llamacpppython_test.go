package llamacpppython

import "testing"

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
