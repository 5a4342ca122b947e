#!/bin/sh
# Fails if a tag such as v0.2.0 differs from the version of the package, of its sdist in dist/, and of CITATION.cff.
#
#   make/check_tag.sh v0.2.0
set -eu
cd "$(dirname "$0")/.."
version=${1#v}
fail() {
    echo "the tag $1 says $version, but $2" >&2
    exit 1
}
grep -qx "__version__ = \"$version\"" src/bushel/__init__.py || fail "$1" "src/bushel/__init__.py says something else"
grep -qx "version: $version" CITATION.cff || fail "$1" "CITATION.cff says something else"
grep -q "^## $version (" CHANGELOG.md || fail "$1" "CHANGELOG.md has no such version: run make/changelog.py"
[ ! -d dist ] || [ -z "$(ls dist/*.tar.gz 2>/dev/null)" ] || [ -f "dist/bushel-$version.tar.gz" ] ||
    fail "$1" "dist/ holds $(ls dist/*.tar.gz)"
