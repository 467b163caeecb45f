#!/usr/bin/env bash
# Looks at the view of "assay run" as a person does: in a terminal of tmux, at 80x24
# and 200x50, resized while it runs, interrupted once and twice. What is measured are
# two servers of "assay selftest", which play streams at 50 and 25 tokens a second.
#
#   tools/progress/tmux.sh [OUT]
#
# OUT keeps what was on the screen, as text; without it that is thrown away.
#
# ASSAY     binary to test (default: built here)
#
# tmux is installed by apt if it is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v tmux >/dev/null || { apt-get update && apt-get install -y --no-install-recommends tmux; }

work=$(mktemp -d)
terminals=0
t() { tmux -L "assay-progress-$$-$terminals" "$@"; }
cleanup() {
	t kill-server 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
out=${1:-$work/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
ASSAY=${ASSAY:-$work/assay}
[ -x "$ASSAY" ] || go build -o "$ASSAY" ./cmd/assay
cd "$work"

cat >plan.yaml <<END
name: two servers
arms:
  - name: quick
    command: ["$ASSAY", selftest, server, --port, "\$(port)"]
    model_name: "selftest?ttft=300ms&gap=20ms"
  - name: slow
    command: ["$ASSAY", selftest, server, --port, "\$(port)"]
    model_name: "selftest?ttft=600ms&gap=40ms"
contexts: [512]
repeats: 6
blocks: 3
max_tokens: 64
END

fail() {
	echo "progress: $*" >&2
	echo "the screen:" >&2
	t capture-pane -p -t x >&2 || true
	exit 1
}
screen() { t capture-pane -p -t x; }
show() { t display -p -t x "$1"; }
# until_shown PATTERN [SECONDS]: waits until the screen has it.
until_shown() {
	for _ in $(seq $((${2:-30} * 10))); do
		screen | grep -qE -- "$1" && return
		sleep 0.1
	done
	fail "no $1 within ${2:-30} s"
}
# begin WIDTH HEIGHT [VARIABLE=VALUE]: a shell in a terminal of that size.
begin() {
	t kill-server 2>/dev/null || true
	terminals=$((terminals + 1)) # a server of its own: the last one may still be ending
	t -f /dev/null new-session -d -s x -x "$1" -y "$2" env PS1='$ ' ${3:+"$3"} bash --norc
	until_shown '^\$'
	t send-keys -t x "stty -a > before; clear" Enter
	sleep 0.3
}
run() {
	rm -rf rows
	t send-keys -t x "$ASSAY run plan.yaml --out rows $*; echo status \$?; stty -a > after" Enter
}
# sound WIDTH HEIGHT NAME: one whole view, no wider than the terminal, kept as NAME.
sound() {
	[ "$(show '#{pane_width}x#{pane_height}')" = "$1x$2" ] || fail "the terminal is $(show '#{pane_width}x#{pane_height}')"
	[ "$(show '#{alternate_on}')" = 0 ] || fail "the alternate screen is on"
	screen >"$out/$3.txt"
	[ "$(grep -c '^assay: two servers' "$out/$3.txt")" = 1 ] || fail "$3: want one view"
	grep -qE '^[0-9]+ of 18 runs' "$out/$3.txt" || fail "$3: how far it is does not stand there"
	grep -qE '^>.* (quick|slow) ' "$out/$3.txt" || fail "$3: the list of starts does not stand there"
	grep -qE 'TTFT ms +prompt tok/s +decode tok/s' "$out/$3.txt" || fail "$3: no figures"
}
# restored: the shell has its terminal as it was.
restored() {
	sleep 0.3
	diff <(sed 's/rows [0-9]*; columns [0-9]*;//' before) <(sed 's/rows [0-9]*; columns [0-9]*;//' after) || fail "the terminal's modes were changed"
	[ "$(show '#{cursor_flag}')" = 1 ] || fail "the cursor is hidden"
	[ "$(show '#{alternate_on}')" = 0 ] || fail "the alternate screen is on"
}

# At 80x24, resized while it runs, to the end of the plan.
begin 80 24
t pipe-pane -t x "cat > $work/drawn"
run
until_shown 'quick 512 run 2 +([0-9]|withheld)'
sound 80 24 80x24
t resize-window -t x -x 200 -y 50
until_shown 'slow 512 run 1 +([0-9]|withheld)'
sound 200 50 resized-200x50
t resize-window -t x -x 80 -y 24
until_shown 'slow 512 run 2 +([0-9]|withheld)'
sound 80 24 resized-80x24
t send-keys -t x "typed" Enter Enter # which must not break the view

# How often it is drawn: never in the three seconds of a run, never more often than
# four times a second.
last=$(stat -c %s drawn) drawn=0 longest=0
ms() { echo $(($(date +%s%N) / 1000000)); }
begun=$(ms) since=$(ms)
while now=$(ms) && [ $((now - begun)) -lt 10000 ]; do
	size=$(stat -c %s drawn)
	[ $((now - since)) -le "$longest" ] || longest=$((now - since))
	[ "$size" = "$last" ] || { drawn=$((drawn + 1)) last=$size since=$now; }
	sleep 0.05
done
echo "in 10 s it was drawn $drawn times; longest stillness $longest ms"
[ "$longest" -ge 2500 ] || fail "it was drawn while a run was timed"
[ "$drawn" -le 40 ] || fail "it was drawn $drawn times in 10 s"
sound 80 24 typed
until_shown '^status [03]$' 90
t capture-pane -p -t x -S -60 >"$out/end-80x24.txt"
grep -q '^assay: 18 of 18 runs in' "$out/end-80x24.txt" || fail "the last state is not left behind"
restored

# At 200x50, Ctrl-C once: the run at hand is finished.
begin 200 50 NO_COLOR=1
run --json '>' json
until_shown 'quick 512 run 2 +([0-9]|withheld)'
sound 200 50 200x50
t capture-pane -e -p -t x | grep -qE $'\e\\[[0-9;]*(3[0-7]|9[0-7])m' && fail "colours though NO_COLOR is set"
until_shown '^slow 512 .*since'
sleep 0.8
t send-keys -t x C-c
until_shown 'finishing the run at hand' 2
screen >"$out/interrupted-200x50.txt"
until_shown '^status 130$'
restored
tail -n 1 rows/rows.jsonl | grep -q '"status":"ok"' || fail "the run at hand was not finished"
grep -q '"arm":"slow"' <(tail -n 1 rows/rows.jsonl) || fail "one more was made"
python3 -c 'import json, sys; json.load(open("json"))' || fail "stdout is not clean"

# Twice: it is ended at once.
begin 80 24
run
until_shown '^slow 512 .*since'
sleep 0.5
t send-keys -t x C-c
until_shown 'finishing the run at hand' 2
t send-keys -t x C-c
until_shown '^status 130$' 5
restored
tail -n 1 rows/rows.jsonl | grep -q '"status":"stopped"' || fail "the run at hand was not stopped"

# A request to terminate.
begin 80 24
run
until_shown '^quick 512 .*since'
kill -TERM "$(pgrep -f -- "^$ASSAY run plan.yaml --out rows")"
until_shown '^status 130$' 5
restored
echo "progress: all as it should be"
