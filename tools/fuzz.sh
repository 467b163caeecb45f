#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each.
# Usage: tools/fuzz.sh [TIME]
set -euo pipefail
time=${1:-60s}
cd "$(dirname "$0")/.."
failed=0
while IFS=: read -r file target; do
	dir=$(dirname "$file")
	echo "== $dir $target ($time)"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "./$dir" || failed=1
done < <(grep -rHoE --include='*_test.go' '^func (Fuzz[A-Za-z0-9_]+)' internal | sed -E 's/func //' | sort)
exit $failed
