#!/bin/sh
# Compiles the kernels for 64-bit ARM with Debian's cross compiler, and runs their tests, of which some compare images with
# libjpeg byte for byte, under qemu-user: on an x86-64 machine with Debian 12 or newer. Arguments go to pytest; without any,
# it runs the tests of the kernels that have NEON code. `make wheel-aarch64` tests a wheel in the same way.
#
# Everything is in build/aarch64: what make/aarch64_system.sh makes, `site` (the Python packages' wheels for ARM) and
# `cmake`.
set -eu
cd "$(dirname "$0")/.."
here=$PWD/build/aarch64
root=$here/root site=$here/site
version=$(make/aarch64_system.sh)

if [ ! -e "$site/done" ]; then
    .venv/bin/python - <<'PYTHON' >"$here/requirements.txt"
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], "hypothesis", "pytest", sep="\n")
PYTHON
    make/aarch64_packages.sh "$site" "$version" -r "$here/requirements.txt"
    touch "$site/done"
fi

sources=src/bushel/kernels
aarch64-linux-gnu-g++ -std=c++17 -O2 -I$sources tests/kernels/vectors_test.cpp -o "$here/vectors_test"
qemu-aarch64 -L "$root" "$here/vectors_test"

include=$root/usr/include
suffix=$("$here/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
.venv/bin/cmake -S . -B "$here/cmake" -G Ninja -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/make/aarch64.cmake" \
    -DCMAKE_CXX_FLAGS="-idirafter $include -idirafter $include/aarch64-linux-gnu" \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DPython_INCLUDE_DIR="$include/python$version" \
    -DJPEG_INCLUDE_DIR="$include" -DJPEG_LIBRARY="$root/usr/lib/aarch64-linux-gnu/libjpeg.so" \
    -Dnanobind_DIR="$(.venv/bin/python -m nanobind --cmake_dir)" >"$here/cmake.log" ||
    { cat "$here/cmake.log" >&2; exit 1; }
.venv/bin/cmake --build "$here/cmake" --target _kernels

# A copy of the package, so that the module for ARM does not lie beside that of this machine.
rm -rf "$here/package"
mkdir -p "$here/package"
cp -r src/bushel "$here/package/bushel"
rm -f "$here"/package/bushel/kernels/*.so
cp "$here"/cmake/_kernels*.so "$here/package/bushel/kernels/_kernels$suffix"

export PYTHONPATH="$here/package:$site:$PWD"
"$here/python" -c 'import platform; from bushel import kernels; print(platform.machine(), kernels.__name__)'
if [ $# = 0 ]; then
    set -- tests/kernels/test_crc32.py tests/kernels/test_jpeg_baseline.py tests/kernels/test_jpeg_decode.py \
        tests/kernels/test_jpeg_seek.py tests/kernels/test_jpeg_tiles.py tests/kernels/test_resize.py tests/kernels/test_simd.py
fi
exec "$here/python" -m pytest -p no:cacheprovider --override-ini pythonpath=. "$@"
