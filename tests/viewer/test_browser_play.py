"""The player in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.clips import clip
from tests.viewer.browsing import Page, chromium, until, violations
from tests.viewer.played import write_episodes, write_sequences

import bushel

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_an_episode_is_played_and_stepped(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write_episodes(tmp_path / "data"), write_sequences(tmp_path / "sequences")) as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0/s/8")
        page.click("text=Play")
        until(page, "document.querySelector('h1').textContent === 'episode 1'")
        until(page, "document.getElementById('now').textContent === 'step 3 of 7, 0.15 s'")
        until(page, "document.querySelector('.pictures img').src.includes('i=8')")
        page.keyboard.press("ArrowRight")
        until(page, "document.querySelector('.pictures img').src.includes('i=9')")
        assert page.locator(".readout span").first.inner_text() == "4.000"
        page.keyboard.press("Space")
        until(page, "document.getElementById('now').textContent.startsWith('step 6 of 7')")
        until(page, "document.getElementById('run').textContent === 'Play'")
        assert violations(page) == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.keyboard.press("Escape")
        until(page, "document.querySelector('h1').textContent === 'e1-3'")
        page = tab.open("/d/1/play/0")
        until(page, "document.getElementById('now').textContent.startsWith('step 0 of 12')")
        until(page, "document.querySelector('.pictures img').naturalWidth === 24")
        assert tab.errors == []
        tab.close()


def test_a_tile_of_an_episode_opens_the_player(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write_episodes(tmp_path / "data")) as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/")
        until(page, "document.getElementById('count').textContent === '2 episodes'")
        page.click("text=episode 1, 7 samples")
        until(page, "document.querySelector('h1').textContent === 'episode 1'")
        assert [each.get_attribute("class") for each in page.locator("figure").all()] == ["pictures", "channels"]
        page.go_back()
        until(page, "document.getElementById('count').textContent === '2 episodes'")
        page.select_option("[name=by]", "")
        until(page, "document.getElementById('count').textContent === '12 samples'")
        page.click("text=e1-3")
        until(page, "document.querySelector('h1').textContent === 'e1-3'")
        assert violations(page) == []
        assert tab.errors == []
        tab.close()


def test_channels_follow_a_clip(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("av")
    path = clip(tmp_path / "a.webm", rate=10, levels=[10 * number for number in range(20)], height=64, width=96)
    with bushel.Writer(tmp_path / "data", {"video": "webm", "state": "array"}, container="tar") as writer:
        state = np.arange(40, dtype=np.float32).reshape(20, 2)
        writer.append({"video": path.read_bytes(), "state": state}, key="clip")
    with bushel.view(tmp_path / "data") as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0/play/0")
        until(page, "document.querySelector('video').readyState > 0")
        page.locator("#head-of-play").focus()
        for _ in range(10):
            page.keyboard.press("ArrowRight")
        until(page, "Math.abs(document.querySelector('video').currentTime - 1) < .15")
        assert page.locator(".readout span").first.inner_text() == "20.00"
        page.keyboard.press("Space")
        until(page, "document.querySelector('video').currentTime > 1.3")
        until(page, "parseFloat(document.querySelector('.readout span').textContent) >= 26")
        assert violations(page) == []
        assert tab.errors == []
        tab.close()
