"""The blocks of the README are run, and their results are compared with the page."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks, run
from tests.paths import ROOT
from tests.sources.folders import image_folder

README = "README.md"


def test_the_tour_runs_and_says_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "photos", 4)
    names: dict[str, Any] = {}
    assert sum(run(README, block, names) for block in blocks(README, "python")) == 7
    assert names["batch"]["image"].shape == (4, 32, 32, 3)
    assert names["batch"]["label"].shape == (4,)
    assert names["batch"]["label"].dtype == "int64"
    [commands] = [block for block in blocks(README, "sh") if block.startswith("bushel ")]
    bushel = shutil.which("bushel", path=str(Path(sys.executable).parent))
    assert bushel is not None
    for command in commands.splitlines():
        done = subprocess.run([bushel, *command.split()[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_three_shards_of_the_tour_are_plain_tar_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "photos", 4)
    names: dict[str, Any] = {}
    for block in blocks(README, "python")[:2]:
        run(README, block, names)
    shards = sorted(path.name for path in Path("train").iterdir() if path.name != ".bushel")
    assert len(shards) == 3
    assert all(name.endswith(".tar") for name in shards)


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / README).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_screen() -> None:
    head = "\n".join((ROOT / README).read_text("utf-8").splitlines()[:40])
    for expected in (
        "make demo",
        "make test",
        "bushel.Loader(",
        "docs/speed.svg",
        "docs/get-started.md",
        "pip install bushel",
    ):
        assert expected in head


def test_the_figures_are_those_of_the_pages() -> None:
    table = (ROOT / README).read_text("utf-8").partition("| | Bushel | others |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        linked = re.search(r"\]\((docs/[\w-]+\.md)", row)
        assert linked, row
        page = (ROOT / linked[1]).read_text("utf-8")
        for figure in re.findall(r"([\d.]+) (?:ms|µs)", row):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", page), f"{figure} is not on {linked[1]}"


def test_the_picture_shows_the_table() -> None:
    script = runpy.run_path(str(ROOT / "scripts/draw_speed.py"))
    page = (ROOT / README).read_text("utf-8")
    assert (ROOT / "docs/speed.svg").read_text("utf-8") == script["draw"](page), "run python scripts/draw_speed.py"
    assert [len(row.bars) for row in script["read_rows"](page)] == [3, 3, 3, 2]
