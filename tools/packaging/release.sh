#!/usr/bin/env bash
# Builds a snapshot of a release with goreleaser, in a copy of the tree, and looks
# at what came of it: every target is there, of the right format and static, says
# its version, and is in its archive and package with manual pages and completions.
#
# goreleaser is built from its Go module, once, into $PACKAGING (six minutes on two
# busy cores).
set -euo pipefail
cd "$(dirname "$0")/../.."
PACKAGING=${PACKAGING:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/packaging}
version=v2.17.0
tool=$PACKAGING/goreleaser-$version
if [ ! -x "$tool" ]; then
	mkdir -p "$PACKAGING/bin"
	(cd / && GOBIN=$PACKAGING/bin CGO_ENABLED=0 go install "github.com/goreleaser/goreleaser/v2@$version")
	mv "$PACKAGING/bin/goreleaser" "$tool"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A copy of the tree with a history of its own: the snapshot neither needs nor
# touches this one's. The tag is what the next version is counted from.
mkdir "$work/tree"
git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' f; do
	if [ -e "$f" ]; then printf '%s\0' "$f"; fi
done | tar -c --null -T - | tar -x -C "$work/tree"
cd "$work/tree"
git init -q
git add -A
GIT_AUTHOR_DATE=2026-01-02T03:04:05Z GIT_COMMITTER_DATE=2026-01-02T03:04:05Z \
	git -c user.name=release -c user.email=release@localhost commit -qm snapshot
git tag v0.1.0
git remote add origin https://localhost/assay.git # without one, goreleaser invents commit and tag
commit=$(git rev-parse HEAD)

"$tool" check -q
GOFLAGS=-buildvcs=false "$tool" release --snapshot --clean --parallelism 2 >"$work/log" 2>&1 || {
	tail -n 40 "$work/log" >&2
	exit 1
}

fail() {
	echo "release: $*" >&2
	exit 1
}
v=0.1.1-snapshot
for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	os=${target%/*} arch=${target#*/}
	archive=dist/assay-$v-$os-$arch.tar.gz
	[ -f "$archive" ] || fail "$archive is missing; there are: $(echo dist/*)"
	mkdir -p "$work/$target"
	tar -xzf "$archive" -C "$work/$target" --strip-components=1
	for f in assay LICENSE README.md CHANGELOG.md docs/timing.md man/assay-serve.1 completions/_assay packaging/systemd/assay.service; do
		[ -f "$work/$target/$f" ] || fail "$archive has no $f"
	done
	kind=$(file -b "$work/$target/assay")
	case $target in
	linux/amd64) want='ELF 64-bit LSB executable, x86-64*statically linked*' ;;
	linux/arm64) want='ELF 64-bit LSB executable, ARM aarch64*statically linked*' ;;
	darwin/amd64) want='Mach-O 64-bit x86_64 executable*' ;;
	darwin/arm64) want='Mach-O 64-bit arm64 executable*' ;;
	esac
	# shellcheck disable=SC2254 # a pattern
	case $kind in $want) ;; *) fail "$target: assay is: $kind" ;; esac
	if [ "$os" = linux ]; then
		[ -f "$work/$target/assay-nvml" ] || fail "$archive has no assay-nvml"
	else
		[ ! -e "$work/$target/assay-nvml" ] || fail "$archive has assay-nvml, which only Linux can use"
	fi
	printf '%-13s %s bytes, %s bytes packed\n' "$target" "$(stat -c %s "$work/$target/assay")" "$(stat -c %s "$archive")"
done

said=$("$work/linux/$(go env GOARCH)/assay" version --json)
for part in "\"version\":\"$v\"" "\"commit\":\"$commit\"" '"date":"2026-01-02T03:04:05Z"'; do
	case $said in *"$part"*) ;; *) fail "version --json does not say $part: $said" ;; esac
done

for arch in amd64 arm64; do
	deb=$(echo dist/assay_*_"$arch".deb)
	if command -v dpkg-deb >/dev/null; then
		dpkg-deb -c "$deb" >"$work/list"
		for f in /usr/bin/assay /usr/bin/assay-nvml /usr/lib/systemd/system/assay.service /usr/share/man/man1/assay-serve.1 /etc/assay/assay.env; do
			grep -q " \.$f\(\.gz\)\?$" "$work/list" || fail "$deb has no $f"
		done
		grep -q '^-rw------- .*/etc/assay/assay.env' "$work/list" || fail "others may read assay.env"
	fi
done
[ "$(find dist -name "*.rpm" | wc -l)" = 2 ] || fail "want two .rpm files"
(cd dist && sha256sum --quiet -c SHA256SUMS)

# The same commit gives the same bytes.
sum=$(sha256sum <"$work/linux/amd64/assay")
rm -rf dist
GOFLAGS=-buildvcs=false "$tool" build --snapshot --clean --single-target --id assay >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
if [ "$(go env GOARCH)" = amd64 ]; then
	[ "$(sha256sum <dist/assay_linux_amd64_*/assay)" = "$sum" ] || fail "a second build of the same commit differs"
fi
echo "release: all targets are there"
