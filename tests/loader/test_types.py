"""What loaders yield, to type checkers: `make lint` runs mypy over this file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict, assert_type

import numpy as np
import numpy.typing as npt

import bushel


class Numbers(TypedDict):
    """A batch of the dataset of these tests."""

    x: npt.NDArray[np.int64]
    __key__: list[str]


def numbers(path: Path) -> bushel.Dataset:
    with bushel.Writer(path, {"x": "int"}, container="tar", sync=False) as writer:
        for number in range(6):
            writer.append({"x": number})
    return bushel.open(path)


def test_batches_are_dicts(tmp_path: Path) -> None:
    loader = bushel.Loader(numbers(tmp_path / "ds"), 3)
    assert_type(loader, bushel.Loader[dict[str, Any]])
    for batch in loader:
        assert_type(batch, dict[str, Any])
        assert batch["x"].tolist() in ([0, 1, 2], [3, 4, 5])
    assert_type(loader.peek(), dict[str, Any])
    stream = bushel.StreamLoader(bushel.open_stream(f"{tmp_path}/ds/*.tar"), 3)
    assert_type(next(iter(stream)), dict[str, Any])


def test_the_caller_says_what_they_hold(tmp_path: Path) -> None:
    loader: bushel.Loader[Numbers] = bushel.Loader(numbers(tmp_path / "ds"), 3)
    total = 0
    for batch in loader:
        assert_type(batch["x"], npt.NDArray[np.int64])
        total += int(batch["x"].sum())
    assert total == 15
    assert_type(loader.peek(), Numbers)
    pairs = bushel.Loader[tuple[int, str]](numbers(tmp_path / "other"), 3, collate=lambda got: (len(got), "samples"))
    items: Iterator[tuple[int, str]] = iter(pairs)
    assert next(items) == (3, "samples")
