"""The plots of the page on benchmarks show the figures of the tables."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace
from typing import Any

import pytest
from tests.paths import ROOT


@pytest.fixture(scope="module")
def script() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts/draw_benchmarks.py")))


def test_the_plots_are_up_to_date_and_shown(script: Any) -> None:
    page = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    drawn = script.drawings()
    assert {path.name for path in (ROOT / "docs").glob("benchmarks-*.svg")} == drawn.keys()
    for name, text in drawn.items():
        committed = (ROOT / "docs" / name).read_text("utf-8")
        assert committed == text, "run python scripts/draw_benchmarks.py"
        assert f"]({name})" in page


def test_a_figure_that_changes_changes_the_plot(script: Any) -> None:
    note, panels = script.PLOTS["photos"]
    page = (ROOT / "docs/loading-inside.md").read_text("utf-8")
    assert "| 3,535 | 0.53 |" in page
    changed = page.replace("| 3,535 | 0.53 |", "| 3,535 | 0.99 |")
    before, after = (script.draw(note, panels, {"docs/loading-inside.md": text}) for text in (page, changed))
    assert "0.53 ms" in before
    assert "0.53 ms" not in after
    assert "0.99 ms" in after


def test_bars_are_sorted_and_a_cell_of_several_values_counts_as_its_worst(script: Any) -> None:
    page = "x\n\n| | ms |\n|---|---:|\n| a | 5 |\n| b | 1, 3 |\n| c | 1,000 |\n"
    panel = script.Panel("t", "p", "x", 1, "ms")
    assert script.bars(panel, page) == [("b", 3.0, "3"), ("a", 5.0, "5"), ("c", 1000.0, "1,000")]


def test_where_bushel_loses_is_shown(script: Any) -> None:
    names = ("benchmarks-loading", "benchmarks-reading", "benchmarks-cloud", "loading-inside", "index")
    pages = {f"docs/{name}.md": (ROOT / f"docs/{name}.md").read_text("utf-8") for name in names}
    panels = [panel for _, each in script.PLOTS.values() for panel in each]
    best = [script.bars(panel, pages[panel.page])[0][0] for panel in panels]
    assert sum(re.search(r"ushel|ds\.", name) is None for name in best) >= 3


def test_a_missing_table_is_an_error(script: Any) -> None:
    with pytest.raises(ValueError, match="no table after 'x'"):
        script.table_after("x\n", "x")
    with pytest.raises(ValueError, match="is on the page 2 times"):
        script.table_after("x x", "x")
