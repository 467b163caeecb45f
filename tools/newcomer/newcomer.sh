#!/usr/bin/env bash
# Walks a newcomer's path and says how long it takes: a fresh clone, then the commands
# of README's first block, to the letter, with an empty build cache. The report at its
# end must be there and have a result.
#
#   tools/newcomer/newcomer.sh
#
# SOURCE   what is cloned (default: this repository, at its last commit)
# MODULES  empty: fetch Go's modules anew too (default: those that are there)
# LIMIT    seconds that it may take (default: 300)
# CHROMIUM browser that opens the report (default: chromium of the system, if any)
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
SOURCE=${SOURCE:-$here}
LIMIT=${LIMIT:-300}

work=$(mktemp -d)
cleanup() {
	chmod -R u+w "$work" # Go's modules are read-only
	rm -rf "$work"
}
trap cleanup EXIT
export GOCACHE=$work/build-cache GOFLAGS=-buildvcs=true
[ "${MODULES-there}" ] || export GOMODCACHE=$work/modules

# The first block of README, a command a line.
mapfile -t commands < <(awk '/^```sh/ {on = 1; next} /^```/ {if (on) exit} on' "$here/README.md")
[ "${#commands[@]}" = 3 ] || { echo "newcomer: README begins with ${#commands[@]} commands, want three" >&2 && exit 1; }

cd "$work"
total=0 code=0
for command in "${commands[@]}"; do
	begin=$(date +%s.%N)
	status=0
	eval "${command//URL/"$SOURCE"}" >"$work/out" 2>"$work/err" || status=$?
	took=$(echo "$(date +%s.%N) - $begin" | bc)
	total=$(echo "$total + $took" | bc)
	# "go run" ends with 1 whatever the program's status was, and says that one.
	[ "$status" != 1 ] || status=$(sed -n 's/^exit status \([0-9]*\)$/\1/p' "$work/err" | tail -n 1)
	status=${status:-1}
	printf '%7.1f s  status %d  %s\n' "$took" "$status" "$command"
	case $status in
	0) ;;
	3) grep -hE '^[^ ].*withheld: ' "$work/out" | head -n 3 || true
		code=3 ;; # measured, with figures withheld: a busy machine, or a slow one
	*) cat "$work/out" "$work/err" >&2 && exit 1 ;;
	esac
done
grep -q '<h2 id="h-results">Results</h2>' report.html || { echo "newcomer: report.html has no results" >&2 && exit 1; }
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -n "$CHROMIUM" ]; then
	begin=$(date +%s.%N)
	"$CHROMIUM" --headless --no-sandbox --disable-gpu --screenshot="$work/report.png" "file://$PWD/report.html" >"$work/out" 2>&1
	[ -s "$work/report.png" ] || { cat "$work/out" >&2 && exit 1; }
	took=$(echo "$(date +%s.%N) - $begin" | bc)
	total=$(echo "$total + $took" | bc)
	printf '%7.1f s            the report, opened by %s\n' "$took" "$(basename "$CHROMIUM")"
fi
printf '%7.1f s  in all, on %d processors, load average %s\n' "$total" "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)"
[ "$(echo "$total < $LIMIT" | bc)" = 1 ] || { echo "newcomer: that is more than $LIMIT s" >&2 && exit 1; }
[ "$code" = 0 ] || echo "newcomer: figures were withheld (status 3)"
