"""Files from which samples were erased: the original packages read all other samples."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel

pytestmark = pytest.mark.interop

Lines = list[dict[str, Any]]
Original = Callable[..., Lines]
COUNT, GONE = 10, (0, 4, 5, 9)


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


def write(path: Path, spec: dict[str, str], **options: Any) -> Path:
    with bushel.Writer(path, spec, shard_samples=4, **options) as writer:
        for number in range(COUNT):
            values: dict[str, Any] = {"image": jpeg(number), "frames": [jpeg(number), jpeg(number + 100)]}
            values |= {"label": number + 1, "text": f"secret {number}"}
            writer.append({name: values[name] for name in spec}, key=str(number))
    return path


def erase(path: Path) -> None:
    """Remove and erase some samples."""
    bushel.remove(path, keys=[str(number) for number in GONE], reason="opt-out")
    assert bushel.erase(path).samples == len(GONE)


def compare(before: Lines, after: Lines) -> None:
    """Check that the lines of an original are as before, without those of the erased samples."""
    assert len(before) == COUNT
    stay = [line for number, line in enumerate(before) if number not in GONE]
    assert [line["fields"] for line in after] == [line["fields"] for line in stay]


def test_webdataset(original: Callable[[str], Original], tmp_path: Path) -> None:
    run = original("webdataset")
    path = write(tmp_path / "data", {"image": "jpg", "label": "int", "text": "utf8"}, container="tar")
    before = run("read_webdataset.py", path)
    erase(path)
    compare(before, run("read_webdataset.py", path))


@pytest.mark.parametrize("generation", ["B", "C"])
def test_granular(original: Callable[[str], Original], tmp_path: Path, generation: str) -> None:
    run = original(f"granular-{generation.lower()}")
    script = f"read_granular_{generation.lower()}.py"
    path = write(tmp_path / "data", {"image": "jpg", "text": "utf8"}, container="bag", generation=generation)
    before = run(script, path)
    erase(path)
    compare(before, run(script, path))


def test_gulpio2(original: Callable[[str], Original], tmp_path: Path) -> None:
    run = original("gulpio2")
    path = write(tmp_path / "data", {"frames": "jpg[]", "label": "int", "text": "utf8"}, container="gulp")
    before = run("read_gulpio2.py", path)
    erase(path)
    compare(before, run("read_gulpio2.py", path))


@pytest.mark.parametrize("options", [[], ["--no-index"]])
@pytest.mark.parametrize("spec", [{"text": "utf8"}, {"image": "jpg", "label": "float"}])
def test_mxnet(original: Callable[[str], Original], tmp_path: Path, spec: dict[str, str], options: list[str]) -> None:
    run = original("mxnet")
    path = write(tmp_path / "data", spec, container="recordio")
    before = run("read_mxnet.py", path, *options)
    erase(path)
    compare(before, run("read_mxnet.py", path, *options))


@pytest.mark.parametrize(
    ("spec", "options"), [({"text": "utf8"}, ["--folders"]), ({"image": "jpg", "label": "int"}, [])]
)
def test_ffrecord(
    original: Callable[[str], Original], tmp_path: Path, spec: dict[str, str], options: list[str]
) -> None:
    """FFRecord compares the checksums of the header and of each record that it reads."""
    run = original("ffrecord")
    path = write(tmp_path / "data", spec, container="ffrecord")
    before = run("read_ffrecord.py", path, *options)
    erase(path)
    compare(before, run("read_ffrecord.py", path, *options))
