#!/usr/bin/env bash
# Runs the Linux binary where there is nothing else: in a folder of its own, as the
# root of the file system, without /proc, /sys, /dev, /tmp, HOME or PATH. It must
# serve, generate, measure a server and verify all the same; to start an engine that
# it measures it needs /proc and /dev/null, and says so. Needs root, for chroot.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ] || [ "$(uname -s)" != Linux ]; then
	echo "chroot: skipped, only root on Linux may change the root" >&2
	exit 0
fi
chroot=$(command -v chroot)
root=$(mktemp -d)
server=
cleanup() {
	if [ -n "$server" ]; then kill -9 "$server" 2>/dev/null || true; fi
	rm -rf "$root" "$root.out" "$root.err"
}
trap cleanup EXIT
fail() {
	echo "chroot: $*" >&2
	sed 's/^/  /' "$root.out" "$root.err" >&2
	exit 1
}
# As a user without rights, by the number that distroless gives it.
inside() { env -i "$chroot" --userspec=65532:65532 "$root" /assay "$@"; }
# run STATUSES ARGS... runs a command, which must end with one of the statuses, and
# never with a panic.
run() {
	local want=$1 got=0
	shift
	timeout 300 env -i "$chroot" --userspec=65532:65532 "$root" /assay "$@" >"$root.out" 2>"$root.err" </dev/null || got=$?
	case "|$want|" in *"|$got|"*) ;; *) fail "assay $*: status $got, want $want" ;; esac
	if grep -q 'panic:\|goroutine [0-9]* \[' "$root.err"; then fail "assay $*: it panicked"; fi
	echo "chroot: assay $*: status $got"
}
says() { grep -q "$1" "$root.out" || fail "it does not say $1"; }

CGO_ENABLED=0 go build -trimpath -o "$root/assay" ./cmd/assay
cp models/seedling/formats/seedling-15m-q8_0.gguf "$root/model.gguf"
mkdir "$root/rows" "$root/key"
chown 65532:65532 "$root/rows" "$root/key"
chmod 755 "$root" "$root/assay"
chmod 644 "$root/model.gguf"

run 0 version
run 0 version --json
says '"platform":"linux/'
run 0 --help
run 0 generate -p 'Once upon a time' --max-tokens 8
[ "$(wc -c <"$root.out")" -gt 8 ] || fail "it generated nothing"
run 0 generate -m /model.gguf -p 'Once' --max-tokens 4
run 0 inspect /model.gguf --tensors=false
run 0 models
says 'free memory is unknown'
run 0 fit /model.gguf
says unknown
run 0 tokenize 'some text'
run 0 targets
run 0 schema
run '0|4' doctor --seconds 0
run 1 serve -m /nothing.gguf
run 1 health --port 1

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
env -i "$chroot" --userspec=65532:65532 "$root" /assay serve -m /model.gguf --port "$port" >"$root.out" 2>"$root.err" &
server=$!
for _ in $(seq 300); do
	if inside health --port "$port" >/dev/null 2>&1; then break; fi
	kill -0 "$server" 2>/dev/null || fail "the server ended"
	sleep 0.1
done
python3 - "$port" <<'PY'
import json, sys, urllib.request
body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "stream": True}).encode()
r = urllib.request.Request("http://127.0.0.1:%s/v1/completions" % sys.argv[1], body, {"Content-Type": "application/json"})
text = urllib.request.urlopen(r, timeout=60).read().decode()
assert text.count('"text":"') >= 2 and "[DONE]" in text, text
PY
run '0|3' run --url "http://127.0.0.1:$port" --tokenizer /model.gguf --ctx 512 --repeats 2 --warmups 1 --max-tokens 32 --when-unfit measure --out /rows/a
grep -c '"status":"ok"' "$root/rows/a/rows.jsonl" | grep -qx 3 || fail "want 3 rows of status ok"
grep -c '"verdict":"agree-independent"' "$root/rows/a/rows.jsonl" | grep -qx 3 || fail "want 3 counts that agree"
run '0|3' verify --tokenizer /model.gguf /rows/a
run '0|3' summary /rows/a
run 0 report /rows/a -o /rows/report.html

kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ "$status" = 0 ] || fail "serve: status $status after SIGTERM"
echo "chroot: assay serve: streamed, and ended by SIGTERM"

# An engine is started only where it can be stopped for certain: with /proc.
run 4 run -m /model.gguf --out /rows/b
grep -q 'without /proc' "$root.err" || fail "it does not say that /proc is missing"
mkdir "$root/proc" "$root/dev"
touch "$root/dev/null"
if unshare --mount true 2>/dev/null; then
	got=0
	# shellcheck disable=SC2016 # for that shell to expand
	unshare --mount -- sh -c 'mount -t proc proc "$1/proc" && mount --bind /dev/null "$1/dev/null" && exec env -i "$2" --userspec=65532:65532 "$1" /assay run -m /model.gguf --ctx 512 --repeats 2 --warmups 1 --max-tokens 32 --when-unfit measure --out /rows/c' - "$root" "$chroot" >"$root.out" 2>"$root.err" || got=$?
	case $got in 0 | 3) ;; *) fail "assay run with /proc: status $got" ;; esac
	grep -c '"status":"ok"' "$root/rows/c/rows.jsonl" | grep -qx 3 || fail "want 3 rows of status ok"
	run '0|3' verify --tokenizer /model.gguf /rows/c
	echo "chroot: assay run starts an engine where there are /proc and /dev/null only: status $got"
fi
echo "chroot: all of it works without a file system"
