"""Images whose names have the suffix of another kind: their first bytes count, and their bytes are kept."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests._pack.opening import opened

import bushel


def stored(path: Path) -> list[bytes]:
    dataset = opened(path)
    return [bytes(sample["image"]) for sample in dataset.read(range(len(dataset)), decode=False)]


@pytest.fixture
def files(tmp_path: Path) -> list[bytes]:
    """Images of six kinds in the folder `photos`, all called `.jpg`."""
    (tmp_path / "photos").mkdir()
    files = []
    for number, kind in enumerate(["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"]):
        stream = io.BytesIO()
        Image.fromarray(np.full((9, 7, 3), 40 * number, np.uint8)).save(stream, kind)
        files.append(stream.getvalue())
        (tmp_path / f"photos/{number}.jpg").write_bytes(files[-1])
    return files


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
@pytest.mark.parametrize("kind", ["folder", "pattern", "list", "table", "samples", "stream", "checked"])
def test_images_keep_their_bytes(tmp_path: Path, files: list[bytes], kind: str, container: str) -> None:
    numbers = range(len(files))
    (tmp_path / "x.lst").write_text("".join(f"{number}\t0\tphotos/{number}.jpg\n" for number in numbers))
    (tmp_path / "x.csv").write_text("path\n" + "".join(f"photos/{number}.jpg\n" for number in numbers))
    sources: dict[str, Any] = {
        "folder": tmp_path / "photos",
        "checked": tmp_path / "photos",
        "pattern": f"{tmp_path}/photos/*.jpg",
        "list": tmp_path / "x.lst",
        "table": tmp_path / "x.csv",
        "samples": [{"image": file} for file in files],
        "stream": ({"image": file} for file in files),
    }
    images: Any = "check" if kind == "checked" else None
    done = bushel.pack(sources[kind], tmp_path / "out", container=container, images=images, sync=False)
    assert (done.spec["image"], stored(tmp_path / "out")) == ("jpg", files)


def test_a_declared_type_is_what_they_become(tmp_path: Path, files: list[bytes]) -> None:
    bushel.pack(tmp_path / "photos", tmp_path / "folder.tar", spec={"image": "jpg"})
    bushel.pack([{"image": file} for file in files], tmp_path / "samples.tar", spec={"image": "jpg"})
    for name in ("folder.tar", "samples.tar"):
        assert [file[:3] for file in stored(tmp_path / name)] == [b"\xff\xd8\xff"] * len(files)


def test_a_turned_image_stays_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x112] = 6
    Image.new("RGB", (7, 9)).save(tmp_path / "photos/a.jpg", "PNG", exif=exif)
    bushel.pack(tmp_path / "photos", tmp_path / "x.tar", images="upright")
    assert stored(tmp_path / "x.tar")[0].startswith(b"\x89PNG")
    assert opened(tmp_path / "x.tar")[0]["image"].shape == (7, 9, 3)


def test_a_file_that_only_begins_like_an_image_is_an_error(tmp_path: Path, files: list[bytes]) -> None:
    (tmp_path / "photos/9.jpg").write_bytes(b"BM, a text")
    done = bushel.pack(tmp_path / "photos", tmp_path / "x.tar", max_errors=1)
    assert (done.samples, done.errors) == (len(files), 1)
