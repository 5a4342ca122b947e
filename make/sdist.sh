#!/bin/sh
# Builds the sdist into dist/, and builds and imports the package from it as a stranger does, outside this checkout.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/build/sdist
rm -rf "$place" dist/bushel-*.tar.gz
"${PYTHON:-.venv/bin/python}" -m venv "$place/venv"
python=$place/venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check build
"$python" -m build --sdist --outdir dist .
sdist=$(ls dist/bushel-*.tar.gz)
"$python" -m pip install --quiet --disable-pip-version-check --no-binary bushel "$sdist"
cp examples/demo.py "$place/"
(cd "$place" && "$python" demo.py --quick)
echo "$sdist: $(du -k "$sdist" | cut -f1) KiB"
