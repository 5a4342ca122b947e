#!/bin/sh
# Builds the package from the sdist in dist/ (`make sdist`) on systems that lay out their libraries in other ways, each unpacked
# into build/layouts by debootstrap: `make/sdist_layouts.sh [debian-12] [debian-13] [ubuntu-22.04] [ubuntu-24.04] [fedora]`.
#
# On each, first without the headers of libjpeg-turbo, where the build must fail and name the package to install; then with
# them, where the demo, the README and the conformance suite must pass. `fedora` is an emulation: Debian 12's programs, without
# what tells CMake that it is Debian, and libjpeg-turbo 3 as Fedora lays it out: in /usr/lib64, with no multiarch folder, and with
# a jconfig.h that includes jconfig-64.h. Needs root (for chroot), Debian or Ubuntu, and what make/libjpeg.sh needs.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- debian-12 debian-13 ubuntu-22.04 ubuntu-24.04 fedora
if [ "$(id -u)" != 0 ]; then
    exec sudo -n LIBJPEG_SOURCE="${LIBJPEG_SOURCE:-}" "$0" "$@"
fi
command -v debootstrap >/dev/null 2>&1 || apt-get -qq install --no-install-recommends debootstrap >/dev/null
sdist=$(ls dist/bushel-*.tar.gz)

# The suite, the mirror, the keyring, the version of Python, and the package with the headers of libjpeg-turbo of a layout.
describe() {
    debian="http://deb.debian.org/debian /usr/share/keyrings/debian-archive-keyring.gpg"
    ubuntu="http://archive.ubuntu.com/ubuntu /usr/share/keyrings/ubuntu-archive-keyring.gpg"
    case $1 in
        debian-12) echo "bookworm $debian 3.11 libjpeg62-turbo-dev" ;;
        debian-13) echo "trixie $debian 3.13 libjpeg62-turbo-dev" ;;
        ubuntu-22.04) echo "jammy $ubuntu 3.11 libjpeg-turbo8-dev" ;;
        ubuntu-24.04) echo "noble $ubuntu 3.12 libjpeg-turbo8-dev" ;;
        fedora) echo "bookworm $debian 3.11 libjpeg-turbo-devel" ;;
        *) echo "there is no layout $1" >&2; exit 1 ;;
    esac
}

# Runs a command in a system, which has the network and the certificates of this one; what is mounted goes with it.
inside() {
    root=$1
    shift
    mkdir -p "$root/checkout"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    # shellcheck disable=SC2016 # the variables are those of the shell inside
    unshare --mount sh -ec '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount --bind . "$root/checkout"
        mount -o remount,bind,ro "$root/checkout"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            PIP_CERT=/etc/ssl/certs/ca-certificates.crt chroot "$root" "$@"' inside "$root" "$@"
}

# Installs packages in a system.
install_inside() {
    root=$1
    shift
    inside "$root" apt-get -qq update
    inside "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$@" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" >&2; exit 1; }
}

# Unpacks a system with a compiler and Python's headers into a folder.
unpack() {
    root=$1 suite=$2 mirror=$3 keyring=$4 version=$5
    check="--keyring=$keyring"
    if [ ! -e "$keyring" ]; then
        echo "$keyring is not here, so the signatures of $suite are not checked" >&2
        check=--no-check-gpg
    fi
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap "$check" --variant=minbase --include=ca-certificates,g++ "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" >&2; exit 1; }
    # Python 3.11 came to Ubuntu 22.04 as an update.
    case $mirror in
        */ubuntu) printf 'deb %s %s main universe\n' "$mirror" "$suite" "$mirror" "$suite-updates" >"$root/etc/apt/sources.list" ;;
    esac
    install_inside "$root" "python$version-dev" "python$version-venv"
    touch "$root/done"
}

# libjpeg-turbo 3 where Fedora has it, in a system that does not look like Debian.
make_fedora() {
    root=$1
    LIBJPEG_CMAKE="-DCMAKE_INSTALL_LIBDIR=lib64 -DENABLE_SHARED=ON -DENABLE_STATIC=OFF" make/libjpeg.sh "$root/usr"
    mv "$root/usr/include/jconfig.h" "$root/usr/include/jconfig-64.h"
    printf '#include <bits/wordsize.h>\n#if __WORDSIZE == 64\n#include "jconfig-64.h"\n#endif\n' >"$root/usr/include/jconfig.h"
    rm -f "$root/etc/debian_version"
    echo /usr/lib64 >"$root/etc/ld.so.conf.d/lib64.conf"
    inside "$root" ldconfig
}

try() {
    name=$1
    # shellcheck disable=SC2046 # several words
    set -- $(describe "$name")
    root=$PWD/build/layouts/$name version=$4 headers=$5
    [ -e "$root/done" ] || unpack "$root" "$1" "$2" "$3" "$version"
    echo "$name: without the headers of libjpeg-turbo"
    inside "$root" "python$version" -m venv /root/venv
    if inside "$root" /root/venv/bin/python -m pip install --quiet --disable-pip-version-check "/checkout/$sdist" >"$root.log" 2>&1; then
        echo "$name: it was built without libjpeg-turbo" >&2
        exit 1
    fi
    grep -F "install $headers" "$root.log" || { tail -n 40 "$root.log" >&2; exit 1; }

    echo "$name: with them"
    if [ "$name" = fedora ]; then
        make_fedora "$root"
    else
        install_inside "$root" "$headers"
    fi
    inside "$root" /root/venv/bin/python -m pip install --quiet --disable-pip-version-check "/checkout/$sdist"
    inside "$root" ldd "$(inside "$root" sh -c 'ls /root/venv/lib/python*/site-packages/bushel/kernels/_kernels*.so')" | grep libjpeg
    inside "$root" sh -c 'cd /root && /root/venv/bin/python /checkout/examples/demo.py --quick'
    inside "$root" sh -c 'cd /root && PYTHONDONTWRITEBYTECODE=1 /root/venv/bin/python /checkout/make/wheel_tour.py'
    inside "$root" sh -c 'cat /etc/os-release | head -n 1; ls /usr/include/jpeglib.h; /root/venv/bin/python -VV; c++ --version | head -n 1'
    rm -rf "$root" "$root.log"
    echo "$name: passed"
}

mkdir -p build/layouts
for name in "$@"; do try "$name"; done
