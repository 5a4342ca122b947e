"""The map of vectors in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.browsing import Page, chromium, until, violations
from tests.viewer.placed import write_vectors

import bushel

pytestmark = pytest.mark.browser

COLOURED = """() => {
    const canvas = document.getElementById('points'), copy = document.createElement('canvas');
    copy.width = canvas.width; copy.height = canvas.height;
    const context = copy.getContext('2d');
    return new Promise((go) => {
        document.getElementById('points').dispatchEvent(new KeyboardEvent('keydown', { key: '0' }));
        requestAnimationFrame(() => {
            context.drawImage(canvas, 0, 0);
            const data = context.getImageData(0, 0, copy.width, copy.height).data;
            const found = new Set();
            for (let at = 0; at < data.length; at += 4)
                if (data[at + 3] > 250) found.add(data.slice(at, at + 3).join());
            go(found.size);
        });
    });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("kind", "query"), [("WebGL", ""), ("2D", "?plain=1")])
def test_points_are_drawn_chosen_and_tagged(browser: Any, tmp_path: Path, kind: str, query: str) -> None:
    path = write_vectors(tmp_path / "data")
    bushel.index(path, columns="auto").close()
    with bushel.view(path) as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open(f"/d/0/map{query}")
        page.wait_for_selector(f"#points[data-drawn='{kind}']")
        assert "39 points; 1 sample has no such vector" in page.locator("#report").inner_text()
        assert page.locator("#legend li").count() == 2
        assert page.evaluate(COLOURED) >= 2
        box = page.locator("#points").bounding_box()
        page.mouse.move(box["x"] + 5, box["y"] + 5)  # around the left half
        page.mouse.down()
        for x, y in ((0.5, 0.01), (0.5, 0.99), (0.01, 0.99), (0.01, 0.01)):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        page.mouse.up()
        until(page, "/^(19|20) samples selected/.test(document.getElementById('chosen').textContent)")
        page.click("[data-do=add]")
        until(page, "/(19|20) have the tag/.test(document.getElementById('chosen').textContent)")
        page.locator("#points").focus()
        page.keyboard.press("+")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("0")
        page.click("[data-do=view]")
        until(page, "document.getElementById('chosen').textContent.startsWith('39 samples selected')")
        assert violations(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.set_viewport_size({"width": 1280, "height": 800})
        page.click("#list")
        until(page, "/^(19|20) of 40 samples/.test(document.getElementById('count').textContent)")
        page.locator(".tile a").first.click()
        page.click("text=More like this")
        until(page, "document.getElementById('count').textContent === '40 samples'")
        assert page.input_value("select[name=sort]").startswith("-like.embedding.")
        assert tab.errors == []
        tab.close()


def test_a_frame_sends_no_points_to_the_graphics_card(browser: Any, tmp_path: Path) -> None:
    """They are there since the map was made: a frame is a few numbers, however many points there are."""
    with bushel.view(write_vectors(tmp_path / "data")) as viewer:
        tab = Page(browser, viewer.url)
        tab.page.add_init_script(
            """window.calls_ = {};
            for (const name of ['bufferData', 'bufferSubData', 'drawArrays', 'createProgram']) {
                const own = WebGLRenderingContext.prototype[name];
                WebGLRenderingContext.prototype[name] = function (...values) {
                    window.calls_[name] = (window.calls_[name] ?? 0) + 1;
                    return own.apply(this, values);
                };
            }"""
        )
        page = tab.open("/d/0/map")
        page.wait_for_selector("#points[data-drawn='WebGL']")
        until(page, "window.calls_.drawArrays > 0")
        page.locator("#points").focus()
        for number, key in enumerate(("+", "ArrowLeft", "-", "0", "ArrowUp")):
            page.evaluate("window.calls_.drawArrays = 0")
            page.keyboard.press(key)
            until(page, "window.calls_.drawArrays > 0")
            calls = page.evaluate("window.calls_")
            assert calls.pop("drawArrays") <= 2, number  # a second time if the first had a share of the points
            assert calls == {"bufferData": 2, "createProgram": 1}, number
        assert tab.errors == []
        tab.close()


def test_a_map_that_moves_slowly_draws_a_share_of_the_points_until_it_rests(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write_vectors(tmp_path / "data")) as viewer:
        tab = Page(browser, viewer.url)
        tab.page.add_init_script(
            """window.counts_ = [];
            const own = WebGLRenderingContext.prototype.drawArrays, asked = requestAnimationFrame;
            WebGLRenderingContext.prototype.drawArrays = function (kind, first, count) {
                window.counts_.push(count);
                return own.call(this, kind, first, count);
            };
            window.requestAnimationFrame = (work) => asked((time) => setTimeout(() => work(performance.now()), 40));"""
        )
        page = tab.open("/d/0/map")
        page.wait_for_selector("#points[data-drawn='WebGL']")
        until(page, "window.counts_.length > 0")
        whole = page.evaluate("window.counts_[0]")
        for _ in range(3):
            page.evaluate("window.counts_ = []")
            page.evaluate("document.getElementById('points').dispatchEvent(new KeyboardEvent('keydown', {key: '+'}))")
            until(page, f"window.counts_.length > 0 && window.counts_.at(-1) === {whole}")
        assert page.evaluate("window.counts_[0]") < whole
        assert tab.errors == []
        tab.close()
