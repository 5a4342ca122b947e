"""Chromium for the tests with the marker `browser`, which `make browser` installs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.paths import ROOT

AXE = ROOT / ".browser" / "package" / "axe.min.js"


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: `make browser` installs it")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Page:
    """A page in a context of its own, and what its console said.

    Args:
        browser: Chromium.
        url: The URL of the viewer, with its token.
        options: Arguments of Playwright's `new_context`.
    """

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self._base = url.rstrip("/")
        self._context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.page = self._context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)

    def open(self, path: str) -> Any:
        """Open a page of the viewer, and wait until nothing is loading."""
        self.page.goto(self._base + path)
        self.page.wait_for_load_state("networkidle")
        return self.page

    def close(self) -> None:
        """Close it."""
        self._context.close()


def until(page: Any, expression: str, seconds: float = 60.0) -> None:
    """Wait until an expression is true on a page. The policy of the pages forbids Playwright's own way, `eval`."""
    end = time.monotonic() + seconds
    while True:
        try:
            if page.evaluate(expression):
                return
        except Exception as error:  # the page is being left for another one
            if "context was destroyed" not in str(error) and "null" not in str(error):
                raise
        assert time.monotonic() < end, f"not true after {seconds} s: {expression}"
        page.wait_for_timeout(50)


def violations(page: Any) -> list[str]:
    """Return the serious and critical findings of axe-core on a page."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: `make browser` fetches it")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes']][:3]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
