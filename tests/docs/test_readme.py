"""The blocks of the README are run, and their results are compared with the page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks, run
from tests.paths import ROOT
from tests.sources.folders import image_folder

README, BENCHMARKS = "README.md", "docs/benchmarks.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "photos", 4)
    names: dict[str, Any] = {}
    [example] = blocks(README, "python")
    run(README, example, names)
    samples = len(names["ds"])
    assert names["batch"]["image"].shape == (samples, 224, 224, 3)
    assert names["batch"]["label"].shape == (samples,)
    assert names["state"]["samples"] in (0, samples)
    assert len(example.splitlines()) <= 12


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / README).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_it_is_short_and_begins_with_a_picture() -> None:
    text = (ROOT / README).read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert (
        text.index("docs/view-grid.jpg")
        < text.index("import bushel")
        < text.index("docs/speed.svg")
        < text.index("make demo")
    )


def test_the_figures_are_those_of_the_pages() -> None:
    table = (ROOT / BENCHMARKS).read_text("utf-8").partition("| | Bushel | others |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        linked = re.search(r"\]\(([\w-]+\.md)", row)
        assert linked, row
        page = (ROOT / "docs" / linked[1]).read_text("utf-8")
        for figure in re.findall(r"([\d.]+) (?:ms|µs)", row):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", page), f"{figure} is not on {linked[1]}"


def test_the_picture_shows_the_table() -> None:
    script = runpy.run_path(str(ROOT / "scripts/draw_speed.py"))
    page = (ROOT / BENCHMARKS).read_text("utf-8")
    assert (ROOT / "docs/speed.svg").read_text("utf-8") == script["draw"](page), "run python scripts/draw_speed.py"
    assert [len(row.bars) for row in script["read_rows"](page)] == [3, 3, 3, 2]
