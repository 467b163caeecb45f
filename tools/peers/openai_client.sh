#!/usr/bin/env bash
# Runs the official openai Python client against `assay serve`: a client that no
# one here wrote finds the answers, streams and errors that it expects.
#
#   tools/peers/openai_client.sh [path of the assay binary]
#
# Without a path the binary is built. The client is installed once, from PyPI,
# into a virtual environment in the cache folder ($XDG_CACHE_HOME, ~/.cache).
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

assay=${1:-$work/assay}
if [ $# -eq 0 ]; then
  CGO_ENABLED=0 go build -o "$assay" ./cmd/assay
fi

version=3.57.0
venv=${XDG_CACHE_HOME:-$HOME/.cache}/assay-peers/openai-$version
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import openai' 2>/dev/null; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "openai==$version"
fi

# start NAME ARGS...: a server on a free port; its address goes to $url.
start() {
  local name=$1
  shift
  "$assay" serve --port 0 -c 1024 "$@" 2>"$work/$name.log" &
  pids+=($!)
  for _ in $(seq 600); do
    url=$(sed -n 's/^assay serve: listening on //p' "$work/$name.log")
    [ -n "$url" ] && return
    sleep 0.1
  done
  echo "openai_client: assay serve was not ready within 60 s:" >&2
  cat "$work/$name.log" >&2
  return 1
}

start open -np 2
open=$url
ASSAY_API_KEY=right-key start guarded --alias guarded-model
"$venv/bin/python" tools/peers/openai_client.py "$open" "$url" right-key
