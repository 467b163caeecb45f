#!/usr/bin/env bash
# Makes the manual pages and the completions of shells, from the commands' own
# help. Usage: packaging/generate.sh DIR
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:?usage: packaging/generate.sh DIR}
rm -rf "$dir/man" "$dir/completions"
mkdir -p "$dir/man" "$dir/completions"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The build must be for this machine, whatever is being released.
env -u GOOS -u GOARCH CGO_ENABLED=0 go build -buildvcs=false -ldflags "-X assay/internal/cli.date=$(git log -1 --format=%cI 2>/dev/null || true)" -o "$work/assay" ./cmd/assay
"$work/assay" man "$dir/man"
"$work/assay" completion bash >"$dir/completions/assay.bash"
"$work/assay" completion zsh >"$dir/completions/_assay"
"$work/assay" completion fish >"$dir/completions/assay.fish"
