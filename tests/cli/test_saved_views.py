"""Commands that take a saved view."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import fails, run
from tests.viewer.serving import write

import bushel


def test_convert_takes_a_view(tmp_path: Path) -> None:
    data = write(tmp_path / "data")
    with bushel.open(data) as dataset:
        dataset[[3, 1]].save_view("two")
    run("convert", data, tmp_path / "out", "-c", "tar", "--fields", "label", "--view", "two")
    with bushel.open(tmp_path / "out") as found:
        assert [found[number]["label"] for number in range(len(found))] == [0, 1]
        assert len(found) == 2
    assert "unknown view 'tow'" in fails("convert", data, tmp_path / "other", "-c", "tar", "--view", "tow")
    assert not (tmp_path / "other").exists()
