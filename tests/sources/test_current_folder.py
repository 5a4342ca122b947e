"""A source that is given a relative path reads the same files after the current folder has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.compat.granular import v24 as granular
from bushel.sources import Files, Image, LabelledFolder, ListFile, Table

RELATIVE: dict[str, Callable[[], Any]] = {
    "Files": lambda: Files("photos"),
    "LabelledFolder": lambda: LabelledFolder("photos"),
    "ListFile": lambda: ListFile("photos.lst"),
    "ListFile below a folder": lambda: ListFile("names.lst", root="photos"),
    "Table": lambda: Table("photos.csv", Image()),
    "Table below a folder": lambda: Table("names.csv", Image(), root="photos"),
    "rows": lambda: Table([{"path": "photos/cat/0.jpg", "label": "cat"}], Image()),
    "a reader of Granular that is copied": lambda: granular.DatasetReader("bag", granular.decoders).copy(),
}


def first_bytes(source: Any) -> bytes:
    sample = source[0]
    return next(bytes(value) for value in sample.values() if isinstance(value, bytes))


@pytest.mark.parametrize("name", RELATIVE)
def test_a_relative_path_stays_what_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, level in (("here", 0), ("elsewhere", 255)):
        here = tmp_path / place
        (here / "photos" / "cat").mkdir(parents=True)
        image = bushel.jpeg.encode(np.full((8, 8), level, np.uint8))
        (here / "photos" / "cat" / "0.jpg").write_bytes(image)
        (here / "photos.lst").write_text("0\t0\tphotos/cat/0.jpg\n")
        (here / "names.lst").write_text("0\t0\tcat/0.jpg\n")
        (here / "photos.csv").write_text("path,label\nphotos/cat/0.jpg,cat\n")
        (here / "names.csv").write_text("path,label\ncat/0.jpg,cat\n")
        with granular.DatasetWriter(here / "bag", {"image": "bytes"}, granular.encoders) as writer:
            writer.append({"image": image})
    monkeypatch.chdir(tmp_path / "here")
    source = RELATIVE[name]()
    expected = Path("photos/cat/0.jpg").read_bytes()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert first_bytes(source) == expected
    shutil.rmtree("photos")
    assert first_bytes(source) == expected
    if hasattr(source, "copy"):
        assert first_bytes(source.copy()) == expected
