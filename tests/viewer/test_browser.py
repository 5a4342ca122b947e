"""The viewer in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import LENGTHS
from tests.loader.documents import write as write_documents
from tests.sources.clips import clip
from tests.viewer.browsing import Page, chromium, until, violations
from tests.viewer.serving import write

import bushel
from bushel.transforms import CenterCrop
from bushel.viewer import quality_pages

pytestmark = pytest.mark.browser

SAMPLES = 10_000_000
PAGES = (
    "/d/0",
    "/d/0?view=table",
    "/d/0/s/5",
    "/d/0/shards",
    "/d/0/duplicates",
    "/d/0/quality?with=3",
    "/d/0/compare",
    "/d/0/compare?left=0:caption&right=3:caption&show=differences",
    "/d/2/s/0",
    "/d/0/batches?step=1",
    "/d/0/batches?loader=packs",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bushel.viewer.Viewer]:
    pytest.importorskip("av")
    root = tmp_path_factory.mktemp("browser")
    mixed = write(root / "mixed", 60)
    bushel.index(mixed, columns="auto").close()
    with bushel.Writer(root / "small", {"label": "int"}, container="bag") as writer:
        for number in range(1000):
            writer.append({"label": number % 7}, key=f"k{number:04d}")
    small = bushel.open(root / "small")
    with bushel.Writer(root / "clips", {"video": "webm", "label": "int"}, container="tar") as writer:
        path = clip(root / "a.webm", rate=10, levels=[10 * number for number in range(20)], height=64, width=96)
        writer.append({"video": path.read_bytes(), "label": 1}, key="clip")
    many = small[np.arange(SAMPLES) % 1000]
    documents = write_documents(root / "documents", LENGTHS, container="bag")
    mixture = bushel.mix({"web": documents[:90], "code": documents[90:]}, weights={"web": 0.7, "code": 0.3})
    loaders = {
        "mixed": bushel.Loader(
            bushel.open(mixed), 8, shuffle=True, transforms={"image": CenterCrop(20)}, fields=["image", "caption"]
        ),
        "packs": bushel.Loader(mixture, 8, pack_by="tokens.length", pack_tokens=60),
    }
    with bushel.view(mixed, many, root / "clips", mixed, loaders=loaders) as viewer:
        yield viewer


@pytest.fixture
def tab(browser: Any, viewer: bushel.viewer.Viewer) -> Iterator[Page]:
    tab = Page(browser, viewer.url)
    yield tab
    tab.close()


def test_the_grid_shows_pictures(tab: Page) -> None:
    page = tab.open("/d/0")
    assert page.locator("#count").inner_text() == "60 samples"
    until(page, "[...document.querySelectorAll('.tile img')].filter(i => i.naturalWidth).length >= 15")
    assert page.locator(".tile .key").first.inner_text() == "set/000"
    assert tab.errors == []


def test_ten_million_samples_are_scrolled_to_the_end(tab: Page) -> None:
    page = tab.open("/d/1")
    assert page.locator("#count").inner_text() == "10,000,000 samples"
    page.evaluate("document.getElementById('scroll').scrollTop = 1e9")
    page.wait_for_selector(f".tile[aria-posinset='{SAMPLES}'] .key")
    assert page.locator(f".tile[aria-posinset='{SAMPLES}'] .key").inner_text() == "k0999"
    assert page.locator(".tile").count() < 200
    page.evaluate("document.getElementById('scroll').scrollTop = 0")
    page.wait_for_selector(".tile[aria-posinset='1'] .key")
    assert tab.errors == []


def test_the_wheel_moves_by_rows_in_a_huge_grid(tab: Page) -> None:
    page = tab.open("/d/1")
    page.fill("#goto input", "5000000")
    page.press("#goto input", "Enter")
    page.wait_for_selector(".tile[aria-posinset='5000001'] .key")
    page.mouse.move(800, 400)
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(600)
    first = min(int(each.get_attribute("aria-posinset")) for each in page.locator(".tile:not(.waiting)").all())
    assert abs(first - 5_000_000) < 60
    assert tab.errors == []


def test_keys_are_filtered(tab: Page) -> None:
    page = tab.open("/d/0")
    page.keyboard.press("/")
    page.keyboard.type("^set/01")
    until(page, "document.getElementById('count').textContent === '10 of 60 samples'")
    assert page.locator(".tile").count() == 10
    assert page.url.endswith("?q=%5Eset%2F01")
    assert tab.errors == []


def test_a_click_on_a_histogram_filters_and_a_second_one_undoes(tab: Page) -> None:
    page = tab.open("/d/0")
    chip = page.locator("[data-column='label'] .classes button").nth(2)
    chip.click()
    until(page, "document.getElementById('count').textContent === '20 of 60 samples'")
    assert page.input_value("#where") == "label == 2"
    chip = page.locator("[data-column='label'] .classes button[aria-pressed='true']")
    chip.click()
    until(page, "document.getElementById('count').textContent === '60 samples'")
    assert page.input_value("#where") == ""
    assert tab.errors == []


def test_several_classes_are_chosen_at_once(tab: Page) -> None:
    page = tab.open("/d/0?where=label.bytes+%3E%3D+0")
    for number, expected in ((0, "20 of 60"), (2, "40 of 60")):
        page.locator("[data-column='label'] .classes button").nth(number).click()
        until(page, f"document.getElementById('count').textContent === '{expected} samples'")
        until(page, "document.querySelectorAll('[data-column=label] .classes button').length === 3")
    assert page.input_value("#where") == "label.bytes >= 0 and (label in (0, 2))"
    page.reload()
    page.wait_for_selector("[data-column='label'] [aria-pressed='true']")
    page.locator("[data-column='label'] .classes button").nth(0).click()
    until(page, "document.getElementById('where').value === 'label.bytes >= 0 and (label == 2)'")
    assert tab.errors == []


def test_classes_are_searched_and_intervals_brushed(browser: Any, tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int", "score": "float"}, container="bag") as writer:
        for number in range(900):
            writer.append({"label": number % 300, "score": number / 100}, key=f"k{number:04d}")
    bushel.index(tmp_path / "data", columns="auto").close()
    with bushel.view(tmp_path / "data") as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0")
        until(page, "document.querySelectorAll('[data-column=label] .classes button').length === 100")
        assert "200 more values" in page.locator("[data-column='label']").inner_text()
        page.fill("[data-column='label'] input", "299")
        until(page, "document.querySelectorAll('[data-column=label] .classes button').length === 1")
        page.locator("[data-column='label'] .classes button").click()
        until(page, "document.getElementById('count').textContent === '3 of 900 samples'")
        page.go_back()
        until(page, "document.getElementById('count').textContent === '900 samples'")
        bars = page.locator("[data-column='score'] .bars button")
        until(page, "document.querySelectorAll('[data-column=score] .bars button').length === 28")
        first, last = bars.nth(7).bounding_box(), bars.nth(13).bounding_box()
        page.mouse.move(first["x"] + 1, first["y"] + 40)
        page.mouse.down()
        page.mouse.move(last["x"] + 1, last["y"] + 40, steps=8)
        page.mouse.up()
        until(page, "document.getElementById('count').textContent === '225 of 900 samples'")
        until(page, "document.querySelectorAll('[data-column=score] .bars [aria-pressed=true]').length === 7")
        page.locator("[data-column='score'] .tools button").click()
        page.wait_for_selector("[data-column='score'] .tools [aria-pressed=true]")
        assert tab.errors == []
        tab.close()


def test_long_values_stay_in_their_boxes(browser: Any, tmp_path: Path) -> None:
    long = "x" * 4000
    with bushel.Writer(
        tmp_path / "data", {"meta": "json", "text": "utf8", "words": "utf8[]"}, container="bag"
    ) as writer:
        for key in (long[:900], "short"):
            writer.append({"meta": {long: [long]}, "text": long, "words": [long]}, key=key)
    with bushel.view(tmp_path / "data", tmp_path / "data") as viewer:
        for width in (320, 1280):
            tab = Page(browser, viewer.url)
            tab.page.set_viewport_size({"width": width, "height": 640})
            for path in (
                "/d/0?field=text",
                "/d/0?field=meta",
                "/d/0/s/0",
                "/d/0/duplicates?field=text",
                "/d/0/compare",
            ):
                page = tab.open(path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                shown = "e.checkVisibility() && !e.closest('.wide, pre, .card, .tile')"
                wide = f"[...document.querySelectorAll('main *')].filter(e => {shown} && "
                wide += f"e.getBoundingClientRect().right > {width + 1}).map(e => e.outerHTML.slice(0, 80))"
                assert page.evaluate(wide) == [], path
            tab.close()


def test_samples_are_chosen_with_keys_and_exported(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write(tmp_path / "data", 30), tags=tmp_path / "tags.json") as viewer:
        tab = Page(browser, viewer.url, accept_downloads=True)
        page = tab.open("/d/0")
        page.wait_for_selector(".tile a")
        page.locator(".tile a").first.focus()
        page.keyboard.press("x")
        until(page, "document.getElementById('scope').options[0].textContent === '1 selected'")
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        until(page, "document.activeElement.dataset.row === '4'")
        page.keyboard.press("Shift+X")
        until(page, "document.getElementById('scope').options[0].textContent === '5 selected'")
        assert page.locator(".tile.chosen").count() == 5
        page.keyboard.press("x")
        until(page, "document.getElementById('scope').options[0].textContent === '4 selected'")
        page.locator(".tile .check").nth(6).click()
        until(page, "document.getElementById('scope').options[0].textContent === '5 selected'")
        assert page.input_value("#scope") == "selected"
        with page.expect_download() as download:  # of what is selected, though all are listed
            page.click("text=Export")
            page.click("[data-as=keys]")
        assert len(Path(download.value.path()).read_text().split()) == 5
        page.click("[data-do=show]")
        until(page, "document.getElementById('count').textContent === '5 of 30 samples'")
        assert page.url.endswith("tag=selected")
        with page.expect_download() as download:
            page.click("text=Export")
            page.click("[data-as=keys]")
        listed = Path(download.value.path()).read_text().split()
        assert listed == ["set/000", "set/001", "set/002", "set/003", "set/006"]
        page.click("[data-do=python]")
        page.wait_for_selector("#python:not([hidden])")
        assert "select_keys(['set/000'" in page.locator("#python").inner_text()
        page.click("text=Save view")
        page.fill("#view-name", "good")
        page.click("[data-do=save]")
        until(page, "document.getElementById('python').textContent.startsWith('Saved, 5 samples')")
        page.click("#choosing >> text=Tag")
        page.fill("#tag", "second")
        page.click("[data-do=add]")
        until(page, "document.querySelectorAll('.tile .chip.tag').length === 5")
        page.click("[data-do=clear]")
        until(page, "document.getElementById('scope').value === 'all'")
        assert page.locator("#of-selected").is_hidden()
        assert violations(page) == []
        assert tab.errors == []
        tab.close()


def test_the_table_sorts_and_copies(browser: Any, viewer: bushel.viewer.Viewer) -> None:
    tab = Page(browser, viewer.url, permissions=["clipboard-read", "clipboard-write"])
    page = tab.open("/d/0")
    page.wait_for_selector(".tile a")
    page.click("#view")
    page.wait_for_selector(".as-table .tile[role=row] .key")
    assert page.url.endswith("view=table")
    assert page.evaluate("document.getElementById('scroll').clientHeight") > 600
    until(page, "[...document.querySelectorAll('.tile img')].filter(i => i.naturalWidth).length >= 8")
    until(page, "document.querySelectorAll('#head svg').length > 3")
    for expected, first in (("ascending", "set/000"), ("descending", "set/009")):
        page.click("#head button[title='sort by caption']")
        until(page, f"document.querySelector('#head [aria-sort={expected}]')?.textContent.startsWith('caption')")
        until(page, f"document.querySelector(\".tile[aria-rowindex='1'] .key\")?.textContent === '{first}'")
    page.locator(".tile[aria-rowindex='1'] a").focus()
    page.keyboard.press("ArrowDown")
    until(page, "document.activeElement.dataset.row === '1'")
    page.keyboard.press("c")
    until(page, "document.getElementById('count').textContent.startsWith('copied: set/008')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.split("\t")[0] == "set/008"
    assert "number 8: <b>bold</b>" in copied
    page.keyboard.press("x")
    page.wait_for_selector(".tile.chosen")
    page.keyboard.press("x")
    until(page, "document.querySelectorAll('.tile.chosen').length === 0")
    assert violations(page) == []
    page.keyboard.press("Enter")
    page.wait_for_selector("h1")
    assert page.locator("h1").inner_text() == "set/008"
    page.keyboard.press("Escape")
    page.wait_for_selector(".as-table .tile .key")
    page.go_back()
    page.wait_for_selector("h1")
    page.wait_for_timeout(500)  # a page notes its place, which would end a step back that has just begun
    page.go_back()
    page.wait_for_selector(".as-table .tile .key")
    assert tab.errors == []
    tab.close()


def test_the_table_of_ten_million_samples(tab: Page) -> None:
    page = tab.open(f"/d/1?view=table&row={SAMPLES - 1}")
    page.wait_for_selector(f".tile[aria-rowindex='{SAMPLES}'] .key")
    assert page.locator(".tile").count() < 200
    assert tab.errors == []


def test_back_undoes_a_filter_and_returns_to_the_row(tab: Page) -> None:
    page = tab.open("/d/1")
    page.fill("#goto input", "5000")
    page.press("#goto input", "Enter")
    page.wait_for_selector(".tile[aria-posinset='5001'] .key")
    until(page, "new URLSearchParams(location.search).get('row') > 4900")
    page.fill("input[name=q]", "k0007")
    until(page, "document.getElementById('count').textContent === '10,000 of 10,000,000 samples'")
    page.go_back()
    until(page, "document.getElementById('count').textContent === '10,000,000 samples'")
    assert page.input_value("input[name=q]") == ""
    page.wait_for_selector(".tile[aria-posinset='5001'] .key")
    page.locator(".tile[aria-posinset='5001'] a").click()
    page.wait_for_selector("h1")
    page.keyboard.press("j")
    until(page, "document.querySelector('h1').textContent === 'k0001'")
    page.keyboard.press("Escape")
    page.wait_for_selector(".tile[aria-posinset='5002'] .key")
    page.evaluate("history.go(-3)")  # one after another, a step may end the one before it
    page.wait_for_selector(".tile[aria-posinset='5001'] .key")
    assert tab.errors == []


def test_back_undoes_a_filter_that_is_typed_as_soon_as_the_page_is_there(tab: Page) -> None:
    tab.page.add_init_script("performance.now = () => 100")
    page = tab.open("/d/0?where=label+%3D%3D+1")
    page.fill("#where", "label == 2 and label.bytes > 0")
    until(page, "location.search.includes('bytes')")
    page.go_back()
    until(page, "document.getElementById('where').value === 'label == 1'")
    until(page, "document.getElementById('count').textContent === '20 of 60 samples'")


def test_a_link_opens_at_its_row(tab: Page) -> None:
    page = tab.open("/d/1?sort=-label.bytes&row=777000")
    page.wait_for_selector(".tile[aria-posinset='777001'] .key")
    assert tab.errors == []


def test_one_message_replaces_the_tiles(tab: Page) -> None:
    page = tab.open("/d/0?where=label+%3D+3")
    page.wait_for_selector("#message.wrong")
    assert "write == to compare" in page.locator("#message p").inner_text()
    assert page.locator("#count").inner_text() == ""
    assert page.locator(".tile:visible").count() == 0
    page.locator(".column:not([open]) summary").first.click()  # asks for one more column
    page.wait_for_load_state("networkidle")
    until(page, "document.querySelectorAll('.column[open]').length > 2")
    assert page.locator("body").inner_text().count("write == to compare") == 1
    assert page.locator(".column .bins *").count() == 0
    page.fill("#where", "label == 99")
    page.wait_for_selector("#message.none")
    assert page.locator("#count").inner_text() == "0 of 60 samples"
    page.click("[data-do=all]")
    until(page, "document.getElementById('count').textContent === '60 samples'")
    assert page.locator("#message").is_hidden()
    page.wait_for_selector(".tile a")


def test_a_viewer_that_ended_is_reported_once_and_tried_again(browser: Any, tmp_path: Path) -> None:
    folder, token = write(tmp_path / "data", 12), tmp_path / "token"
    viewer = bushel.view(folder, token_file=token)
    tab = Page(browser, viewer.url)
    page = tab.open("/d/0")
    page.wait_for_selector(".tile a")
    viewer.close()
    page.fill("input[name=q]", "set/00")
    page.wait_for_selector("#message.gone")
    assert "does not answer" in page.locator("#message p").inner_text()
    assert page.locator(".tile:visible").count() == 0
    assert page.locator("#count").inner_text() == ""
    with bushel.view(folder, port=viewer.port, token_file=token):
        until(page, "document.getElementById('count').textContent === '10 of 12 samples'")
    tab.close()


def test_the_grid_is_used_with_keys(tab: Page) -> None:
    page = tab.open("/d/0")
    page.wait_for_selector(".tile a")
    page.locator(".tile a").first.focus()
    for key in ("ArrowRight", "ArrowDown", "End"):
        page.keyboard.press(key)
    until(page, "document.activeElement.dataset.row === '59'")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    until(page, "document.activeElement.dataset.row === '1'")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1")
    assert page.locator("h1").inner_text() == "set/001"
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('h1').textContent === 'set/002'")
    assert tab.errors == []


def test_a_clip_plays_and_seeks(tab: Page) -> None:
    page = tab.open("/d/2/s/0")
    duration = page.evaluate(
        """async () => {
            const video = document.querySelector('video');
            video.muted = true;
            await video.play();
            await new Promise((go) => video.addEventListener('timeupdate', go, { once: true }));
            video.pause();
            video.currentTime = 1.5;
            await new Promise((go) => video.addEventListener('seeked', go, { once: true }));
            return [video.duration, video.currentTime, video.videoWidth];
        }"""
    )
    assert duration == [pytest.approx(2.0, abs=0.2), pytest.approx(1.5), 96]
    assert tab.errors == []


def test_the_batches_of_training_are_shown(tab: Page) -> None:
    page = tab.open("/d/0/batches?loader=mixed&epoch=1")
    until(page, "[...document.querySelectorAll('.batch img')].some(image => image.naturalWidth === 20)")
    page.fill("input[name=epoch]", "2")
    page.click("button.main")
    until(page, "document.querySelector('h1').textContent.includes('Epoch 2, step 0, rank 0 of 1')")
    assert tab.errors == []


def test_what_cannot_be_shown_is_a_card(tab: Page) -> None:
    page = tab.open("/d/0?field=raw")
    page.wait_for_selector(".tile .why")
    assert "has no picture" in page.locator(".tile .why").first.inner_text()


def test_bytes_are_shown_as_hex(tab: Page) -> None:
    page = tab.open("/d/0/s/4")
    page.locator("section", has_text="raw bytes").locator("details.where summary").click()
    page.locator("section", has_text="raw bytes").locator(".hexer").click()
    page.wait_for_selector("pre.hex.loaded")
    assert page.locator("pre.hex.loaded").inner_text().startswith("00000000  00 01 02 03")
    assert tab.errors == []


def test_the_theme_is_kept(tab: Page) -> None:
    page = tab.open("/d/0")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.open("/d/0/shards").evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(browser: Any, viewer: bushel.viewer.Viewer, scheme: str) -> None:
    tab = Page(browser, viewer.url, color_scheme=scheme)
    found = {path: wrong for path in PAGES if (wrong := violations(tab.open(path)))}
    tab.close()
    assert found == {}
    assert tab.errors == []


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_on_a_narrow_screen(tab: Page, path: str) -> None:
    tab.page.set_viewport_size({"width": 320, "height": 640})
    page = tab.open(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert tab.errors == []


def test_pages_need_no_cookies(browser: Any, viewer: bushel.viewer.Viewer, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(viewer.url)
    until(page, "[...document.querySelectorAll('.tile img')].some(i => i.naturalWidth)")
    page.locator(".tile a").first.click()
    page.wait_for_selector("h1")
    assert page.locator("h1").inner_text() == "set/000"
    assert context.cookies() == []
    context.close()


def test_batches_are_stepped_through_and_documents_lead_to_their_rows(tab: Page) -> None:
    page = tab.open("/d/0/batches")
    assert page.locator("h1").inner_text() == "Epoch 0, step 0, rank 0 of 1"
    until(page, "[...document.querySelectorAll('.batch img')].filter(i => i.naturalWidth).length === 8")
    first = page.locator(".batch .key").first.inner_text()
    page.click("#after")
    page.wait_for_load_state("networkidle")
    assert page.locator("h1").inner_text() == "Epoch 0, step 1, rank 0 of 1"
    assert page.locator(".batch .key").first.inner_text() != first
    page.select_option("select[name=loader]", "packs")
    page.click("button.main")
    page.wait_for_load_state("networkidle")
    assert page.locator(".pack").count() == 8
    assert page.locator(".shares tbody tr").count() > 1
    page.locator(".packs summary").first.click()
    assert "tokens from 0" in page.locator(".documents dt").first.inner_text()
    assert tab.errors == []


def test_keys_move_in_the_grid_before_it_has_the_focus(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write(tmp_path / "data", 400)) as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0")
        page.wait_for_selector(".tile a")
        page.keyboard.press("End")
        until(page, "document.activeElement.dataset.row === '399'")
        tab.close()


def test_tiles_have_margins_on_a_narrow_screen(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write(tmp_path / "data", 30)) as viewer:
        tab = Page(browser, viewer.url)
        tab.page.set_viewport_size({"width": 400, "height": 800})
        page = tab.open("/d/0")
        page.wait_for_selector(".tile img")
        edges = page.evaluate(
            "[...document.querySelectorAll('.tile')].map((each) => each.getBoundingClientRect())"
            ".map((box) => [box.left, box.right])"
        )
        space = page.evaluate("document.getElementById('scroll').clientWidth")
        assert min(left for left, _ in edges) == 16
        assert max(right for _, right in edges) in (space - 16, space - 17)
        tab.close()


def test_the_menu_of_the_selection_is_not_tall_on_a_narrow_screen(browser: Any, tmp_path: Path) -> None:
    with bushel.view(write(tmp_path / "data", 30)) as viewer:
        tab = Page(browser, viewer.url)
        tab.page.set_viewport_size({"width": 400, "height": 800})
        page = tab.open("/d/0")
        page.wait_for_selector(".tile a")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("x")
        until(page, "document.getElementById('scope').value === 'selected'")
        assert page.evaluate("document.getElementById('choosing').getBoundingClientRect().height") < 100
        page.click("text=Export")
        box = page.locator("[data-as=table]").bounding_box()
        assert box["x"] + box["width"] < 384
        tab.close()


def test_predictions_that_differ_are_red(browser: Any, tmp_path: Path) -> None:
    names = ["apple", "lemon"]
    with bushel.Writer(
        tmp_path / "data", {"label": "int", "prediction": "int"}, container="tar", labels={"label": names}
    ) as writer:
        for number in range(4):
            writer.append({"label": 1, "prediction": number % 2}, key=f"k{number}")
    with bushel.view(tmp_path / "data") as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0")
        page.wait_for_selector(".tile .chip")
        assert page.locator(".tile .chip.bad").all_inner_texts() == ["0 apple", "0 apple"]
        assert tab.errors == []
        tab.close()


def test_clips_play_under_the_pointer(tab: Page) -> None:
    page = tab.open("/d/2")
    page.wait_for_selector(".tile img")
    page.hover(".tile img")
    until(page, "document.querySelector('.tile video.player')?.currentTime > 0")
    assert page.locator(".tile .length").inner_text() == "2.0 s"
    page.mouse.move(5, 5)
    until(page, "document.querySelectorAll('.tile .player').length === 0")
    assert tab.errors == []


def test_all_samples_are_measured_with_a_progress_bar(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality_pages, "_SECONDS", 0.01)
    with bushel.view(write(tmp_path / "data", 300)) as viewer:
        tab = Page(browser, viewer.url)
        page = tab.open("/d/0/quality")
        assert page.locator(".measuring progress").get_attribute("max") == "300"
        page.click("text=Measure all")
        until(page, "document.querySelector('.measuring p').textContent.includes('300 of 300 samples')")
        until(page, "!document.querySelector('progress')")
        assert tab.errors == []
        tab.close()
