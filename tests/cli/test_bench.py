"""`bushel bench`: what it measures and what it advises."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bushel
from bushel.cli.app import app

QUICK = ("--seconds", "0.2", "--batch", "8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    stream = io.BytesIO()
    Image.fromarray(np.arange(64 * 48 * 3, dtype=np.uint32).reshape(48, 64, 3).astype(np.uint8)).save(stream, "JPEG")
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="tar") as writer:
        for i in range(40):
            writer.append({"image": stream.getvalue(), "label": i}, key=f"k{i}")
    return tmp_path / "data"


def bench(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_it_prints_the_stages_and_one_sentence(data: Path) -> None:
    printed = bench(data, *QUICK, "--crop", 32)
    for part in ("samples/s", "storage", "decode", "collate"):
        assert part in printed
    assert "the trainer waits for data" in printed.splitlines()[-1]


@pytest.mark.parametrize("options", [(), ("--processes", 1), ("--shuffle", "blocks", "--field", "label")])
def test_json_says_the_same(data: Path, options: tuple[object, ...]) -> None:
    result = json.loads(bench(data, *QUICK, "--json", *options))
    assert result["samples_per_second"] > 0
    assert result["bytes_per_second"] > 0
    assert result["stats"]["samples"] > 0
    assert result["advice"]


def test_a_stream_is_refused_with_the_way_to_load_it(data: Path, tmp_path: Path) -> None:
    [tar] = data.glob("*.tar")
    (tmp_path / "s.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    assert "load it with bushel.StreamLoader" in bench(tmp_path / "s.tar.gz", *QUICK, code=2)


def test_wrong_use_is_reported(data: Path, tmp_path: Path) -> None:
    assert "--crop needs an image field; the fields are label" in bench(data, "--crop", 32, "--field", "label", code=2)
    with bushel.Writer(tmp_path / "empty", {"x": "int"}, container="bag"):
        pass
    assert "no samples" in bench(tmp_path / "empty", *QUICK, code=2)


def test_what_does_not_fit_into_memory_is_wrong_use(data: Path) -> None:
    assert "bushel: out of memory: " in bench(data, *QUICK, "--crop", 10_000_000, code=2)
