"""Columns of the index: names, values, arrays in the sidecar, and what a forged sidecar can do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from tests.fuzz.mutations import with_own_crc32

import bushel
from bushel.core.index.column_names import column_of, possible_columns, usual_columns
from bushel.core.index.values import LONGEST_TEXT, Values, join_parts, of_objects
from bushel.errors import FormatError, SpecError
from bushel.spec import parse_spec

FIELDS = parse_spec(
    {
        "image": "jpg",
        "label": "int",
        "caption": "utf8",
        "meta": "json",
        "meta.more": "json",
        "tokens": "array",
        "clip": "mp4",
        "raw": "bytes",
        "frames": "jpg[]",
        "z": "gzip(utf8)",
    }
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))


@pytest.mark.parametrize(
    ("name", "field", "reading"),
    [
        ("label", "label", "value"),
        ("label.bytes", "label", "bytes"),
        ("caption", "caption", "value"),
        ("caption.length", "caption", "length"),
        ("image.width", "image", "image"),
        ("meta", "meta", "member"),
        ("meta.a.0.b", "meta", "member"),
        ("meta.more.a", "meta.more", "member"),
        ("tokens.shape.1", "tokens", "array"),
        ("clip.fps", "clip", "clip"),
        ("frames.length", "frames", "elements"),
        ("frames.bytes", "frames", "bytes"),
        ("raw.bytes", "raw", "bytes"),
        ("z", "z", "value"),
    ],
)
def test_what_names_mean(name: str, field: str, reading: str) -> None:
    found = column_of(name, FIELDS)
    assert (found.field.name, found.reading) == (field, reading)


@pytest.mark.parametrize("name", ["image", "image.hight", "raw", "tokens", "tokens.shape.x", "frames.width", "label.x"])
def test_columns_that_a_field_cannot_have(name: str) -> None:
    with pytest.raises(SpecError, match="can have"):
        column_of(name, FIELDS)


def test_unknown_fields_get_a_proposal() -> None:
    with pytest.raises(KeyError, match="did you mean 'label'"):
        column_of("lable", FIELDS)
    with pytest.raises(SpecError, match=r"did you mean 'image\.height'"):
        column_of("image.hight", FIELDS)
    assert [each.name for each in usual_columns(FIELDS)] == ["image.width", "image.height", "label", "caption"]
    for name in possible_columns(FIELDS):
        column_of(name, FIELDS)


def texts(values: list[Any]) -> list[Any]:
    """Values as a column of texts has them."""

    def text(value: object) -> object:
        if value is None:
            return None
        written = ("true" if value else "false") if isinstance(value, bool) else str(value)
        try:
            return written if len(written.encode()) <= LONGEST_TEXT else None
        except UnicodeEncodeError:
            return None

    return [text(value) for value in values]


def back(values: Values, rows: Any = slice(None)) -> list[Any]:
    array, missing = values.part(rows)
    found: list[Any] = array.tolist()
    return found if missing is None else [None if no else value for value, no in zip(found, missing, strict=True)]


@given(st.lists(SCALARS, max_size=30))
def test_values_come_back(given_values: list[Any]) -> None:
    column = of_objects(given_values)
    assert len(column) == len(given_values)
    kinds = {type(value) for value in given_values if value is not None}
    expected = given_values
    if str in kinds:
        expected = texts(given_values)
    elif column.kind == "float":
        expected = [None if value is None else as_float(value) for value in given_values]
    elif kinds > {bool}:
        expected = [None if value is None else int(value) for value in given_values]
    assert repr(back(column)) == repr(expected)
    rows = np.arange(len(given_values), dtype=np.int64)[::-1]
    assert repr(back(column, rows)) == repr(expected[::-1])


def as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def test_texts_are_numbered_where_that_pays() -> None:
    few, many = of_objects(["a", "b", "a", "a", None, "a"]), of_objects([f"{number}" for number in range(5)])
    assert few.codes is not None
    assert back(few) == ["a", "b", "a", "a", None, "a"]
    assert many.codes is None
    assert back(of_objects(["x" * LONGEST_TEXT, "x" * (LONGEST_TEXT + 1), "é"])) == ["x" * LONGEST_TEXT, None, "é"]


def test_shards_of_other_kinds_are_joined() -> None:
    parts = [of_objects(values).part(slice(None)) for values in ([1, 2], [True], [0.5, None])]
    array, missing = join_parts(parts)
    assert array.tolist() == [1.0, 2.0, 1.0, 0.5, 0.0]
    assert missing is not None
    assert missing.tolist() == [False, False, False, False, True]
    joint, _ = join_parts([*parts, of_objects(["a"]).part(slice(None))])
    assert joint.tolist() == ["1", "2", "true", "0.5", "0.0", "a"]
    large, _ = join_parts([of_objects([-1]).part(slice(None)), of_objects([1 << 63]).part(slice(None))])
    assert large.tolist() == [-1.0, float(1 << 63)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("columns") / "data"
    with bushel.Writer(root, {"label": "int", "name": "utf8", "id": "utf8"}, container="bag") as writer:
        for number in range(8):
            writer.append({"label": number, "name": "ab"[number % 2], "id": f"id{number}"}, key=f"k{number}")
    bushel.index(root, columns="label,name,id")
    return root


Arrays = dict[str, npt.NDArray[Any]]


def set_to(name: str, value: Any) -> Any:
    def change(arrays: Arrays) -> None:
        arrays[f"__column__.{name}"] = value if isinstance(value, np.ndarray) else value(arrays[f"__column__.{name}"])

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_to("label.values", np.zeros(7, np.int64)),
        set_to("label.values", np.zeros(8, np.uint8)),
        set_to("label.values", np.zeros((8, 1), np.int64)),
        set_to("label.missing", np.zeros(3, np.bool_)),
        set_to("name.codes", np.zeros(7, np.uint32)),
        set_to("name.codes", np.full(8, 7, np.uint32)),
        set_to("name.offsets", np.zeros(0, np.int64)),
        set_to("name.offsets", np.array([0, 1, 1 << 62], np.int64)),
        set_to("name.offsets", np.array([-1, 1, 2], np.int64)),
        set_to("name.offsets", np.array([2, 1, 0], np.int64)),
        set_to("name.text", np.full(2, 0xFF, np.uint8)),
        set_to("id.offsets", lambda old: old[::-1].copy()),
        set_to("id.offsets", lambda old: old[:-1].copy()),
        set_to("id.offsets", lambda old: old * (1 << 60)),
        set_to("id.text", lambda old: old[:-3].copy()),
        lambda arrays: arrays.pop("__column__.label.values"),
        lambda arrays: arrays.pop("__column__.id.text"),
    ],
)
def test_forged_columns(plain: Path, tmp_path: Path, change: Any) -> None:
    root = shutil.copytree(plain, tmp_path / "data")
    [sidecar] = root.glob(".bushel/*.safetensors")
    data = sidecar.read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    arrays = load(data)
    change(arrays)
    changed = save(arrays, json.loads(header)["__metadata__"])
    sidecar.write_bytes(with_own_crc32(changed))
    with pytest.raises((FormatError, KeyError), match=r"index|column|array"):  # or the table is not used
        [bushel.open(root).column(name) for name in ("label", "name", "id")]


def test_truth_values_of_other_bytes(plain: Path, tmp_path: Path) -> None:
    odd = Values("bool", np.frombuffer(b"\x00\x01\x02\xff", np.bool_), np.frombuffer(b"\x00\x02\x00\x00", np.bool_))
    array, missing = odd.part(slice(None))
    assert array.tolist() == [False, True, True, True]
    assert missing is not None
    assert missing.tolist() == [False, True, False, False]
