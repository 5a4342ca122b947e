#!/bin/sh
# Runs the tests with the lowest versions of the dependencies that pyproject.toml allows, or with the newest there are, in
# build/lowest or build/newest.
#
#   scripts/dependencies.sh lowest|newest [arguments of pytest]
set -eu
cd "$(dirname "$0")/.."
which=$1
shift
place=$PWD/build/$which
rm -rf "$place"
.venv/bin/python -m venv "$place"
install="$place/bin/python -m pip install --quiet --disable-pip-version-check"
$install "pip>=25.1"
if [ "$which" = lowest ]; then
    .venv/bin/python - >"$place/pins.txt" <<'PYTHON'
import tomllib

project = tomllib.loads(open("pyproject.toml").read())["project"]
print("\n".join(each.replace(">=", "==") for each in project["dependencies"]))
PYTHON
    $install --requirement "$place/pins.txt"
    # Pre-releases of tests' tools are nobody's concern here, but what they need may not raise the pins.
    $install --constraint "$place/pins.txt" "hypothesis>=6.100" "pytest>=8.2" "pytest-xdist>=3.6" "universal-pathlib>=0.2.5" \
        "scikit-build-core>=0.11" "pyyaml>=6"
    $install --no-deps --config-settings=build-dir="$place-build" .
else
    $install --upgrade --pre --only-binary :all: numpy pillow || $install --upgrade numpy pillow
    $install --config-settings=build-dir="$place-build" .
    $install --upgrade hypothesis pytest pytest-xdist universal-pathlib scikit-build-core pyyaml
fi
"$place/bin/python" -m pip list --disable-pip-version-check
[ $# -gt 0 ] || set -- -n auto tests
"$place/bin/python" -m pytest -p no:cacheprovider "$@"
