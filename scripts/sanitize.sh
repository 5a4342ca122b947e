#!/bin/sh
# Runs the tests of the kernels under AddressSanitizer and UndefinedBehaviorSanitizer. The module is built in
# build/sanitize and lies there beside a copy of the package, so that the installed one stays as it is.
# Arguments, if any, are those of pytest; by default tests/kernels, and then 20,000 damaged progressive JPEGs. `scripts/sanitize.sh environment` prints the variables
# with which `.venv/bin/python -S` loads that module, for programs that start processes of their own.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
build=$PWD/build/sanitize
compiler=${CXX:-c++}

"$python" -m cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUSHEL_SANITIZE=ON -DCMAKE_CXX_COMPILER="$compiler" \
    -DPython_EXECUTABLE="$python" -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" >&2
"$python" -m cmake --build "$build" --target _kernels >&2

rm -rf "$build/package"
mkdir -p "$build/package"
cp -r src/bushel "$build/package/"
rm -f "$build"/package/bushel/kernels/_kernels.*.so
cp "$build"/_kernels.*.so "$build/package/bushel/kernels/"

packages=$("$python" -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep=":")')

# Python itself is not compiled with the sanitizers, so their libraries are loaded first; libstdc++ too, for exceptions.
# -S leaves out the .pth files of .venv, which would import the installed module. Reports are written to the descriptor
# of stderr, which pytest must not capture.
variables="LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS PYTHONMALLOC PYTHONPATH"
export LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
export PYTHONPATH="$build/package:$packages"
if [ "${1:-}" = environment ]; then
    for name in $variables; do
        eval "printf '%s=%s\\n' $name \"\$$name\""
    done
    exit
fi
if [ $# -gt 0 ]; then
    exec "$python" -S -m pytest -p no:cacheprovider --capture=sys "$@"
fi
"$python" -S -m pytest -p no:cacheprovider --capture=sys tests/kernels
exec "$python" -S -m tests.kernels.progressive_damage --cases 20000
