#!/bin/sh
# Builds libjpeg-turbo as a static library with position-independent code, for wheels: make/libjpeg.sh PREFIX
# LIBJPEG_SOURCE names a folder with its source; otherwise the commit below is fetched from GitHub. LIBJPEG_CMAKE: further
# arguments of cmake, such as a toolchain file. Needs cmake, and nasm on x86 (without it, the library is slower; Bushel's own
# decoder, which reads most photos, does not need it).
set -eu
prefix=$1
version=3.1.4.1
commit=9217719d3a58633923b096af4c1d50d304768a64

if [ -f "$prefix/lib/libjpeg.a" ] && [ "$(cat "$prefix/version" 2>/dev/null)" = "$version" ]; then
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=${LIBJPEG_SOURCE:-}
if [ -z "$source" ]; then
    source=$work/source
    git init --quiet "$source"
    git -C "$source" fetch --quiet --depth 1 https://github.com/libjpeg-turbo/libjpeg-turbo "$commit"
    git -C "$source" checkout --quiet FETCH_HEAD
fi
if ! grep -q "^set(VERSION $version)" "$source/CMakeLists.txt"; then
    echo "$source is not libjpeg-turbo $version" >&2
    exit 1
fi
cmake -S "$source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF \
    -DWITH_TOOLS=OFF -DWITH_TESTS=OFF ${LIBJPEG_CMAKE:-}
cmake --build "$work/build" --parallel
cmake --install "$work/build"
echo "$version" >"$prefix/version"
