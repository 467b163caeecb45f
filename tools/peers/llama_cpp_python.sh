#!/usr/bin/env bash
# Measures llama-cpp-python's server with "assay run" and demands that the counts
# agree: a server with OpenAI's API and nothing more, which ignores ignore_eos.
#
# The package is installed from PyPI into a virtual environment in $PEERS, once;
# it builds llama.cpp (about ten minutes on two cores). Later calls take seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

build_llama_cpp_python

port=$(free_port)
"$venv/bin/python" -m llama_cpp.server --model "$model" --host 127.0.0.1 --port "$port" --n_ctx 2048 --n_threads "$threads" \
	>"$work/output" 2>&1 &
server_pid=$!
wait_for "http://127.0.0.1:$port/v1/models" "$work/output"

# Its streams hold no usage: what it counts is in its log.
measure "http://127.0.0.1:$port" --tokenizer "$model" --log "$work/output"
agree agree-independent 4
grep -c '"engine":"llama-cpp-python"' "$work/rows/rows.jsonl" | grep -qx 4
kill "$server_pid" && wait "$server_pid" || true
server_pid=
rm -r "$work/rows"

# Started, asked and stopped by the adapter.
status=0
"$ASSAY" run --target llama-cpp-python --program "$venv/bin/python" --ctx 512 --repeats 3 --out "$work/rows" -- \
	--model "$model" --n_threads "$threads" || status=$?
[ "$status" = 0 ] || [ "$status" = 3 ]
agree agree-independent 4
if pgrep -f "^$venv/bin/python" >/dev/null; then
	echo "a server was left running:" >&2
	pgrep -fa "^$venv/bin/python" >&2
	exit 1
fi
echo "llama-cpp-python: all counts agree"
