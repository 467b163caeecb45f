#!/usr/bin/env bash
# Measures llama.cpp's own server with "assay run" and demands that all counts
# agree: the check against a server that no one here wrote.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

build_llama_server

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
kill "$server_pid" && wait "$server_pid" || true
server_pid=

# Started, asked and stopped by the adapter, at 1K and 4K, without drafts and with
# those of an n-gram speculator. Its four counts agree, none of its numbers
# contradict each other, and nothing came from a cache.
by_adapter() {
	local status=0
	rm -r "$work/rows"
	"$ASSAY" run --target llama-server --program "$server" --ctx 1K,4K --repeats 3 --out "$work/rows" -- \
		-m "$model" -t "$threads" -tb "$threads" "$@" || status=$?
	case $status in
	0 | 3) ;;
	*) echo "assay run ended with status $status" >&2 && return 1 ;;
	esac
	agree agree-independent 8
	python3 - "$work/rows/rows.jsonl" "$@" <<'END'
import json, sys

rows = [json.loads(line) for line in open(sys.argv[1])]
drafting = "--spec-type" in sys.argv
for r in rows:
    b, t, n = r["llamacpp"], r["server_timings"], r["completion_tokens"]
    name = r["row_id"]
    assert r["identities_failed"] == [], (name, r["identities_failed"])
    assert sorted(r["count_check"]["against"]) == ["/metrics", "log", "text by seedling-15m-q8_0.gguf", "timings.predicted_n"], (name, r["count_check"])
    assert n == b["engine_generated"] == b["metrics"]["engine_generated"] == r["requested"]["max_tokens"], name
    # The rendered prompt, counted by us, is what the server read, all of it anew.
    assert r["prompt_tokens"] == r["prompt_tokens_expected"] == b["engine_prompt_n"] == b["metrics"]["prompt_n"], name
    assert r["cached_tokens"] == b["reused"] == b["metrics"]["reused"] == t["cache_n"] == 0, name
    assert b["cache_prompt"] is False and b["cache_line"] is None, name
    assert b["server"]["cache_ram"].startswith("off, as the log says: "), (name, b["server"])
    assert r["threads"]["workers"] == 0 and r["threads"]["host_thread"], name
    assert b["truncated"] is False and b["positions"] >= r["prompt_tokens"] + n - 1, name
    if drafting:
        assert b["drafts_offered"] == b["metrics"]["drafts_offered"] == t["draft_n"] if t["draft_n"] else b["drafts_offered"] == 0, name
        assert sum(b["accepted_at"] or []) == b["drafts_accepted"], name
    else:
        assert b["drafts_offered"] == 0 and b["tokens_per_round"] is None, name
if drafting:
    drafted = [r for r in rows if r["llamacpp"]["drafts_accepted"]]
    assert drafted, "no draft was accepted in any run"
    for r in drafted:
        assert 1 < r["llamacpp"]["tokens_per_round"] == r["tokens_per_round"], r["row_id"]
END
	nothing_left
}

nothing_left() {
	if pgrep -f "^$server" >/dev/null; then
		echo "a llama-server was left running:" >&2
		pgrep -fa "^$server" >&2
		return 1
	fi
}
by_adapter
by_adapter --spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 8 --log-jsonl
"$ASSAY" verify "$work/rows" >/dev/null

# What can't be measured is said before anything is.
refused() {
	local want=$1 said
	shift
	if said=$("$ASSAY" run --target llama-server --program "$server" --repeats 1 --out "$work/none" "$@" 2>&1); then
		echo "want an error: $want" >&2
		return 1
	fi
	rm -rf "$work/none"
	grep -q -- "$want" <<<"$said" || { echo "want $want; got: $said" >&2 && return 1; }
}
refused 'does not take --no-such-flag' -- -m "$model" --no-such-flag
refused 'need a context of 4[0-9]*, but the target has 2048: start it with a larger one (-c [45][0-9]*)' --ctx 4K -- -m "$model" -c 2048

echo "llama-server: all counts agree"
