"""Single samples, and single windows: what a batch of one gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel._dataset.read import reader
from bushel._dataset.read.joined import JoinedReader
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.window_reader import WindowReader
from bushel.codecs import Codec, get_codec
from bushel.errors import BushelError

LONG = 65  # elements, of which a batch asks for the bytes at once
SEQUENCES: list[list[int]] = [[4, 5, 6], [], list(range(64)), list(range(LONG)), [9]]
MASKS: list[Any] = [
    None,
    ["label"],
    {"numbers": slice(1, 3), "label": True},
    {"numbers": slice(None, None, -1)},
    {"numbers": slice(50, 99)},
    {"numbers": []},
    {"numbers": [0]},
    {"numbers": [-1, 0]},
    {"numbers": [5]},
]


def packed(folder: Path, *, key: bool = True) -> bushel.Dataset:
    spec = {"label": "int", "numbers": "int[]", "texts": "utf8[]", "array": "array"}
    with bushel.Writer(folder / "ds", spec, container="bag", shard_samples=3, sync=False) as writer:
        for number, numbers in enumerate(SEQUENCES):
            texts = [f"é{number}"] * (number % 3)
            sample = {"label": number, "numbers": numbers, "texts": texts, "array": np.arange(number)}
            writer.append(sample, key=f"k{number}" if key else None)
    return bushel.open(folder / "ds")


def outcome(read: Any) -> tuple[str, Any]:
    try:
        sample = read()
    except (BushelError, LookupError, TypeError) as error:
        return type(error).__name__, str(error)
    return "read", {name: np.asarray(value).tolist() for name, value in sample.items()}


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("verify", [None, True, False])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_sample_is_that_of_a_batch(tmp_path: Path, mask: Any, verify: bool | None, key: bool) -> None:
    packed(tmp_path, key=key)
    ds = bushel.open(tmp_path / "ds", verify=verify)
    for position in range(len(ds)):
        single = outcome(lambda place=position: ds[place, mask])
        assert single == outcome(lambda place=position: ds.read([place], mask)[0])
        if single[0] == "read":
            assert list(single[1]) == list(ds.read([position], mask)[0])


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that are read."""
    sizes: list[int] = []
    read = Reader.read

    def counted(self: Reader, positions: Any, *arguments: Any, **options: Any) -> Any:
        sizes.append(len(positions))
        return read(self, positions, *arguments, **options)

    monkeypatch.setattr(Reader, "read", counted)
    return sizes


def test_joined_samples_are_read_value_by_value(tmp_path: Path, batches: list[int], monkeypatch: Any) -> None:
    ds = packed(tmp_path).select_fields(["label", "array"])
    both = bushel.join(ds.select_fields(["label"]), ds.select_fields(["array"]), on="key")
    places: list[int] = []
    monkeypatch.setattr(JoinedReader, "rows_of", lambda *given: places.append(1))
    assert (both[4]["label"], both[4]["array"].tolist(), both[4]["__key__"]) == (4, [0, 1, 2, 3], "k4")
    assert batches == places == []


@pytest.mark.parametrize("pad", [False, True])
def test_a_window_is_that_of_a_batch(tmp_path: Path, pad: bool) -> None:
    ds = packed(tmp_path)
    views = [
        ds.windows("numbers", 3, hop=2, pad=pad),
        ds[::2].windows("numbers", 2, pad=pad),
        ds.select_fields(["numbers"]).windows("numbers", 2, hop=30, step=2, pad=pad),
        ds.windows("numbers", 70, pad=pad),
    ]
    for view in views:
        for position in range(len(view)):
            single = outcome(lambda place=position, windows=view: windows[place])
            assert single == outcome(lambda place=position, windows=view: windows.read([place])[0])


@pytest.mark.parametrize("field", ["numbers", "label"])
def test_keys_of_windows_are_made_once(tmp_path: Path, monkeypatch: Any, field: str) -> None:
    view = packed(tmp_path).windows("numbers", 2)
    made: list[list[str]] = []
    keys = WindowReader.keys

    def counted(self: WindowReader, positions: Any, groups: Any = None) -> list[str]:
        made.append(keys(self, positions, groups))
        return made[-1]

    monkeypatch.setattr(WindowReader, "keys", counted)
    samples = view.read([1, 0], [field])
    assert [[sample["__key__"] for sample in samples]] == [["k2@0", "k0@0"]] == made


def test_no_value_is_decoded_twice_before_a_sequence(tmp_path: Path, monkeypatch: Any) -> None:
    ds = packed(tmp_path)
    decoded: list[str] = []

    def counted(name: str) -> Codec:
        decoded.append(name)
        return get_codec(name)

    monkeypatch.setattr(reader, "get_codec", counted)
    assert list(ds[1, ["array", "texts"]]) == ["__key__", "array", "texts"]
    assert decoded == ["array", "utf8"]
