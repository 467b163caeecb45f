#!/usr/bin/env bash
# What this machine can tell of the others that Assay is built for: that all code and
# all tests pass go vet for Linux on arm64 and for macOS; and, where qemu-user is
# installed (Debian's qemu-user-static), that the arm64 binary starts, says that it has
# no fast kernels, generates the very tokens of this machine, measures itself, and that
# the tests of formats, kernels and the forward pass hold.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0
for target in linux/arm64 darwin/amd64 darwin/arm64; do
	GOOS=${target%/*} GOARCH=${target#*/} go vet ./...
	echo "platforms: $target: go vet finds nothing"
done
if GOOS=windows go build -o "$work/assay.exe" ./cmd/assay 2>/dev/null; then
	echo "platforms: windows builds: docs/install.md says that it does not" >&2
	exit 1
fi

if [ "$(go env GOARCH)" = arm64 ]; then
	qemu="env"
elif ! qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64); then
	echo "platforms: arm64 is not run: there is no qemu-aarch64 (apt install qemu-user-static)" >&2
	exit 0
fi
export GOARCH=arm64
go build -o "$work/assay" ./cmd/assay
GOARCH=$(go env GOHOSTARCH) go build -o "$work/native" ./cmd/assay
"$qemu" "$work/assay" version | tee "$work/version"
grep -q linux/arm64 "$work/version"
ask=(-p 'Once upon a time' --max-tokens 64 --temp 0)
time "$qemu" "$work/assay" generate "${ask[@]}" >"$work/text" 2>"$work/said"
cat "$work/said"
grep -q 'no fast kernels for this processor (arm64): plain Go computes, many times slower' "$work/said"
"$work/native" generate "${ask[@]}" >"$work/want" 2>/dev/null
cmp "$work/text" "$work/want"
echo "platforms: arm64 generates the same $(wc -c <"$work/text") bytes as $(go env GOHOSTARCH)"

# The kit: it starts our engine, which is the same binary under the same emulator.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$qemu" "$work/assay" serve --port "$port" >"$work/serve.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do
	"$work/native" health --port "$port" >/dev/null 2>&1 && break
	sleep 0.1
done
status=0
"$qemu" "$work/assay" run --url "http://127.0.0.1:$port" --tokenizer builtin:seedling --ctx 128 --repeats 2 --warmups 1 --max-tokens 32 \
	--when-unfit measure --out "$work/rows" || status=$?
case $status in 0 | 3) ;; *) exit 1 ;; esac
"$work/native" verify "$work/rows"

for package in quant kernel weights sample; do
	go test -c -o "$work/$package.test" "./internal/engine/$package"
	(cd "internal/engine/$package" && "$qemu" "$work/$package.test" -test.short -test.timeout 10m | tail -n 1 | sed "s#^#platforms: arm64: internal/engine/$package: #")
done
echo "platforms: all of it holds"
