#!/bin/sh
# Compiles the kernels for 64-bit ARM with Debian's cross compiler, and runs their tests, of which some compare images with
# libjpeg byte for byte, under qemu-user: on an x86-64 machine with Debian 12 or newer. Arguments go to pytest; without any,
# it runs the tests of the kernels that have NEON code.
#
# Everything is in build/aarch64: `root` (Debian's Python, libjpeg-turbo and C library for ARM, unpacked, not installed),
# `site` (the Python packages' wheels for ARM) and `cmake`.
set -eu
cd "$(dirname "$0")/.."
here=$(pwd)/build/aarch64
root=$here/root site=$here/site

if ! command -v apt-get >/dev/null 2>&1; then
    echo "make aarch64 needs Debian: its cross compiler, qemu-user, and its packages for ARM" >&2
    exit 1
fi
if ! command -v aarch64-linux-gnu-g++ >/dev/null 2>&1 || ! command -v qemu-aarch64 >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then become=; else become="sudo -n"; fi
    echo "installing g++-aarch64-linux-gnu qemu-user"
    $become apt-get -qq update
    DEBIAN_FRONTEND=noninteractive $become apt-get -qq install --no-install-recommends g++-aarch64-linux-gnu qemu-user >/dev/null
fi

# Packages for ARM are unpacked, with a state of apt's own, so that nothing of the system changes.
if [ ! -e "$root/done" ]; then
    rm -rf "$root" "$here/apt"
    mkdir -p "$root" "$here/apt/state/lists/partial" "$here/apt/cache/archives/partial"
    touch "$here/apt/state/status"
    apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Dir::State=$here/apt/state -o Dir::State::status=$here/apt/state/status -o Dir::Cache=$here/apt/cache"
    # shellcheck disable=SC2086 # several options
    $apt update
    # shellcheck disable=SC2086
    $apt install --no-install-recommends --download-only --yes python3 libpython3-dev libjpeg-dev libstdc++6 >/dev/null
    for package in "$here"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
    rm -rf "$here/apt"
    touch "$root/done"
fi
name=$(basename "$(readlink -f "$root/usr/bin/python3")")
version=${name#python}

# A program of that name is what the tests start as Python.
cat >"$here/python" <<PROGRAM
#!/bin/sh
exec qemu-aarch64 -L "$root" -0 "$here/python" "$root/usr/bin/$name" "\$@"
PROGRAM
chmod +x "$here/python"

if [ ! -e "$site/done" ]; then
    rm -rf "$site"
    .venv/bin/python - <<'PYTHON' >"$here/requirements.txt"
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], "hypothesis", "pytest", sep="\n")
PYTHON
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$site" --only-binary=:all: \
        --implementation cp --python-version "$version" --platform manylinux_2_28_aarch64 --platform manylinux_2_24_aarch64 \
        --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 -r "$here/requirements.txt"
    printf 'import sys\nsys.executable = "%s"\n' "$here/python" >"$site/sitecustomize.py"
    touch "$site/done"
fi

sources=src/bushel/kernels
aarch64-linux-gnu-g++ -std=c++17 -O2 -I$sources tests/kernels/vectors_test.cpp -o "$here/vectors_test"
qemu-aarch64 -L "$root" "$here/vectors_test"

include=$root/usr/include
suffix=$("$here/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
.venv/bin/cmake -S . -B "$here/cmake" -G Ninja -DCMAKE_MAKE_PROGRAM="$(pwd)/.venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_CXX_FLAGS="-idirafter $include -idirafter $include/aarch64-linux-gnu" \
    -DPython_EXECUTABLE="$(pwd)/.venv/bin/python" -DPython_INCLUDE_DIR="$include/python$version" \
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

export PYTHONPATH="$here/package:$site:$(pwd)"
"$here/python" -c 'import platform; from bushel import kernels; print(platform.machine(), kernels.__name__)'
if [ $# = 0 ]; then
    set -- tests/kernels/test_crc32.py tests/kernels/test_jpeg_baseline.py tests/kernels/test_jpeg_decode.py \
        tests/kernels/test_jpeg_seek.py tests/kernels/test_jpeg_tiles.py tests/kernels/test_resize.py tests/kernels/test_simd.py
fi
exec "$here/python" -m pytest -p no:cacheprovider --override-ini pythonpath=. "$@"
