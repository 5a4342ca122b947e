"""A folder that is packed gives what it gives when it is opened: samples, keys, fields, labels, numbers of classes."""

from __future__ import annotations

import os
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bushel
from bushel._dataset.open.sources import splits_of
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


def opened(root: Path) -> bushel.Dataset:
    """Open a folder, with all of its splits."""
    return bushel.open(root, split="all" if splits_of(root).paths else None)


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
        (root / "itself").symlink_to("itself")
        os.mkfifo(root / "pipe.jpg")
        try:
            folder = opened(root)
        except FormatError:  # no media
            return
        split = "all" if splits_of(root).paths else None
        try:
            bushel.pack(root, Path(place, "out"), container="bag", split=split, sync=False)
        except SpecError as error:  # a bag has no samples that lack a field
            assert "lacks the field" in str(error)  # noqa: PT017
            return
        packed = bushel.open(Path(place, "out"))
        assert contents(packed) == contents(folder)
        assert packed.labels.get("label") == folder.labels.get("label")
        assert set(packed.spec) == set(folder.spec)
        if "label" in folder.spec:
            assert packed.column("label").tolist() == folder.column("label").tolist()


IN_ARCHIVES = st.builds(
    lambda folder, stem, suffix: folder + stem + suffix,
    st.sampled_from(["", "cat/", "dog/", "a-b/", "a/", "a/b/", "__MACOSX/", "train/cat/", "val/dog/", "é x/"]),
    st.sampled_from(["0", "1", "x y", "é", "._0"]),
    st.sampled_from([".jpg", ".jpg", ".jpg", ".jpg", ".JPG", ".txt", ".jpg~", ".jpg:Zone.Identifier"]),
)


def samples(dataset: bushel.Dataset) -> list[tuple[str, bytes, str | None]]:
    """Return key, photo and class of each sample, in the order of the keys."""
    [media] = [name for name in dataset.spec if name != "label"]
    names = dataset.labels.get("label")
    classes = [None] * len(dataset) if names is None else [names[number] for number in dataset.column("label")]
    files = [bytes(row[media]) for row in dataset.read(range(len(dataset)), [media], decode=False)]
    return sorted(zip(dataset.keys, files, classes, strict=True))


@given(names=st.lists(IN_ARCHIVES, unique_by=str.lower, min_size=1, max_size=10))
def test_folder_zip_and_tar_agree(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "in")
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(stored(name))
        with tarfile.open(Path(place, "x.tar"), "w") as tar, zipfile.ZipFile(Path(place, "x.zip"), "w") as archive:
            for name in sorted(names):
                tar.add(root / name, name)
                archive.write(root / name, name)
        try:
            folder = opened(root)
        except FormatError:  # no media
            return
        texts = sum(name.endswith(".txt") and "__MACOSX" not in name for name in names)
        # an archive of samples of several files, or with many others, keeps them as they are
        if set(folder.spec) - {"image", "label"} or 2 * texts >= len(folder):
            return
        for path in (Path(place, "x.tar"), Path(place, "x.zip")):
            packed = bushel.open(path)
            assert samples(packed) == samples(folder)
            assert packed.labels.get("label") == folder.labels.get("label")
