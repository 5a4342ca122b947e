"""Elements that differ from sample to sample, and rows of arrays: only their bytes are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.counted import counted

import bushel
from bushel._index.elements import Ranges
from bushel.loader.read.batch_reader import BatchReader

CONTAINERS = ["bag", "tar", "ffrecord", "recordio"]
each_container = pytest.mark.parametrize("container", CONTAINERS)
ROWS = (50, 40, 60)
WINDOWS = Ranges.regular(np.array([2, 0, 45, 30, 44]), np.arange(0, 9, 2), np.array([60, 50, 60, 40, 60]))
OF = np.array([2, 0, 2, 1, 2])


def write(path: Path, container: str, kind: str = "array(float32,-1,7)") -> list[np.ndarray[Any, Any]]:
    values = [np.random.default_rng(rows).random((rows, 7), np.float32) for rows in ROWS]
    spec = {"actions": kind, "steps": "int[]", "label": "int"}
    with bushel.Writer(path, spec, container=container, sync=False) as writer:
        for number, value in enumerate(values):
            writer.append({"actions": value, "steps": list(range(len(value))), "label": number}, key=f"e{number}")
    return values


@pytest.mark.parametrize("kind", ["array(float32,-1,7)", "npy", "array", "gzip(npy)"])
def test_rows_of_arrays(tmp_path: Path, kind: str) -> None:
    values = write(tmp_path / "x", "bag", kind)
    ds = bushel.open(tmp_path / "x")
    if kind == "gzip(npy)":
        with pytest.raises(TypeError, match="neither a sequence nor a clip, a sound or an array"):
            ds[0, {"actions": slice(3)}]
        return
    for elements in (slice(3, 9), slice(None, None, -7), [5, -1, 5], range(0, 10, 3), slice(7, 7)):
        chosen = elements if isinstance(elements, slice) else list(elements)
        np.testing.assert_array_equal(ds[1, {"actions": elements}]["actions"], values[1][chosen])
    found = ds.read(range(3), {"actions": slice(-2, None)})
    np.testing.assert_array_equal([sample["actions"] for sample in found], [value[-2:] for value in values])
    with pytest.raises(IndexError, match="an array of 40 rows has no rows"):
        ds[1, {"actions": [40]}]
    assert (
        ds.read([0], {"actions": slice(0, 2)}, decode=False)[0]["actions"] == ds.read([0], decode=False)[0]["actions"]
    )
    assert ds.available(0)["actions"] is True


@each_container
def test_elements_of_each_sample(tmp_path: Path, container: str) -> None:
    values = write(tmp_path / "x", container)
    for verify in (None, True):
        ds = bushel.open(tmp_path / "x", verify=verify)
        mask: Any = {"actions": WINDOWS, "steps": WINDOWS, "label": True}
        for samples in (
            ds.read(OF, mask),
            ds.decode_samples(BatchReader(ds).read_encoded(OF, mask), OF, fields=mask),
        ):
            for place, (sample, of) in enumerate(zip(samples, OF.tolist(), strict=True)):
                np.testing.assert_array_equal(sample["actions"], values[of][WINDOWS.of(place)])
                assert sample["steps"] == WINDOWS.of(place).tolist()
                assert sample["label"] == of


def test_only_the_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x", "bag")
    asked = counted(monkeypatch)
    ds = bushel.open(tmp_path / "x")
    ds.read([1], {"actions": slice(10, 14)})
    assert sum(length for _, length in asked) == 4 * 7 * 4
    asked.clear()
    one: Any = Ranges.regular(np.array([10, 12]), np.arange(4), np.array([40, 40]))
    ds.read([1, 1], {"actions": one})  # rows that both want are read once
    assert sum(length for _, length in asked) == 6 * 7 * 4


def test_rows_that_a_shorter_field_lacks(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "array(int32,-1)", "s": "int[]"}, container="bag") as writer:
        writer.append({"a": np.arange(5, dtype=np.int32), "s": [1, 2, 3]})
    ds = bushel.open(tmp_path / "x")
    beyond: Any = Ranges.regular(np.array([3]), np.arange(3), np.array([9]))
    with pytest.raises(IndexError, match="5 rows"):
        ds.read([0], {"a": beyond})
    with pytest.raises(IndexError, match="'s' of 3 elements has no elements"):
        ds.read([0], {"s": beyond})


def test_a_damaged_array_names_its_sample(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "npy"}, container="bag") as writer:
        writer.append({"a": b"no array"}, key="bad")
    ds = bushel.open(tmp_path / "x")
    both: Any = Ranges.regular(np.array([0, 1]), np.arange(2), np.array([9, 9]))
    with pytest.raises(bushel.errors.CodecError, match="'bad'"):
        ds.read([0, 0], {"a": both})
    with pytest.raises(bushel.errors.CodecError, match="'bad'"):
        ds[0, {"a": slice(0, 1)}]
