"""Columns of the index: names, values, arrays in the sidecar, and what a forged sidecar can do."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
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
from bushel._index.columns import LONGEST_TEXT, Column, join_pieces
from bushel._index.names import column_of, possible_columns, usual_columns
from bushel._index.object_columns import of_objects
from bushel._index.sidecar import load_index
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
LARGE = st.sampled_from([sign * (1 << bits) + more for sign in (-1, 1) for bits in (53, 63, 64) for more in (-1, 0, 1)])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), LARGE, st.floats(), st.text(max_size=20))
COLUMNS = st.one_of(st.lists(SCALARS, max_size=30), st.lists(st.one_of(LARGE, st.floats()), max_size=8))


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
    usual = [each.name for each in usual_columns(FIELDS)]
    assert usual == ["image.width", "image.height", "label", "caption", "caption.length", "tokens.length"]
    for name in possible_columns(FIELDS):
        column_of(name, FIELDS)


def as_column(values: list[Any]) -> list[Any]:
    """Values as a column has them: texts if one is a text; without those that are too long for a column."""

    def text(value: object) -> str:
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def fits(value: object) -> bool:
        try:
            return value is not None and len(text(value).encode()) <= LONGEST_TEXT
        except UnicodeEncodeError:
            return False

    kept = [value if fits(value) else None for value in values]
    return [None if value is None else text(value) for value in kept] if str in set(map(type, kept)) else kept


def back(values: Sequence[Column], rows: Any = slice(None)) -> list[Any]:
    array, missing = join_pieces([each.piece(rows) for each in values])
    found: list[Any] = array.tolist()
    return found if missing is None else [None if no else value for value, no in zip(found, missing, strict=True)]


def same(one: list[Any], two: list[Any]) -> bool:
    """Whether values are equal, as Python compares integers with floats, which is exactly."""
    pairs = list(zip(one, two, strict=True))
    return all(a == b or (a != a and b != b) for a, b in pairs)


@given(COLUMNS, st.lists(st.integers(0, 30), max_size=4))
def test_values_come_back_from_any_shards(given_values: list[Any], cuts: list[int]) -> None:
    expected = as_column(given_values)
    column = of_objects(given_values)
    assert len(column) == len(given_values)
    assert same(back([column]), expected)
    rows = np.arange(len(given_values), dtype=np.int64)[::-1]
    assert same(back([column], rows), expected[::-1])
    bounds = [0, *sorted(min(cut, len(given_values)) for cut in cuts), len(given_values)]
    shards = [of_objects(given_values[a:b]) for a, b in itertools.pairwise(bounds)]
    assert same(back(shards), expected)
    arrays = [join_pieces([each.piece(slice(None)) for each in own])[0] for own in ([column], shards)]
    assert arrays[0].dtype == arrays[1].dtype or not any(value is not None for value in expected)


def test_texts_are_numbered_where_that_pays() -> None:
    few, many = of_objects(["a", "b", "a", "a", None, "a"]), of_objects([f"{number}" for number in range(5)])
    assert few.codes is not None
    assert back([few]) == ["a", "b", "a", "a", None, "a"]
    assert many.codes is None
    assert back([of_objects(["x" * LONGEST_TEXT, "x" * (LONGEST_TEXT + 1), "é"])]) == ["x" * LONGEST_TEXT, None, "é"]


@pytest.mark.parametrize(
    ("shards", "dtype", "expected"),
    [
        ([[1, 2], [True], [0.5, None]], np.float64, [1.0, 2.0, 1.0, 0.5, None]),
        ([[1, 2], [True], [0.5, None], ["a"]], np.object_, ["1", "2", "true", "0.5", None, "a"]),
        ([[True, 1.5], ["a", 2]], np.object_, ["true", "1.5", "a", "2"]),
        ([[True], [None, None], [False]], np.bool_, [True, None, None, False]),
        ([[None], ["a"], [None]], np.object_, [None, "a", None]),
        ([[1], [1 << 63]], np.uint64, [1, 1 << 63]),
        ([[-1], [1 << 63]], np.object_, [-1, 1 << 63]),
        ([[-1, 1 << 63]], np.object_, [-1, 1 << 63]),
        ([[0.5], [(1 << 53) + 1]], np.object_, [0.5, (1 << 53) + 1]),
        ([[0.5, (1 << 53) + 1]], np.object_, [0.5, (1 << 53) + 1]),
        ([[0.5], [1 << 53]], np.float64, [0.5, float(1 << 53)]),
        ([[1 << 200], [1]], np.object_, [1 << 200, 1]),
        ([[10**300], [1]], np.int64, [None, 1]),
    ],
)
def test_no_value_changes_with_the_shards(shards: list[list[Any]], dtype: Any, expected: list[Any]) -> None:
    columns = list(map(of_objects, shards))
    array, _ = join_pieces([each.piece(slice(None)) for each in columns])
    assert array.dtype == dtype
    assert list(map(repr, back(columns))) == list(map(repr, expected))


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
    odd = Column("bool", np.frombuffer(b"\x00\x01\x02\xff", np.bool_), np.frombuffer(b"\x00\x02\x00\x00", np.bool_))
    piece = odd.piece(slice(None))
    assert piece.values.tolist() == [False, True, True, True]
    assert piece.missing is not None
    assert piece.missing.tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    "labels",
    [[0, 7, 12], [10, 10**17, 10**18 - 1], [None, 5, 0], [-1, 2], [10**18, 1], [None, None], [3, 1 << 63]],
    ids=["digits", "long", "one missing", "negative", "longer", "none", "beyond int64"],
)
def test_numbers_stored_as_json_are_columns(tmp_path: Path, labels: list[int | None]) -> None:
    spec = {"frames": "jpg[]", "label": "int"}
    with bushel.Writer(tmp_path / "chunks", spec, container="gulp", columns="label") as writer:
        for row, label in enumerate(labels):
            writer.append({"frames": []} if label is None else {"frames": [], "label": label}, key=f"k{row}")
    for read_again in (False, True):
        if read_again:
            shutil.rmtree(tmp_path / "chunks" / ".bushel")
            bushel.index(tmp_path / "chunks", spec=spec, columns="label")
        [sidecar] = (tmp_path / "chunks" / ".bushel").glob("*.safetensors")
        expected, column = of_objects(labels), load_index(sidecar).columns["label"]
        assert column.kind == expected.kind
        assert column.piece(slice(None)).plain() == expected.piece(slice(None)).plain() == labels
