#!/bin/sh
# Compares the CPU time of this checkout with that of another commit (benchmarks/regression.py).
#
#   scripts/bench_check.sh origin/main
set -eu
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify "$1^{commit}")
place=$PWD/build/bench-check
rm -rf "$place"
mkdir -p "$place/source"
git archive "$base" | tar -x -C "$place/source"
for name in base ours; do
    .venv/bin/python -m venv "$place/$name"
    source=$PWD
    [ $name = ours ] || source=$place/source
    "$place/$name/bin/python" -m pip install --quiet --disable-pip-version-check \
        --config-settings=build-dir="$place/$name-build" "$source[arrow]"
done
"$place/ours/bin/python" benchmarks/regression.py --base "$place/base/bin/python" --ours "$place/ours/bin/python"
