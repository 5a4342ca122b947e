#!/bin/sh
# Builds the site into build/site with Zensical and mkdocstrings, which are installed in .site if they are missing. A dead
# link, a page that is in no section, and a public name without documentation are errors.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/.site
if [ ! -x "$place/bin/ruff" ]; then  # it breaks long signatures into lines
    .venv/bin/python -m venv "$place"
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check "zensical>=0.0.70" "mkdocstrings-python>=2" ruff
fi
.venv/bin/python scripts/assemble_site.py
"$place/bin/zensical" build --clean --strict --config-file build/site-source/zensical.toml
rm -rf build/site
mv build/site-source/site build/site
.venv/bin/python scripts/check_site.py build/site
