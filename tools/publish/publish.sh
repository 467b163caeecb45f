#!/usr/bin/env bash
# Publishes real runs with secrets planted in every way that they can come: the
# command line, the environment, a prompt, the engine's log and its address. Then, as
# a stranger who has nothing but the bundle, looks for them with other programs, tries
# to guess the port, changes bytes, and verifies. In the end the port is revealed and
# proved.
#
#   tools/publish/publish.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/tools/publish
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/assay" ./cmd/assay
export PATH=$work:$PATH HOME=$work/home/alice.w XDG_CONFIG_HOME=$work/config PLANT_SERVICE_TOKEN=env-7Vn2qkzL0pTw
mkdir -p "$HOME/models" "$work/by"
cp models/seedling/formats/seedling-15m-q8_0.gguf "$HOME/models/m.gguf"
cd "$work"

# The engine: it logs what a talkative one would, and serves.
cat >by/engine <<'SH'
#!/bin/sh
all=$*
(while sleep 0.02; do
	echo "engine: token $PLANT_SERVICE_TOKEN, started as: $all"
	echo "engine: user alice.w@build-7.corp.example, peer 203.0.113.77, card GPU-5c0e2f11-1a2b-3c4d-5e6f-0123456789ab"
	echo "engine: Authorization: Bearer log-aQ9xZr41mmB7"
done >&2) &
while [ $# -gt 0 ]; do
	case $1 in
	--port) port=$2 && shift ;;
	--model) model=$2 && shift ;;
	--password) shift ;;
	esac
	shift
done
exec assay serve -m "$model" --port "$port" -t 1
SH
chmod +x by/engine
cat >question.txt <<'TEXT'
My key is hf_PlantedPromptKey0123456789, my file /home/alice.w/notes.txt, my mail alice@corp.example. What is it for?
TEXT
cat >plan.yaml <<YAML
arms:
  - name: planted
    target: assay
    command: [by/engine, --password, argv-correct-horse, --model, "\$(model)", --port, "\$(port)"]
    model: $HOME/models/m.gguf
prompts: [question.txt]
max_tokens: 200
repeats: 2
when_unfit: measure
YAML
status=0
assay run plan.yaml --out rows >/dev/null 2>run.err || status=$?
case $status in 0 | 3) ;; *) cat run.err >&2 && exit 1 ;; esac

assay key new >/dev/null
assay key show >key.pub
assay publish rows -o bundle.tar.zst --yes --redact command_line.port >published 2>list
cat list published
python3 "$tools/stranger.py" rows bundle.tar.zst bundle.tar.zst.salts
assay verify bundle.tar.zst --key key.pub --tokenizer "$HOME/models/m.gguf"
assay reveal bundle.tar.zst.salts command_line.port -o port.json
assay verify bundle.tar.zst --reveal port.json | grep '^revealed and proved: '
sed 's/\("value":"[0-9]*\)[0-9]"/\19x"/' port.json >forged.json
if assay verify bundle.tar.zst --reveal forged.json >forged.out; then
	echo "publish: a forged port was taken for true" >&2 && exit 1
fi
grep -m 1 'not what was committed to' forged.out
echo "publish: nothing leaked, every change was found"
