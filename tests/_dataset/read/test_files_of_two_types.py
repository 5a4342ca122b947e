"""A field whose files have values of two types: one type holds all of them, or the error names both files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.tfrecords import example, framed, int_list

import bushel


def _lines(path: Path, values: Sequence[Any]) -> None:
    path.with_suffix(".jsonl").write_text("".join(f"{json.dumps({'x': value})}\n" for value in values))


def _cells(path: Path, values: Sequence[Any]) -> None:
    path.with_suffix(".csv").write_text("".join(f"{value}\n" for value in ["x", *values]))


def _array(path: Path, values: Sequence[Any]) -> None:
    np.save(path.with_suffix(".npy"), values)


def _parquet(path: Path, values: Sequence[Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    pyarrow.write_table(__import__("pyarrow").table({"x": values}), path.with_suffix(".parquet"))


Write = Callable[[Path, Sequence[Any]], None]


def _folder(folder: Path, write: Write, files: Sequence[Sequence[Any]]) -> Path:
    folder.mkdir()
    for number, values in enumerate(files):
        write(folder / str(number), values)
    return folder


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    ("write", "files", "kind", "expected"),
    [
        (_cells, [[1, 2], ["no", 3]], "utf8", ["1", "2", "no", "3"]),
        (_cells, [["no", "03"], [1.50, 2]], "utf8", ["no", "03", "1.5", "2"]),
        (_cells, [['"a ""b"""', 2], [1, 2]], "utf8", ['a "b"', "2", "1", "2"]),
        (_cells, [[1, 2], [0.5, 2]], "float", [1.0, 2.0, 0.5, 2.0]),
        (_lines, [[1, 2], ["no", "3"]], "json", [1, 2, "no", "3"]),
        (_lines, [[True, False], ["no", "3"]], "json", [True, False, "no", "3"]),
        (_lines, [[[1], [2]], [1.5, 2.5]], "json", [[1], [2], 1.5, 2.5]),
        (_array, [np.arange(2, dtype="i4"), np.array([0.5, 1])], "array(float64)", [0, 1, 0.5, 1]),
        (_array, [np.array([True, False]), np.arange(2, dtype="u1")], "array(uint8)", [1, 0, 0, 1]),
        (_array, [np.zeros((1, 2)), np.ones((1, 3))], "array(float64,-1)", [[0, 0], [1, 1, 1]]),
        (_parquet, [[b"1"], ["a"]], "bytes", [b"1", b"a"]),
    ],
)
def test_one_type_holds_the_values(
    write: Write, files: Sequence[Sequence[Any]], kind: str, expected: list[Any], tmp_path: Path
) -> None:
    for order in (1, -1):
        folder = _folder(tmp_path / f"data{order}", write, files[::order])
        dataset = bushel.open(folder)
        values = expected if order == 1 else expected[len(files[0]) :] + expected[: len(files[0])]
        assert dataset.spec == {next(iter(dataset.spec)): kind}
        [name] = dataset.spec
        assert [_plain(sample[name]) for sample in dataset] == values
        # what one sees is what is packed
        bushel.convert(folder, tmp_path / f"{order}.tar", sync=False)
        copy = bushel.open(tmp_path / f"{order}.tar")
        assert [_plain(sample[next(iter(copy.spec))]) for sample in copy] == values
        batches = [batch[name] for batch in bushel.Loader(dataset, len(files[0]))]
        forms = {getattr(batch, "dtype", type(batch)) for batch in batches}
        assert len(forms) == 1  # in batches of one file each


@pytest.mark.parametrize(
    ("write", "files", "reason"),
    [
        (_array, [np.zeros((1, 2)), np.zeros((1, 2, 3))], "no type holds the values of both"),
        (_array, [np.arange(2), np.array([0.5])], "int64 holds numbers that float64 does not"),
        (_array, [np.arange(2), np.arange(2, dtype="u8")], "int64 holds numbers that float64 does not"),
        (_cells, [[2**53 + 1], [0.5]], "row 0 is 9007199254740993"),
        (_parquet, [[1, 2], [np.datetime64("2020-01-01", "us")]], "no type holds the values of both"),
        (_parquet, [[1, 2], [[1], [2, 3]]], "its first value is 1"),
    ],
)
def test_an_error_names_both_files(write: Write, files: Sequence[Sequence[Any]], reason: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path / "data", write, files)
    with pytest.raises(bushel.BushelError, match=reason) as raised:
        bushel.open(folder)
    first, second = (path.name for path in sorted(folder.iterdir())[-2:])
    assert first in str(raised.value)
    assert second in str(raised.value)
    assert "spec=" in str(raised.value)


def test_a_feature_with_one_value_in_some_files(tmp_path: Path) -> None:
    """Lists of one number in each record are numbers, unless another file has longer ones."""
    for number, lists in enumerate([[[1], [2]], [[3, 4], []]]):
        records = [example({"x": int_list(*numbers)}) for numbers in lists]
        (tmp_path / f"{number}.tfrecord").write_bytes(framed(records))
    dataset = bushel.open(tmp_path)
    assert dataset.spec == {"x": "array(int64,-1)"}
    assert [sample["x"].tolist() for sample in dataset] == [[1], [2], [3, 4], []]
