#!/bin/sh
# environment.sh: makes .venv, or brings it up to date, and installs Bushel (editable) in it.
# environment.sh dev: adds what the tests and linters need.
# System packages that are missing are installed where that needs no password; elsewhere it says what to install.
# PYTHON names the interpreter to use; otherwise it is the first of python3, python3.14, python3.13, python3.12, python3.11 that
# is 3.11 or newer.
set -eu
cd "$(dirname "$0")/.."

new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=
if new_enough .venv/bin/python; then
    python=.venv/bin/python
else
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if new_enough "$name"; then python=$name; break; fi
    done
fi

# What is missing, as names of Debian and Ubuntu packages.
missing_packages() {
    if [ -z "$python" ]; then
        echo python3.11 python3.11-venv python3.11-dev
    else
        version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        "$python" -c 'import venv, ensurepip' 2>/dev/null || echo "$version-venv"
        "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || echo "$version-dev"
    fi
    command -v "${CXX:-c++}" >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 ||
        echo g++
    printf '#include <stdio.h>\n#include <jpeglib.h>\n' | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1 || echo libjpeg-dev
}

missing=$(missing_packages | tr '\n' ' ')
if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        root=none
    elif [ "$(id -u)" = 0 ]; then
        root=
    elif sudo -n true 2>/dev/null; then
        root="sudo -n"
    else
        root=none
    fi
    if [ "$root" = none ]; then
        echo "Bushel needs what these Debian and Ubuntu packages hold: $missing" >&2
        echo "  sudo apt-get install $missing" >&2
        echo "Elsewhere: Python 3.11 or newer with its venv module and C headers, a C++17 compiler, and libjpeg-turbo with its headers." >&2
        exit 1
    fi
    echo "installing $missing"
    $root apt-get -qq update
    # shellcheck disable=SC2086 # names of several packages
    DEBIAN_FRONTEND=noninteractive $root apt-get -qq install --no-install-recommends $missing
    python=${python:-python3.11}
fi

# Requirements in pyproject.toml, one in a line: pip before 25.1 knows no groups.
requirements() {
    "$python" -c 'import sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
for group in sys.argv[1:]:
    listed = project["project"]["dependencies"] if group == "project" else project["dependency-groups"][group]
    print(*(each for each in listed if isinstance(each, str)), sep="\n")' "$@"
}

# A pip beside the interpreter installs that of .venv together with the rest; ensurepip would install an older one first.
pip=".venv/bin/python -m pip"
if [ ! -x .venv/bin/python ]; then
    echo "making an environment in .venv, by $("$python" --version)"
    "$python" -m venv --without-pip .venv
fi
if ! $pip --version >/dev/null 2>&1; then
    if "$python" -m pip --python .venv/bin/python --version >/dev/null 2>&1; then
        pip="$python -m pip --python .venv/bin/python"
    else
        .venv/bin/python -m ensurepip
    fi
fi
install="install --quiet --disable-pip-version-check"
if [ "${1:-}" = dev ]; then
    echo "installing what tests and linters need"
    requirements build dev | $pip $install --requirement /dev/stdin
    exit
fi
echo "installing CMake, Ninja, nanobind and scikit-build-core"
# Modules are compiled when they are first imported, which few are.
{ echo "pip>=25.1"; requirements build; } | $pip $install --no-compile --requirement /dev/stdin
echo "compiling the kernels, and installing Bushel in place and what it imports (about half a minute on two processors)"
# One process downloads and unpacks while the compilers run.
requirements project | .venv/bin/python -m pip $install --no-compile --requirement /dev/stdin &
failed=0
.venv/bin/python -m pip $install --no-build-isolation --no-deps --editable . || failed=1
wait $! || failed=1
exit $failed
