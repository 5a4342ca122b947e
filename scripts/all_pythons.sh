#!/bin/sh
# Runs the tests with every Python that is here: python3.11 to python3.14 and free-threaded ones, on the PATH or of pyenv;
# and, if `uv` is installed, those that it has or can fetch. Each has an environment in build/pythons. VERSIONS="3.13 3.14t"
# chooses some.
#
#   scripts/all_pythons.sh [arguments of pytest]
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- -n auto tests
report=

find_python() {
    for found in "$(command -v "python$1" 2>/dev/null || true)" \
        "$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/"python$1" 2>/dev/null | tail -n 1)" \
        "$(command -v uv >/dev/null 2>&1 && { uv python find "$1" 2>/dev/null || uv python install --quiet "$1" 2>/dev/null && uv python find "$1" 2>/dev/null; } || true)"; do
        # A name that pyenv has on the PATH may be a script that says that the version is not chosen.
        if [ -n "$found" ] && "$found" -c 'import venv' 2>/dev/null; then
            echo "$found"
            return
        fi
    done
}

failed=0
for version in ${VERSIONS:-3.11 3.12 3.13 3.14 3.13t 3.14t}; do
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        report="$report\n$version: not here"
        continue
    fi
    place=$PWD/build/pythons/$version
    rm -rf "$place"
    "$python" -m venv "$place"
    install="$place/bin/python -m pip install --quiet --disable-pip-version-check"
    $install "pip>=25.1" "hypothesis>=6.100" "pytest>=8.2" "pytest-xdist>=3.6" "universal-pathlib>=0.2.5"
    $install --config-settings=build-dir="$place-build" .
    if "$place/bin/python" -m pytest -p no:cacheprovider "$@"; then
        report="$report\n$version: passed ($("$place/bin/python" -VV | head -n 1))"
    else
        report="$report\n$version: FAILED"
        failed=1
    fi
done
printf '%b\n' "$report"
exit $failed
