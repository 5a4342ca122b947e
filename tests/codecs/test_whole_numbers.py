"""A whole number is stored and read as that number, or refused: whatever the type, the container and the source."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.formats import FORMATS

import bushel
from bushel.codecs import get_codec
from bushel.errors import CodecError, SpecError

EDGES = [
    1 << 7,
    1 << 8,
    1 << 11,
    1 << 15,
    1 << 24,
    1 << 31,
    1 << 32,
    1 << 53,
    1 << 54,
    1 << 63,
    1 << 64,
    1 << 127,
    10**400,
]
WHOLE = st.builds(
    lambda edge, more, sign: sign * (edge + more),
    st.sampled_from([0, *EDGES]),
    st.integers(-3, 3),
    st.sampled_from([1, -1]),
)
NUMBERS = ["float", "f32", "float-text", "int", "uint", "int(2)", "cls", "i64", "u64", "json", "msgpack"]
ARRAYS = ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"]


@given(WHOLE, st.sampled_from(NUMBERS))
def test_a_codec(value: int, name: str) -> None:
    codec = get_codec(name)
    try:
        stored = codec.encode(value)
    except CodecError:
        return
    assert codec.decode(bytes(stored)) == value


@given(st.lists(WHOLE, max_size=3), st.sampled_from(ARRAYS))
def test_lists_of_json_as_arrays(values: list[int], dtype: str) -> None:
    codec = get_codec(f"json-array({dtype},-1)")
    try:
        found = codec.decode(json.dumps(values).encode())
    except CodecError:
        return
    assert found.dtype == dtype
    assert found.tolist() == values


@pytest.mark.parametrize(
    ("name", "text", "shape"),
    [
        ("json-array(float32,-1,4)", "[]", (0, 4)),
        ("json-array(int64,-1)", "[]", (0,)),
        ("json-array(float32,-1,4)", "[[1, 2, 3, 4]]", (1, 4)),
        ("json-array(float32,-1,4)", "[[]]", None),
        ("json-array(float32,0,4)", "[]", None),
        ("json-array(float32,2)", "[]", None),
    ],
)
def test_an_empty_list_of_json_has_no_rows(name: str, text: str, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        with pytest.raises(CodecError, match="expected an array of shape"):
            get_codec(name).decode(text.encode())
        return
    found = get_codec(name).decode(text.encode())
    assert (found.shape, found.dtype) == (shape, name.partition("(")[2].partition(",")[0])


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@given(st.lists(WHOLE | st.sampled_from([0.5, 1e300]), min_size=1, max_size=3), st.sampled_from([None, "float", "f32"]))
def test_lines(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, values: list[float], declared: str | None
) -> None:
    path = tmp_path_factory.mktemp("lines") / f"x.{suffix}"
    rows = map(json.dumps, values) if suffix == "csv" else (json.dumps({"x": value}) for value in values)
    path.write_text("\n".join([*(["x"] if suffix == "csv" else []), *rows]))
    exact = 1 << (24 if declared == "f32" else 53)
    try:
        dataset = bushel.open(path, spec=None if declared is None else {"x": declared}, index="memory")
    except SpecError:
        assert any(abs(value) > exact for value in values)
        return
    for position, value in enumerate(values):
        try:
            found = dataset[position]["x"]
        except CodecError:
            assert isinstance(value, int) or (declared, value) == ("f32", 1e300)  # f32 holds no such number
            continue
        assert found == value if isinstance(found, int | float) else json.loads(found) == value
    try:
        column = dataset.column("x")
    except KeyError:
        return
    assert column.tolist() == values
    shutil.rmtree(path.parent)


@settings(max_examples=40, deadline=None)
@given(st.lists(WHOLE | st.sampled_from([0.5, "7", "007", "+1", "1_0", " 2", "1e3"]), min_size=1, max_size=3))
def test_a_table_of_files(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("table")
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    rows = [{"path": "a.png", "x": value} for value in values]
    (folder / "t.json").write_text(json.dumps(rows))
    (folder / "t.csv").write_text("\n".join(["path,x", *(f"a.png,{value}" for value in values)]))
    for name in ("t.json", "t.csv"):
        source = bushel.sources.Table(folder / name)
        for position, value in enumerate(values):
            found = source[position]["x"]
            wanted = {"7": 7, "1e3": 1000.0}.get(value, value)  # texts that are numbers, and no more than that
            assert found == wanted or found == str(value), (values, name)
    shutil.rmtree(folder)


@pytest.mark.parametrize("value", [(1 << 53) + 1, np.int64((1 << 53) + 1), (1 << 63) + 1])
@pytest.mark.parametrize("form", FORMATS)
def test_a_writer_refuses_what_a_float_rounds(tmp_path: Path, form: Any, value: Any) -> None:
    name, generation = form
    spec = {"frames": "jpg[]", "x": "float"} if name == "gulp" else {"x": "float"}
    with bushel.Writer(tmp_path / "x", spec, container=name, generation=generation) as writer:
        sample: dict[str, Any] = {"frames": []} if name == "gulp" else {}
        with pytest.raises((CodecError, SpecError), match="a whole number that a 64-bit float keeps"):
            writer.append({**sample, "x": value}, key="k")
        writer.append({**sample, "x": 1 << 53}, key="k")
    assert bushel.open(tmp_path / "x")[0]["x"] == 1 << 53
