package cli

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/plan"
	"assay/models/seedling"
)

// What the flags and the arguments after "--" make of the engine to start.
func TestCommandArm(t *testing.T) {
	for _, tc := range []struct {
		name   string
		o      runOptions
		flags  []string // those that were given
		more   string   // after "--"
		line   string   // the command line, or
		err    string   // what is wrong
		arm    string
		drafts bool
	}{
		{
			name: "ours", o: runOptions{adapter: "auto", modelFile: seedling.Name, threads: 2},
			line: "assay serve --model builtin:seedling --host 127.0.0.1 --port 0 --parallel 1 --context 1024 --threads 2", arm: "assay-builtin-seedling-t2",
		},
		{
			name: "llama-server", o: runOptions{adapter: "llama-server", modelFile: seedling.Name}, more: "-m /m/x.gguf -ngl 99 -t 4",
			line: "llama-server -m /m/x.gguf --host 127.0.0.1 --port 0 -np 1 -c 1024 -fit off --no-cache-prompt --cache-ram 0 --metrics -ngl 99 -t 4", arm: "llama-server-x",
		},
		{
			name: "its own context and slots", o: runOptions{adapter: "llama-server", modelFile: "y.gguf", program: "/opt/ls"}, flags: []string{"model-file"}, more: "--ctx-size=8192 -np 2 --spec-type ngram-simple",
			line: "/opt/ls -m y.gguf --host 127.0.0.1 --port 0 -fit off --no-cache-prompt --cache-ram 0 --metrics --ctx-size=8192 -np 2 --spec-type ngram-simple", arm: "llama-server-y", drafts: true,
		},
		{
			name: "fetched", o: runOptions{adapter: "llama-server", modelFile: seedling.Name}, more: "-hf ggml-org/small",
			line: "llama-server --host 127.0.0.1 --port 0 -np 1 -c 1024 -fit off --no-cache-prompt --cache-ram 0 --metrics -hf ggml-org/small", arm: "llama-server-small",
		},
		{
			name: "a model by its name", o: runOptions{adapter: "vllm", modelFile: seedling.Name, model: "org/m"}, flags: []string{"model"}, more: "--dtype auto",
			line: "vllm serve org/m --host 127.0.0.1", arm: "vllm-m",
		},
		{name: "a name for a file", o: runOptions{adapter: "llama-server", modelFile: seedling.Name, model: "org/m"}, flags: []string{"model"}, err: "--model: llama-server is started with a file (want -m FILE)"},
		{name: "no model", o: runOptions{adapter: "llama-server", modelFile: seedling.Name}, err: "--target llama-server: which model? (want -m FILE)"},
		{name: "two models", o: runOptions{adapter: "llama-server", modelFile: "y.gguf"}, flags: []string{"model-file"}, more: "-m x.gguf", err: "--model-file: the arguments after -- name a model as well"},
		{name: "built-in", o: runOptions{adapter: "llama-server", modelFile: seedling.Name}, flags: []string{"model-file"}, err: "only our own engine has the built-in model"},
		{name: "port", o: runOptions{adapter: "llama-server"}, more: "-m x --port 1", err: "--port: it is set by assay run"},
		{name: "key", o: runOptions{adapter: "llama-server"}, more: "-m x --api-key=secret", err: "--api-key: a key on a command line would reach the rows"},
		{name: "unknown", o: runOptions{adapter: "olama"}, err: `no adapter is called "olama"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.given = func(flag string) bool { return slices.Contains(tc.flags, flag) }
			arm, err := tc.o.commandArm(strings.Fields(tc.more))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "secret") || exitCode(err) != ExitUsage {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(commandLine(&arm, plan.Launch{Context: 1024}), " ")
			if got != tc.line && !(tc.o.adapter == "vllm" && strings.HasPrefix(got, tc.line)) {
				t.Errorf("got  %s\nwant %s", got, tc.line)
			}
			if arm.Name != tc.arm || arm.Drafts != tc.drafts {
				t.Errorf("arm %q, drafts %v; want %q, %v", arm.Name, arm.Drafts, tc.arm, tc.drafts)
			}
		})
	}
}
