"""Annotations of pictures in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.annotated import write_annotated
from tests.viewer.browsing import Page, chromium, until, violations

import bushel

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_annotations_are_drawn_counted_and_hidden(browser: Any, tmp_path: Path, scheme: str) -> None:
    with bushel.view(write_annotated(tmp_path / "data", 8)) as viewer:
        tab = Page(browser, viewer.url, color_scheme=scheme)
        page = tab.open("/d/0")
        until(page, "document.querySelectorAll('.tile .marks rect').length === 8")
        until(page, "[...document.querySelectorAll('.marks image')].length === 8")
        assert page.locator(".tile .said").first.inner_text() == "number 0"
        inside = """() => {
            const tile = document.querySelector('.tile .over').getBoundingClientRect();
            const box = document.querySelector('.tile .marks rect').getBoundingClientRect();
            return [(box.left - tile.left) / tile.width, box.width / tile.width];
        }"""
        left, width = page.evaluate(inside)
        assert left == pytest.approx(0.6, abs=0.02)
        assert width == pytest.approx(0.35, abs=0.02)
        legend = page.locator("#overlays")
        assert "xywh, pixels (inferred" in legend.inner_text()
        legend.locator("label", has_text="boxes").locator("input").click()
        until(page, "document.querySelectorAll('.tile .marks rect').length === 0")
        legend.locator("label", has_text="boxes").locator("input").click()
        legend.get_by_label("1").first.click()  # a class of boxes
        until(page, "document.querySelectorAll('.tile .marks rect').length === 4")
        assert violations(page) == []
        page.locator(".tile a").nth(1).focus()
        page.keyboard.press("o")
        until(page, "document.querySelectorAll('.tile .marks > *').length === 0")
        page.keyboard.press("o")
        page.keyboard.press("Enter")
        page.wait_for_selector(".large .marks")
        assert page.locator("h1").inner_text() == "k1"
        assert page.locator(".large .marks rect").count() == 0  # its class stays hidden
        page.keyboard.press("ArrowRight")
        until(page, "document.querySelector('h1').textContent === 'k2'")
        page.wait_for_selector(".large .marks rect")
        assert page.locator(".large .over .tag").inner_text() == "0"
        with page.expect_response(lambda answer: "without=7" in answer.url):
            page.locator("#overlays label", has_text="7").locator("input").click()
        assert violations(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        assert tab.errors == []
        tab.close()
