#!/usr/bin/env bash
# Measures another client beside ours: guidellm (from PyPI) against the same
# server, the same schedules and the same stamps as `assay selftest`.
#
#   tools/peers/selftest_peer.sh [--levels 1@50,10@2000] [--window 4] [--ttft 0.5] [--runs 5]
#
# The package pulls in torch: 6 GB in the cache folder. Run it on an idle
# machine, after `assay selftest` and not beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

version=0.8.1
venv=$PEERS/guidellm-$version
if ! "$venv/bin/python" -c 'import guidellm' 2>/dev/null; then
	python3 -m venv --clear "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "guidellm==$version"
fi

port=$(free_port)
url=http://127.0.0.1:$port
"$ASSAY" selftest server --port "$port" 2>"$work/log" &
server_pid=$!
wait_for "$url/health" "$work/log"
# No model is fetched from anywhere: the client counts what the server says.
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
"$venv/bin/python" tools/peers/selftest_peer.py --url "$url" --work "$work" "$@"
