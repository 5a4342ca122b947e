"""A finished run, and one that goes on after a stop, tell other samples from those that they wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel
from bushel._pack.part import StreamItems
from bushel.errors import StateError, TooManyErrors
from bushel.sources import Arrays

COUNT = 12


class Rows:
    """Rows by position, as a dataset of torch has them, that are computed when they are read."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, position: int) -> dict[str, int]:
        return {"x": position * self.factor}


class Computed(Rows):
    """A source."""

    spec = {"x": "int"}


def dicts(factor: int, folder: Path) -> list[dict[str, int]]:
    return [{"x": number * factor} for number in range(COUNT)]


def lists_in_dicts(factor: int, folder: Path) -> list[dict[str, Any]]:
    return [{"x": [number, factor], "y": {"deep": [factor]}} for number in range(COUNT)]


def images(factor: int, folder: Path) -> list[dict[str, Any]]:
    pixels = np.full((8, 8, 3), factor, np.uint8)
    return [{"image": Image.fromarray(pixels)} for _ in range(COUNT)]


def arrays(factor: int, folder: Path) -> Arrays:
    values = np.arange(COUNT)
    values[-3] = factor  # which a sample of the rows may miss
    return Arrays({"x": values, "text": ["same"] * COUNT})


def texts(factor: int, folder: Path) -> Arrays:
    return Arrays({"__key__": [f"{factor}-{row}" for row in range(COUNT)], "x": np.zeros((COUNT, 2))})


def stored_bytes(factor: int, folder: Path) -> Arrays:
    data = np.full(COUNT * 4, factor, np.uint8)
    return Arrays({"x": (data, np.arange(COUNT + 1) * 4)})


def mapped(factor: int, folder: Path) -> Any:
    if not (folder / "source").exists():
        bushel.pack(dicts(1, folder), folder / "source", container="bag")
    return bushel.open(folder / "source").map(lambda sample: {**sample, "x": sample["x"] * factor})


def computed(factor: int, folder: Path) -> Computed:
    return Computed(factor)


def rows_by_position(factor: int, folder: Path) -> Rows:
    return Rows(factor)


def archives(factor: int, folder: Path) -> Any:
    path = folder / f"{factor}.tar"
    if not path.exists():
        bushel.pack(dicts(factor, folder), path)
    return bushel.open_stream(str(path))


def frame(factor: int, folder: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame({"x": [factor] * COUNT})


def arrow_table(factor: int, folder: Path) -> Any:
    return pytest.importorskip("pyarrow").table({"x": [factor] * COUNT})


SOURCES = [
    dicts,
    lists_in_dicts,
    images,
    arrays,
    texts,
    stored_bytes,
    mapped,
    computed,
    rows_by_position,
    archives,
    frame,
    arrow_table,
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_a_finished_run_is_not_taken_for_one_of_other_samples(
    source: Callable[[int, Path], Any], tmp_path: Path
) -> None:
    def pack(factor: int, **options: Any) -> bushel.runs.PackResult:
        return bushel.pack(source(factor, tmp_path), tmp_path / "out", container="tar", **options)

    pack(2, shard_samples=5)
    with pytest.raises(StateError, match="finished run packed other samples .*were compared"):
        pack(3, mode="resume", shard_samples=5)
    assert (pack(2, mode="resume", shard_samples=3).samples, len(bushel.open(tmp_path / "out"))) == (0, COUNT)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("as_arrays", [False, True])
def test_a_run_goes_on_with_the_samples_that_it_began_with(tmp_path: Path, *, shuffle: bool, as_arrays: bool) -> None:
    stop = []

    def key(text: str) -> str:
        stop.append(text)
        if len(stop) == 8:
            raise KeyboardInterrupt
        return text

    def source(factor: int) -> Any:
        numbers = np.arange(COUNT) * factor
        keys = list(map(str, range(COUNT)))
        if as_arrays:
            return Arrays({"__key__": keys, "x": numbers})
        return [{"__key__": key, "x": x} for key, x in zip(keys, numbers.tolist(), strict=True)]

    def pack(factor: int, **options: Any) -> Any:
        return bushel.pack(
            source(factor), tmp_path / "out", container="tar", shard_samples=3, shuffle=shuffle, **options
        )

    with pytest.raises(KeyboardInterrupt):
        pack(2, keys=key)
    with pytest.raises(StateError, match="interrupted run packed other samples"):
        pack(3, mode="resume")
    assert (pack(2, mode="resume").samples, pack(2, mode="resume").samples) == (COUNT - 6, 0)
    assert sorted(sample["x"] for sample in bushel.open(tmp_path / "out")) == [2 * x for x in range(COUNT)]


def test_samples_that_are_not_written_yet_may_be_mended(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [{"x": number} for number in range(COUNT)]
    samples[7] = {"x": "seven"}
    with pytest.raises(TooManyErrors):
        bushel.pack(samples, tmp_path / "out", container="tar", shard_samples=3)
    samples[7] = {"x": 7}
    bushel.pack(samples, tmp_path / "out", container="tar", shard_samples=3, mode="resume")
    assert [sample["x"] for sample in bushel.open(tmp_path / "out")] == list(range(COUNT))


def test_parts_of_other_samples_are_refused(tmp_path: Path) -> None:
    bushel.pack(arrays(2, tmp_path), tmp_path / "out", container="tar", parts=2)
    with pytest.raises(StateError):
        bushel.pack(arrays(3, tmp_path), tmp_path / "out", container="tar", parts=2, mode="resume")


def test_a_stream_that_is_read_once_keeps_no_digests() -> None:
    once = StreamItems(iter([{"x": 1}, {"x": 2}]), again=False)
    twice = StreamItems(iter([{"x": 1}, {"x": 2}]), again=True)
    assert list(once) == list(twice) == [{"x": 1}, {"x": 2}]
    assert once.digest(0, 2, 0) == 0 != twice.digest(0, 2, 0)
    assert not once._digests
