"""Rows of NumPy's files, in place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, check_expected

import bushel
from bushel.testing import READABLE_CHECKS, Golden, Readable

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def saved(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def test_what_numpy_wrote(tmp_path: Path) -> None:
    check_expected("npy", Path(shutil.copytree(FOREIGN / "npy", tmp_path / "npy")) / "embed.npy")


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(check: str, tmp_path: Path) -> None:
    rows = np.load(FOREIGN / "npy" / "embed.npy")
    golden = Golden(FOREIGN / "npy" / "embed.npy", [{"data": row} for row in rows])
    READABLE_CHECKS[check](Readable("npy", golden, tmp_path))


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite_of_several_arrays(check: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "checked").mkdir()
    labels = np.arange(6, dtype=np.int64)
    np.savez(tmp_path / "in" / "both.npz", x=ROWS, label=labels)
    samples = [{"x": row, "label": label} for row, label in zip(ROWS, labels.reshape(6), strict=True)]
    samples = [{"x": each["x"], "label": np.array(each["label"])} for each in samples]
    READABLE_CHECKS[check](Readable("npy", Golden(tmp_path / "in" / "both.npz", samples), tmp_path / "checked"))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5, dtype=np.uint8),
        np.zeros((3, 2, 0, 4))[:0],
        np.zeros((0, 7), np.int32),
        np.array([True, False]),
        np.arange(6, dtype=np.complex64).reshape(3, 2),
        np.asfortranarray(np.arange(4.0)),
        np.arange(24, dtype=np.float16).reshape(2, 3, 4),
    ],
)
def test_dtypes_and_shapes(array: Any, tmp_path: Path) -> None:
    ds = bushel.open(saved(tmp_path / "a.npy", array))
    assert len(ds) == len(array)
    for found, row in zip(ds, array, strict=True):
        assert found["data"].dtype == array.dtype
        assert np.array_equal(found["data"], row)


def test_files_of_a_folder_are_shards(tmp_path: Path) -> None:
    saved(tmp_path / "b.npy", ROWS[:2])
    saved(tmp_path / "a.npy", ROWS[2:])
    ds = bushel.open(tmp_path)
    assert [each["data"].tolist() for each in ds] == [*ROWS[2:].tolist(), *ROWS[:2].tolist()]
    assert not (tmp_path / ".bushel").exists(), "the header is the index"


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    saved(tmp_path / "a.npy", ROWS)
    (tmp_path / "README").write_text("about")
    with pytest.raises(bushel.errors.FormatError):
        bushel.open(tmp_path, container="npy")


def test_a_type_of_the_users_own(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.arange(3, dtype=np.uint8))
    assert [each["label"] for each in bushel.open(path, spec={"label": "uint"})] == [0, 1, 2]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(3.0), r"its shape is \(\), which has no rows"),
        (np.arange(4, dtype=">f8"), "its dtype is >f8"),
        (np.array(["a"]), "its dtype is <U1"),
        (np.asfortranarray(ROWS), "it is in Fortran order"),
        (np.zeros((10**15, 0)), "whose rows have no elements"),
        (np.array([{}], dtype=object), "found str .[|]O.*Python objects are pickles"),
        (np.zeros(2, [("a", "i4")]), "dtype|type string"),
    ],
)
def test_what_has_no_rows_is_refused(array: Any, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(bushel.errors.FormatError, match=message) as caught:
        bushel.open(tmp_path / "a.npy")
    assert caught.value.file == str(tmp_path / "a.npy")
    assert caught.value.hint is not None or not array.size or not array.shape


def test_the_columns_of_records_are_read_as_the_error_says(tmp_path: Path) -> None:
    records = np.array([(1, 0.5), (2, 1.5)], [("a", "i4"), ("b", "f8")])
    np.save(tmp_path / "a.npy", records)
    with pytest.raises(bushel.errors.FormatError, match=r"save such arrays with numpy\.savez"):
        bushel.open(tmp_path / "a.npy")
    columns: dict[str, Any] = {name: records[name] for name in records.dtype.names or ()}
    np.savez(tmp_path / "a.npz", **columns)
    assert bushel.open(tmp_path / "a.npz")[1] == {"__key__": "1", "a": 2, "b": 1.5}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (f"({1 << 63},)", f"needs {1 << 66} bytes, but 64 follow"),
        (f"(2, {1 << 62}, {1 << 62})", "whose rows have"),
        (f"(0, {1 << 62})", f"whose rows have {1 << 65} bytes"),
        (f"({'1,' * 70})", "has 70 dimensions, and NumPy holds 64"),
        ("(-1,)", "has no rows"),
    ],
)
def test_hostile_shapes(shape: str, message: str, tmp_path: Path) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(64))
    with pytest.raises(bushel.errors.FormatError, match=message) as caught:
        bushel.open(path)
    assert caught.value.file == str(path)


def test_a_truncated_array_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", ROWS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(bushel.errors.FormatError, match="which needs 48 bytes, but 47 follow the header"):
        bushel.open(path)


def test_archives_that_are_no_rows(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "small.npz", x=ROWS)
    with pytest.raises(bushel.errors.FormatError, match="array 'x' is compressed, so no row of it can be read alone"):
        bushel.open(tmp_path / "small.npz")
    np.savez(tmp_path / "uneven.npz", x=ROWS, y=ROWS[:2])
    with pytest.raises(bushel.errors.FormatError, match=r"different numbers of rows \(x: 6, y: 2\)"):
        bushel.open(tmp_path / "uneven.npz")
    (tmp_path / "none.npz").write_bytes(b"PK")
    with pytest.raises(bushel.errors.FormatError, match="not a zip archive that can be read"):
        bushel.open(tmp_path / "none.npz")


def test_a_damaged_member_is_found_by_its_crc(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ROWS)
    assert bushel.verify(tmp_path / "a.npz").problems == ()
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(ROWS.tobytes()) + 4] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    problems = bushel.verify(tmp_path / "a.npz").problems
    assert [(each.kind, each.offset) for each in problems] == [("checksum", data.index(b"\x93NUMPY"))]
