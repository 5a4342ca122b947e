"""`bushel sheet`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli.app import app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "data", {"image": "png", "label": "int"}, container="tar") as writer:
        for number in range(10):
            writer.append({"image": np.full((40, 40, 3), 20 * number, np.uint8), "label": number % 2}, key=f"k{number}")
    bushel.index(tmp_path / "data", columns=["label"]).close()
    return tmp_path / "data"


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["sheet", *map(str, arguments)])
    return done.exit_code, done.output


def test_samples_are_drawn_in_rows(data: Path, tmp_path: Path) -> None:
    code, output = run(data, tmp_path / "out.png", "--rows", 2, "--columns", 4, "--side", 40)
    assert (code, "8 samples of 10" in output) == (0, True)
    sheet = np.array(Image.open(tmp_path / "out.png"))
    assert sheet.shape == (2 * 62 + 8, 4 * 48 + 8, 3)
    assert [int(sheet[20, 20 + 48 * column, 0]) for column in range(4)] == [0, 20, 40, 60]
    assert int(sheet[82, 20, 0]) == 80


def test_a_condition_and_a_start(data: Path, tmp_path: Path) -> None:
    code, output = run(data, tmp_path / "out.jpg", "--where", "label == 1", "--start", 1, "--rows", 1, "--side", 40)
    assert (code, "4 samples of 5" in output) == (0, True)
    sheet = np.array(Image.open(tmp_path / "out.jpg")).astype(int)
    assert abs(sheet[20, 20, 0] - 60) < 4


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["out.gif"], "should end in"),
        (["out.png", "--field", "nothing"], "unknown field 'nothing'"),
        (["out.png", "--where", "lable == 1"], "label"),
        (["out.png", "--start", "99"], "no samples to draw"),
    ],
)
def test_wrong_use(data: Path, tmp_path: Path, arguments: list[str], why: str) -> None:
    code, output = run(data, tmp_path / arguments[0], *arguments[1:])
    assert code == 2
    assert why in output


def test_what_cannot_be_drawn_is_counted(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "png"}, container="tar") as writer:
        writer.append({"image": np.zeros((8, 8, 3), np.uint8)}, key="good")
        writer.append({"image": b"\x89PNG broken"}, key="bad")
    code, output = run(tmp_path / "data", tmp_path / "out.png")
    assert code == 1
    assert "1 sample cannot be drawn" in output
    assert (tmp_path / "out.png").exists()
