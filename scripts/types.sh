#!/bin/sh
# Checks examples/ with mypy --strict and pyright as a user does, against the installed package: that it is typed
# (py.typed) and that the types of public names hold. Packages that are not installed count as Any.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
python=${1:-$root/build/installed/bin/python}
place=$root/build/types
rm -rf "$place"
mkdir -p "$place"
cp -r examples "$place/examples"
cd "$place"
echo '{"include": ["examples"], "reportMissingImports": "warning"}' >pyrightconfig.json
"$root/.venv/bin/mypy" --config-file= --strict --ignore-missing-imports --allow-subclassing-any --allow-untyped-calls --no-warn-unused-ignores \
    --python-executable "$python" examples
if [ ! -x "$root/.types/bin/pyright" ]; then
    "$root/.venv/bin/python" -m venv "$root/.types"
    "$root/.types/bin/python" -m pip install --quiet --disable-pip-version-check pyright
fi
"$root/.types/bin/pyright" --pythonpath "$python"
