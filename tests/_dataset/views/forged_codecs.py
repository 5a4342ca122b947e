"""Datasets whose files name codecs that run code."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz.forged import Bomb, name_codec

import bushel
from bushel.codecs import get_codec

__all__ = ["CODECS", "CONTAINERS", "COUNT", "FRAME", "forged", "trace"]

CONTAINERS = ["bag", "tar", "ffrecord", "recordio", "gulp"]
CODECS = ["pickle", "gzip(pickle)"]
COUNT = 5
FRAME = bytes(get_codec("jpg").encode(np.zeros((8, 8, 3), np.uint8)))


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Path]:
    """A file that must not appear while files alone say that a codec is used."""
    path = tmp_path / "trace"
    yield path
    assert not path.exists(), "a pickle was loaded"


def forged(folder: Path, trace: Path, container: str, codec: str = "pickle", **options: Any) -> bytes:
    """Write a dataset whose files name the codec. Return the stored bytes of each value."""
    stored = Bomb(trace).pickled
    if codec.startswith("gzip"):
        stored = gzip.compress(stored, mtime=0)
    kinds = {"frames": "jpg[]", "notes": "json"} if container == "gulp" else {"notes": "bytes", "label": "int"}
    with bushel.Writer(folder, kinds, container=container, **options) as writer:
        for number in range(COUNT):
            if container == "gulp":
                stored = FRAME  # its other values are text
                writer.append({"frames": [stored], "notes": {"n": number}}, key=f"k{number}")
            else:
                writer.append({"notes": stored, "label": number}, key=f"k{number}")
    assert name_codec(folder, "frames" if container == "gulp" else "notes", codec)
    return stored
