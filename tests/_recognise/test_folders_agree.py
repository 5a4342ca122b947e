"""A folder that is packed gives what it gives when it is opened: samples, keys, fields, labels, numbers of classes."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bushel
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError

FOLDERS = st.sampled_from(
    ["", "cat/", "dog/", "a-b/", "a/", "a/b/", ".hidden/", "__MACOSX/", "train/cat/", "val/dog/", "é x/"]
)
STEMS = st.sampled_from(["0", "1", "v.1", "v.2", "x y", "._0", ".x", "é"])
SUFFIXES = st.sampled_from(
    [".jpg", ".jpg", ".jpg", ".JPG", ".jpeg", ".png", ".txt", ".json", "", ".jpg~", ".jpg:Zone.Identifier"]
)
NAMES = st.builds(lambda folder, stem, suffix: folder + stem + suffix, FOLDERS, STEMS, SUFFIXES)
LISTINGS = st.lists(NAMES, unique=True, min_size=1, max_size=10)


@cache
def stored(name: str) -> bytes:
    level = hash(name) % 251
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("jpg", "jpeg", "png"):
        return bytes(get_codec(suffix).encode(np.full((4, 4, 3), level, np.uint8)))
    return b'{"a": 1}'


def contents(dataset: bushel.Dataset) -> list[tuple[str, dict[str, Any]]]:
    return [
        (row["__key__"], {name: bytes(each) for name, each in row.items() if name != "__key__"})
        for row in dataset.read(range(len(dataset)), [name for name in dataset.spec if name != "label"], decode=False)
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names=LISTINGS)
def test_packed_is_as_opened(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "in")
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if not (root / name).is_dir():
                (root / name).write_bytes(stored(name))
        (root / "link.jpg").symlink_to("nowhere")
        asked = None
        try:
            opened = bushel.open(root)
        except SpecError:  # it has several splits
            asked = "all"
            opened = bushel.open(root, split=asked)
        except FormatError:  # no media
            return
        bushel.pack(root, Path(place, "out"), container="bag", split=asked, sync=False)
        packed = bushel.open(Path(place, "out"))
        assert contents(packed) == contents(opened)
        assert packed.labels.get("label") == opened.labels.get("label")
        assert set(packed.spec) == set(opened.spec)
        if "label" in opened.spec:
            assert packed.column("label").tolist() == opened.column("label").tolist()
