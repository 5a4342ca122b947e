#!/usr/bin/env bash
# Install what the tests with the marker `browser` need, where it is missing: Chromium by apt (root; elsewhere set
# CHROMIUM to the path of one), Playwright's driver, and axe-core, which checks pages for accessibility, in .browser/.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
.venv/bin/python -c 'import playwright, av' 2>/dev/null ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check playwright av
if [ ! -f .browser/package/axe.min.js ]; then
    mkdir -p .browser/package
    if command -v npm >/dev/null; then
        (cd .browser && npm pack axe-core@4 --silent >/dev/null && tar xzf axe-core-*.tgz package/axe.min.js package/LICENSE)
    else  # a package of PyPI has it, too
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target .browser/pypi axe-playwright-python
        cp .browser/pypi/axe_playwright_python/axe.min.js .browser/package/
    fi
fi
