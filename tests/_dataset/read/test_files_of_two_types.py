"""A field whose files have values of two types: one type holds all of them, or the error names both files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel


def _lines(path: Path, values: Sequence[Any]) -> None:
    path.with_suffix(".jsonl").write_text("".join(f"{json.dumps({'x': value})}\n" for value in values))


def _cells(path: Path, values: Sequence[Any]) -> None:
    path.with_suffix(".csv").write_text("".join(f"{value}\n" for value in ["x", *values]))


def _rows(path: Path, values: Sequence[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"x": values}), path.with_suffix(".parquet"))


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
        (_cells, [[1, 2], [0.5, 2]], "float", [1.0, 2.0, 0.5, 2.0]),
        (_lines, [[1, 2], ["no", "3"]], "json", [1, 2, "no", "3"]),
        (_lines, [[True, False], ["no", "3"]], "json", [True, False, "no", "3"]),
        (_lines, [[True, False], [1, 3]], "json", [True, False, 1, 3]),
        (_rows, [[True, False], [1, 3]], "json", [True, False, 1, 3]),
        (_rows, [[True, False], [1.0, 0.5]], "json", [True, False, 1.0, 0.5]),
        (_lines, [[[1], [2]], [1.5, 2.5]], "json", [[1], [2], 1.5, 2.5]),
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
        assert repr([_plain(sample[name]) for sample in dataset]) == repr(values)  # as 1 == True
        # what one sees is what is packed
        bushel.convert(folder, tmp_path / f"{order}.tar", sync=False)
        copy = bushel.open(tmp_path / f"{order}.tar")
        assert [_plain(sample[next(iter(copy.spec))]) for sample in copy] == values
        batches = [batch[name] for batch in bushel.Loader(dataset, len(files[0]))]
        forms = {getattr(batch, "dtype", type(batch)) for batch in batches}
        assert len(forms) == 1  # in batches of one file each


def test_an_error_names_both_files(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "data", _cells, [[2**53 + 1], [0.5]])
    with pytest.raises(bushel.BushelError, match="row 0 is 9007199254740993") as raised:
        bushel.open(folder)
    assert "0.csv" in str(raised.value)
    assert "1.csv" in str(raised.value)
    assert "spec=" in str(raised.value)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ([np.ones((2, 3), np.float32), np.ones((2, 3))], "'data' is array(float64,3) in {}, and array(float32,3) in"),
        ([np.ones((2, 3)), np.ones((2, 4))], "'data' is array(float64,4) in {}, and array(float64,3) in"),
        ([np.arange(2), np.ones(2)], "'data' is array(float64) in {}, and array(int64) in"),
        ([np.ones((2, 3)), np.zeros((2, 3))], None),
    ],
)
def test_types_that_no_type_is_known_to_hold_are_said(
    arrays: list[np.ndarray], said: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    dataset = bushel.open(tmp_path)
    assert [np.asarray(sample["data"]).tolist() for sample in dataset] == [
        row.tolist() for array in arrays for row in array
    ]
    texts = [record.getMessage() for record in caplog.records]
    if said is None:
        assert not texts
        return
    [text] = texts
    assert said.format(tmp_path / "1.npy") in text
    bushel.open(tmp_path, spec={"data": "array"})
    assert len(caplog.records) == 1


def test_formats_of_images_are_one_type(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, kind in enumerate(["jpg", "png"]):
        with bushel.Writer(tmp_path / f"{number}.tar", {"image": kind}, sync=False) as writer:
            writer.append({"image": np.zeros((8, 8, 3), np.uint8)}, key=str(number))
    assert len(bushel.open(tmp_path)) == 2
    assert not caplog.records


def test_files_without_values_have_any_type(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    for number, column in enumerate([pyarrow.nulls(2), pyarrow.array([b"a", b"b"]), pyarrow.array([], "string")]):
        parquet.write_table(pyarrow.table({"x": column}), tmp_path / f"{number}.parquet")
    assert len(bushel.open(tmp_path)) == 4
    assert not caplog.records


@pytest.mark.parametrize("kind", ["timestamp", "duration"])
def test_times_of_two_units_have_the_finer_one(kind: str, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def written(name: str, files: list[tuple[str, list[int | None]]]) -> Path:
        (tmp_path / name).mkdir()
        for number, (unit, counts) in enumerate(files):
            times = pyarrow.array(counts, getattr(pyarrow, kind)(unit))
            parquet.write_table(pyarrow.table({"x": times}), tmp_path / name / f"{number}.parquet")
        return tmp_path / name

    dataset = bushel.open(written("both", [("ms", [1, None]), ("us", [2])]))
    dtype = {"timestamp": "M8[us]", "duration": "m8[us]"}[kind]
    values = [sample["x"] for sample in dataset if "x" in sample]
    assert values == [np.array(1000, dtype), np.array(2, dtype)]
    assert {value.dtype for value in values} == {np.dtype(dtype)}
    column: Any = dataset.column("x")
    assert column.compressed().tolist() == np.array([1000, 2], dtype).tolist()
    with pytest.raises(bushel.SpecError, match=r"0\.parquet.* value 0 is .*1\.parquet"):
        bushel.open(written("large", [("ms", [1 << 61]), ("ns", [2])]))


def test_numbers_beside_arrays_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, values in enumerate([[[1, 2]], [1]]):
        parquet.write_table(pyarrow.table({"x": values}), tmp_path / f"{number}.parquet")
    bushel.open(tmp_path)
    assert f"'x' is int in {tmp_path}/1.parquet, and array in files before it" in caplog.text
