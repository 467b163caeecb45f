#!/usr/bin/env bash
# Repairs llama.cpp's source, in folder $1, for GCC, whose _tile_loadconfig (in versions
# up to 12 at least) claims to read eight bytes: the compiler leaves the rest of the
# tiles' sizes unwritten, and on processors with AMX the program dies of it.
set -euo pipefail
file=$1/ggml/src/ggml-cpu/amx/mmq.cpp
sed -i 's/_tile_loadconfig(&tc);/__asm__ volatile("ldtilecfg %0" : : "m"(tc));/' "$file"
grep -q ldtilecfg "$file"
