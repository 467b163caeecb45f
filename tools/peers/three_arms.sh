#!/usr/bin/env bash
# A plan of three arms: our engine and llama.cpp's server, which are started, and a
# server that runs already and is known for nothing but OpenAI's API. It is
# interrupted, taken up again, killed with SIGKILL, and taken up again until it is
# complete. Nothing that was started lives on, and what runs already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh
build_llama_server

mark=three-arms-$$ # in the command line of all that a plan starts, and nowhere else
port=$(free_port)
"$ASSAY" serve -m "$model" --port "$port" -c 1024 -t "$threads" 2>"$work/output" &
server_pid=$!
wait_for "http://127.0.0.1:$port/health" "$work/output"
cat >"$work/plan.yaml" <<END
arms:
  - {name: ours, model: $PWD/$model, threads: $threads, flags: [--alias, $mark]}
  - {name: theirs, target: llama-server, program: [$server], model: $PWD/$model, threads: $threads, flags: [--alias, $mark]}
  - {name: attached, url: "http://127.0.0.1:$port", target: openai, tokenizer: $PWD/$model}
contexts: [512]
max_tokens: 64
repeats: 4
blocks: 2
END

nothing_left() {
	for _ in $(seq 100); do
		pgrep -f -- "$mark" >/dev/null || return 0
		sleep 0.1
	done
	echo "left running after $1:" >&2
	pgrep -fa -- "$mark" >&2
	return 1
}

# signal_at ROWS SIGNAL STATUS ARGS... runs the plan, sends the signal when there are
# so many rows, and demands the exit status.
signal_at() {
	local rows=$1 signal=$2 want=$3 status=0 run_pid
	shift 3
	"$ASSAY" run "$@" --progress plain >"$work/table" 2>"$work/progress" &
	run_pid=$!
	for _ in $(seq 1200); do
		[ "$(wc -l 2>/dev/null <"$work/rows/rows.jsonl" || echo 0)" -lt "$rows" ] || break
		sleep 0.05
	done
	kill -"$signal" "$run_pid"
	wait "$run_pid" || status=$?
	if [ "$status" != "$want" ]; then
		echo "after SIG$signal the plan ended with status $status, want $want" >&2
		cat "$work/progress" >&2
		return 1
	fi
	nothing_left "SIG$signal"
	kill -0 "$server_pid"
}
signal_at 4 INT 130 "$work/plan.yaml" --out "$work/rows"
signal_at 9 KILL 137 --resume "$work/rows"
status=0
"$ASSAY" run --resume "$work/rows" || status=$?
[ "$status" = 0 ] || [ "$status" = 3 ] # figures may be withheld on a busy machine
nothing_left "the end"
kill -0 "$server_pid"

python3 - "$work/rows/rows.jsonl" <<'END'
import collections, json, sys

rows = [json.loads(line) for line in open(sys.argv[1])]
ok = [r for r in rows if r["status"] == "ok"]
measured = collections.Counter((r["arm"], r["engine"]) for r in ok if r["phase"] == "measure")
assert measured == {("ours", "assay"): 4, ("theirs", "llama-server"): 4, ("attached", "openai"): 4}, measured
assert len({(r["cell"], r["repeat"]) for r in ok if r["phase"] == "measure"}) == 12
assert len({r["row_id"] for r in rows}) == len(rows)
assert all(r["identities_failed"] == [] and r["count_check"]["verdict"] == "agree-independent" for r in ok)
found = [r["openai"]["found"] for r in ok if r["arm"] == "attached"]
assert all(f["usage"] == "in a frame of its own" and f["terminator"] == "[DONE]" and f["timings"].startswith("an object with ") for f in found), found[0]
starts = collections.defaultdict(set)
for r in ok:
    starts[r["arm"]].add(r["start_id"])
assert len(starts["ours"]) >= 2 and len(starts["theirs"]) >= 2 and starts["attached"] == {None}, starts
print(f"{len(rows)} rows, {len(ok)} ok, starts: ours {len(starts['ours'])}, theirs {len(starts['theirs'])}")
END
"$ASSAY" verify "$work/rows" >/dev/null
echo "three arms: interrupted, killed, taken up, complete"
