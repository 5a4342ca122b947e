#!/bin/sh
# Installs packages for the Python of make/aarch64_system.sh, from wheels alone, into a folder:
# make/aarch64_packages.sh FOLDER VERSION [arguments of pip install]
# pip runs on this machine, and takes those wheels that it would take on an ARM machine with Debian 12 (glibc 2.36).
set -eu
cd "$(dirname "$0")/.."
folder=$1 version=$2
shift 2
platforms="--platform manylinux2014_aarch64 --platform linux_aarch64"
for minor in $(seq 17 36); do platforms="$platforms --platform manylinux_2_${minor}_aarch64"; done
rm -rf "$folder"
# shellcheck disable=SC2086 # several options
exec .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" --only-binary=:all: \
    --implementation cp --python-version "$version" $platforms "$@"
