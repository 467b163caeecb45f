#!/usr/bin/env bash
# Looks at reports as a browser does: headless Chromium opens the report of a real
# two-arm measurement, of published rows without evidence, of 1,000 rows and of
# rows whose texts are hostile and long, and the live page of a folder that is being
# written. Nothing may be said on the console, nothing asked of any other place,
# nothing wider than the window; axe-core must find nothing serious; 1,000 rows must
# load and be drawn in under 1 s.
#
#   tools/page/page.sh [OUT]
#
# OUT keeps the screenshots (390 and 1280 px, light and dark) and a printed page;
# without it they are thrown away.
#
# ASSAY     binary to test (default: built here)
# CHROMIUM  browser (default: chromium of the system, installed by apt if missing)
#
# The tools come from npm once, into the cache folder ($XDG_CACHE_HOME, ~/.cache).
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
ui_pid=
cleanup() {
	if [ -n "$ui_pid" ]; then
		kill "$ui_pid" 2>/dev/null || true
		wait "$ui_pid" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT
out=${1:-$work/out}
mkdir -p "$out"

playwright=1.65.1
axe=4.14.1
tools=${XDG_CACHE_HOME:-$HOME/.cache}/assay/page/playwright-$playwright-axe-$axe
if [ ! -d "$tools/node_modules/axe-core" ]; then
	mkdir -p "$tools"
	PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --prefix "$tools" --no-fund --no-audit --silent "playwright-core@$playwright" "axe-core@$axe"
fi
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -z "$CHROMIUM" ]; then
	apt-get update -qq
	apt-get install -y --no-install-recommends chromium fonts-liberation >/dev/null
	CHROMIUM=$(command -v chromium)
fi
export CHROMIUM TOOLS=$tools

if [ -z "${ASSAY:-}" ]; then
	ASSAY=$work/assay
	CGO_ENABLED=0 go build -o "$ASSAY" ./cmd/assay
fi

# A plan of two arms: a start of each in turns, A B B A. Figures may be withheld on a
# busy machine (status 3): that is shown too.
cat >"$work/plan.yaml" <<'END'
name: one thread against two
arms:
  - name: t1
    threads: 1
  - name: t2
    threads: 2
contexts: [512, 2K]
max_tokens: 1024
repeats: 10
END
status=0
"$ASSAY" run "$work/plan.yaml" --out "$work/two-arms" --progress none >/dev/null || status=$?
case $status in 0 | 3) ;; *) echo "assay run ended with status $status" >&2 && exit 1 ;; esac
rows=$work/two-arms/rows.jsonl
node tools/page/rows.mjs "$rows" 1000 >"$work/1000.jsonl"
"$ASSAY" report "$work/two-arms" -o "$work/two-arms.html"
"$ASSAY" report internal/kit/row/testdata/seed-rows.jsonl -o "$work/seed.html"
"$ASSAY" report "$work/1000.jsonl" -o "$work/1000.html"
node tools/page/rows.mjs "$rows" 80 '<img/src=x/onerror=alert(1)><script>alert(2)</script>-goes-on-without-any-place-to-break-' >"$work/hostile.jsonl"
"$ASSAY" report "$work/hostile.jsonl" -o "$work/hostile.html"

mkdir "$work/live"
"$ASSAY" ui "$work/live" 2>"$work/ui.log" &
ui_pid=$!
for _ in $(seq 100); do
	url=$(sed -n 's/^assay ui: \(http[^ ]*\) .*/\1/p' "$work/ui.log")
	[ -n "$url" ] && break
	sleep 0.1
done
node tools/page/check.mjs "$out" "$work/two-arms.html" "$work/seed.html" "$work/1000.html" "$work/hostile.html" "$url" "$work/live/rows.jsonl" "$rows"
kill -INT "$ui_pid"
wait "$ui_pid"
ui_pid=
echo "page: all is as it should be"
