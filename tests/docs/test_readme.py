"""What the README shows is run, and what it says comes out is what comes out."""

from __future__ import annotations

import re
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
    names: dict[str, Any] = {}
    assert sum(run(README, block, names) for block in blocks(README, "python")) == 7
    assert names["batch"]["image"].shape == (4, 32, 32, 3)
    assert names["batch"]["label"].shape == (4,)
    assert names["batch"]["label"].dtype == "int64"
    image_folder(tmp_path / "photos", 4)
    [commands] = [block for block in blocks(README, "sh") if block.startswith("bushel ")]
    bushel = shutil.which("bushel", path=str(Path(sys.executable).parent))
    assert bushel is not None
    for command in commands.splitlines():
        done = subprocess.run([bushel, *command.split()[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_three_shards_of_the_tour_are_plain_tar_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(README, blocks(README, "python")[0], {})
    shards = sorted(path.name for path in Path("train").iterdir() if path.name != ".bushel")
    assert len(shards) == 3
    assert all(name.endswith(".tar") for name in shards)


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / README).read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
