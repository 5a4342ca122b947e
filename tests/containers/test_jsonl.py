"""Lines of JSON, read in place."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.read_in_place import FOREIGN, check_damaged, check_expected

import bushel
from bushel.errors import CodecError, FormatError, SpecError
from bushel.testing import READABLE_CHECKS, Golden, Readable

DATASETS = ["jsonl", "jsonl-gz", "jsonl-no-last-newline"]


def written(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    with bushel.open(path, index="memory", **options) as dataset:
        samples = [dict(each) for each in dataset]
        assert dataset.read(range(len(dataset))) == samples, "many samples at once are the same as one by one"
    return [{name: value for name, value in sample.items() if name != "__key__"} for sample in samples]


@pytest.mark.parametrize("name", DATASETS)
def test_what_python_wrote(name: str) -> None:
    check_expected(name, FOREIGN / name, index="memory")


@pytest.mark.filterwarnings("ignore:the order")  # of so small a block
@pytest.mark.parametrize("check", READABLE_CHECKS)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_conformance(name: str, check: str, tmp_path: Path) -> None:
    samples = [{"text": f"line {i}\n" * (i % 3), "label": i, "tokens": [i, i + 1]} for i in range(7)]
    data = "".join(json.dumps(each) + "\n" for each in samples).encode()
    (tmp_path / "in").mkdir()
    (tmp_path / "checked").mkdir()
    path = tmp_path / "in" / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    READABLE_CHECKS[check](Readable("jsonl", Golden(path, samples), tmp_path / "checked"))


def test_types_follow_from_all_values(tmp_path: Path) -> None:
    lines = [
        {"a": 1, "f": 1, "b": True, "t": "x", "e": "x", "m": 1, "n": [1], "z": None, "big": 1, "u": 1},
        {"a": -5, "f": 0.5, "b": False, "t": "", "e": '"\n', "m": "a", "n": {"x": 1}, "big": 10**30, "u": 2**64 - 1},
    ]
    path = written(tmp_path / "x.jsonl", *map(json.dumps, lines))
    dataset = bushel.open(path, index="memory")
    assert {name: field for name, field in dataset.spec.items()} == {
        "a": "int",
        "f": "float",
        "b": "json",
        "t": "utf8",
        "e": "utf8",
        "m": "json",
        "n": "json",
        "z": "json",
        "big": "int",
        "u": "int",
    }
    assert dataset.columns == ("a", "f", "b", "u")
    assert dataset.column("u").tolist() == [1, 2**64 - 1]
    assert read(path) == [{name: value for name, value in line.items() if value is not None} for line in lines]
    assert type(read(path)[0]["f"]) is float


def test_integers_that_floats_cannot_hold_stay_integers(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"x": 9007199254740993}', '{"x": 0.5}')
    assert read(path) == [{"x": 9007199254740993}, {"x": 0.5}]


@pytest.mark.parametrize(
    ("lines", "spec"),
    [
        (['{"x": 1.5}', '{"x": -1e400}'], {}),
        (['{"x": 1}', '{"x": 1e400}'], {}),
        (['{"x": 1}', '{"x": [1e400]}'], {}),
        (['{"x": NaN}', '{"x": 1e400}'], {"x": "float"}),
        (["[1]", "[1e400]"], {"x": "array(float64,1)"}),
        (["[1]", "[1e39]"], {"x": "array(float32,1)"}),
    ],
)
def test_a_number_that_no_float_holds_is_not_infinity(lines: list[str], spec: dict[str, str], tmp_path: Path) -> None:
    """Python and NumPy read it as infinity."""
    whole = [line if line[0] == "{" else f'{{"x": {line}}}' for line in lines]
    (tmp_path / "a.jsonl").write_text("\n".join(whole))
    with pytest.raises(SpecError if spec else CodecError, match="line 2" if spec else "sample '1', field 'x'"):
        bushel.open(tmp_path / "a.jsonl", spec=spec)[1]


def test_line_ends_byte_order_mark_and_empty_lines(tmp_path: Path) -> None:
    want = [{"x": 1}, {"x": 2}, {"x": 3}]
    for number, data in enumerate(
        [
            b'{"x": 1}\n{"x": 2}\n{"x": 3}',
            b'{"x": 1}\r\n{"x": 2}\r\n{"x": 3}\r\n',
            b'\xef\xbb\xbf{"x": 1}\n\n  \n{"x": 2}\n\r\n{"x": 3}\n\n',
            b' {"x":1} \n\t{ "x" : 2 } \n{"x":0,"x":3}\n',
        ]
    ):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(data)
        assert read(path) == want
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert read(tmp_path / "empty.jsonl") == []
    assert read(written(tmp_path / "objects.jsonl", "{}", "{ }")) == [{}, {}]


def test_names_with_escapes(tmp_path: Path) -> None:
    names = ['a"b', "ä", "𝄞", "a\tb", "\\", "/"]
    path = written(tmp_path / "x.jsonl", json.dumps(dict.fromkeys(names, 1)), json.dumps({"ä": 2}, ensure_ascii=False))
    assert read(path) == [dict.fromkeys(names, 1), {"ä": 2}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "expected an object"),
        ('{"a": 1', "expected a comma or }"),
        ('{"a" 1}', "expected a colon"),
        ('{"a": }', "expected a value"),
        ('{"a": 01}', "expected a value"),
        ('{"a": +1}', "expected a value"),
        ('{"a": "x}', "a string does not end"),
        ('{"a": [1', "a list or an object does not end"),
        ('{"a": 1} x', "expected the end of the line"),
        ('{"a": 1,}', "expected a name"),
        ("{a: 1}", "expected a name"),
        ('{"\\ud800": 1}', "half of a surrogate pair"),
        ('{"a": tru}', "expected a value"),
    ],
)
def test_a_damaged_line(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"a": 1}', "", line, '{"a": 2}')
    with pytest.raises(FormatError, match=f"line 3: .*{message}") as caught:
        bushel.index(path)
    assert caught.value.file == str(path)
    assert caught.value.offset is not None
    assert 10 <= caught.value.offset <= 10 + len(line)
    with pytest.warns(bushel.errors.DamagedWarning):
        dataset = bushel.open(path, index="memory")
    assert (len(dataset), dataset[0]["a"], dataset[2]["a"]) == (3, 1, 2)
    with pytest.raises(FormatError, match="'1' cannot be read"):
        dataset[1]


def test_objects_on_several_lines_are_refused_with_what_makes_lines_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", "{", ' "a": 1', "}")
    with pytest.raises(FormatError, match="line 1: the line ends in an object.*jq -c"):
        bushel.index(path)


def test_a_name_that_only_a_damaged_line_has(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"a": 1}', '{"a": 2}', '{"b: "x"}')
    with pytest.warns(bushel.errors.DamagedWarning, match="1 of 3 samples cannot be read"):
        dataset = bushel.open(path, index="memory")
    assert [dataset[row]["a"] for row in range(2)] == [1, 2]
    with pytest.raises(FormatError, match="line 3"):
        dataset[2]


def test_a_value_that_is_damaged_inside_is_the_error_of_its_sample(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"a": [1, 2]}', '{"a": [1 2]}')
    dataset = bushel.open(path, index="memory")
    assert dataset[0]["a"] == [1, 2]
    with pytest.raises(bushel.BushelError, match=r"JSON text"):
        dataset[1]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_fields_cannot_have(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", json.dumps({name: 1, "a": 2}))
    with pytest.raises(FormatError, match=r"x.jsonl: '.*' cannot be the name of a field.*spec="):
        bushel.open(path)
    assert bushel.open(path, spec={"a": "int"})[0]["a"] == 2


def test_hostile_shapes(tmp_path: Path) -> None:
    many = written(tmp_path / "names.jsonl", json.dumps({f"n{i}": i for i in range(20_000)}))
    with pytest.raises(FormatError, match=r"too many different names.*spec="):
        bushel.index(many)
    assert bushel.open(many, index="memory", spec={"n7": "int", "n8": "int"})[0] == {"__key__": "0", "n7": 7, "n8": 8}
    sparse = written(tmp_path / "sparse.jsonl", json.dumps({f"n{i}": i for i in range(5000)}), *["{}"] * 100_000)
    with pytest.raises(FormatError, match="larger than the file"):
        bushel.index(sparse)
    deep = written(tmp_path / "deep.jsonl", '{"a": ' + "[" * 10**6 + "]" * 10**6 + "}", '{"a": 1}')
    dataset = bushel.open(deep, index="memory")
    assert dataset[1]["a"] == 1
    with pytest.raises(bushel.BushelError, match="JSON"):
        dataset[0]
    (tmp_path / "wide.jsonl").write_bytes('{"a": 1}\n'.encode("utf-16"))
    with pytest.raises(FormatError, match="UTF-16"):
        bushel.open(tmp_path / "wide.jsonl")


def test_lines_that_are_longer_than_a_chunk(tmp_path: Path) -> None:
    long = "x" * (9 << 20)
    path = written(tmp_path / "x.jsonl", '{"a": "b"}', json.dumps({"a": long}), '{"a": "c"}')
    assert [len(each["a"]) for each in read(path)] == [1, 9 << 20, 1]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".ndjson.zst"])
def test_compressed_files_of_several_chunks(suffix: str, tmp_path: Path) -> None:
    rng = random.Random(suffix)
    lines = [{"i": i, "text": rng.randbytes(rng.randrange(4000)).hex()} for i in range(2500)]
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    path = tmp_path / f"x{suffix}"
    half = len(data) // 2 + 7
    parts = (data[:half], data[half:])
    packed = gzip.compress(data) if suffix.endswith("gz") else b"".join(bytes(cramjam.zstd.compress(x)) for x in parts)
    path.write_bytes(packed)
    assert read(path) == lines


def test_declared_types(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"t": [1, 2], "n": 3, "s": "5"}', '{"t": [], "n": 4, "s": "6"}')
    [first, second] = bushel.open(path, index="memory", spec={"t": "array(int32,-1)", "n": "float", "s": "int"})
    assert first["t"].dtype == np.int32
    assert (first["t"].tolist(), second["t"].tolist()) == ([1, 2], [])
    assert (first["n"], first["s"], type(first["n"])) == (3.0, 5, float)
    with pytest.raises(SpecError, match="cannot be read as jpg"):
        bushel.open(path, index="memory", spec={"t": "jpg"})
    with pytest.raises(SpecError, match="have escapes"):
        bushel.open(written(tmp_path / "y.jsonl", '{"t": "\\n"}'), index="memory", spec={"t": "int"})
    with pytest.raises(bushel.BushelError, match=r"line 1 is \[256\]"):
        bushel.open(written(tmp_path / "z.jsonl", '{"t": [256]}'), index="memory", spec={"t": "array(uint8,-1)"})[0]


def test_declared_types_of_a_file_with_an_index(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"t": [1, 2], "n": 3, "s": "5"}', '{"t": [], "n": 4, "s": "6"}')
    assert bushel.open(path)[0]["n"] == 3
    assert (tmp_path / ".bushel").exists()
    found = bushel.open(path, spec={"t": "array(int32,-1)", "n": "float", "s": "int"})[0]
    assert (found["t"].dtype, type(found["n"]), found["s"]) == (np.int32, float, 5)
    assert bushel.index(path, spec={"n": "float"})[1]["n"] == 4.0
    assert type(bushel.open(path, spec={"n": "int"})[1]["n"]) is int


@pytest.mark.parametrize(("kind", "values"), [("bool", ["true", "false"]), ("float", ["1", "2"]), ("int", ["1", "2"])])
def test_declared_types_stay_when_lines_are_added(kind: str, values: list[str], tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", f'{{"a": {values[0]}}}')
    bushel.index(path, spec={"a": kind})
    written(path, *(f'{{"a": {value}}}' for value in values))
    assert bushel.open(path).spec == {"a": kind}
    bushel.index(path, force=True)
    assert bushel.open(path).spec == {"a": kind}
    assert [type(sample["a"]).__name__ for sample in bushel.open(path)] == [kind, kind]


def test_files_of_a_folder_are_shards(tmp_path: Path) -> None:
    written(tmp_path / "b.jsonl", '{"x": 2}')
    written(tmp_path / "a.jsonl", '{"x": 1}')
    (tmp_path / "README.md").write_text("about")
    assert read(tmp_path) == [{"x": 1}, {"x": 2}]
    (tmp_path / "c.bin").write_bytes(b"")
    with pytest.raises(FormatError):
        bushel.open(tmp_path, container="jsonl")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda name: name != "__key__"
)


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=5), max_size=8), st.booleans())
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]], ascii_only: bool) -> None:
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    path.write_bytes("".join(json.dumps(each, ensure_ascii=ascii_only) + "\n" for each in lines).encode("utf-8"))
    for found, line in zip(read(path), lines, strict=True):
        assert found.keys() == {name for name, value in line.items() if value is not None}
        for name, value in found.items():
            assert value == line[name] or (isinstance(value, float) and math.isnan(value))


@pytest.mark.filterwarnings("ignore::bushel.errors.DamagedWarning")
def test_damage_gives_an_error_that_names_the_file_or_other_values(tmp_path: Path) -> None:
    for name in ("jsonl/rows.jsonl", "jsonl-gz/rows.jsonl.gz"):
        path = FOREIGN / name
        data = path.read_bytes()
        check_damaged(data, tmp_path / path.name, len(data) // 2, name)


def test_texts_and_numbers_are_not_the_bytes_of_another_codec(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1, "t": "a", "u": 9223372036854775808}\n')
    for name, kind in (("x", "msgpack"), ("t", "msgpack"), ("t", "tree")):
        with pytest.raises(SpecError, match="without a change"):
            bushel.open(tmp_path / "a.jsonl", spec={name: kind})
    for kind in ("datetime64(s)", "timedelta64(ms)"):
        with pytest.raises(SpecError, match="9223372036854775808"):
            bushel.open(tmp_path / "a.jsonl", spec={"u": kind})
