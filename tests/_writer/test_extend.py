"""Writer.extend writes the bytes that append writes, with samples framed together or alone, for every container."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bushel
from bushel.containers.ffrecord.packed_folder import MAGIC
from bushel.errors import CodecError, SpecError

MXNET_MAGIC = (0xCED7230A).to_bytes(4, "little")
CONTAINERS = ("bag", "tar", "ffrecord", "recordio")


def _files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all data files; the sidecars name times."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".bushel" not in path.parts
    }


def _same(spec: dict[str, str], container: str, columns: Any, rows: list[dict[str, Any]], **options: Any) -> None:
    keys, cuts = options.pop("keys", None), options.pop("cuts", ())
    with TemporaryDirectory() as place:
        one, many = Path(place) / "append", Path(place) / "extend"
        with bushel.Writer(one, spec, container=container, sync=False, **options) as writer:
            for number, row in enumerate(rows):
                writer.append(row, None if keys is None else keys[number])
        borders = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
        with bushel.Writer(many, spec, container=container, sync=False, **options) as writer:
            for first, last in zip(borders, borders[1:], strict=False):
                part = {name: column[first:last] for name, column in columns.items()}
                own = None if keys is None else keys[first:last]
                assert writer.extend(part, own) == range(first, last)
            assert len(writer) == len(rows)
        assert _files(many) == _files(one)
        alone = Path(place) / "alone"  # a sample that is not a dict is framed alone
        with bushel.Writer(alone, spec, container=container, sync=False, **options) as writer:
            for number, row in enumerate(rows):
                writer.append(MappingProxyType(row), None if keys is None else keys[number])
        assert _files(alone) == _files(one)
        ours, theirs = bushel.open(many, verify=True), bushel.open(one)
        assert list(ours.keys) == list(theirs.keys)
        everything = range(len(rows))
        assert ours.read(everything, decode=False) == theirs.read(everything, decode=False)
        assert bushel.verify(many).ok


KEYS = st.text(st.sampled_from("abcXYZ019-_/é "), min_size=1, max_size=30)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(CONTAINERS),
    st.lists(
        st.binary(max_size=40) | st.lists(st.sampled_from([MXNET_MAGIC, b"ab", b"x"]), max_size=5).map(b"".join),
        min_size=1,
        max_size=30,
    ),
    st.data(),
)
def test_bytes(container: str, values: list[bytes], data: st.DataObject) -> None:
    keys = None
    if data.draw(st.booleans(), label="keyed"):
        keys = [f"{number}{data.draw(KEYS)}x" for number in range(len(values))]
    limits = data.draw(
        st.sampled_from([{}, {"shard_samples": 3}, {"shard_bytes": 50}, {"shard_bytes": 2000, "shard_samples": 7}])
    )
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=3), label="cuts")
    rows = [{"data": value} for value in values]
    _same({"data": "bytes"}, container, {"data": values}, rows, keys=keys, cuts=cuts, **limits)


ARRAYS: list[tuple[str, Any]] = [
    ("bytes", np.arange(60, dtype=np.uint8).reshape(6, 10)),
    ("array", np.arange(24, dtype=np.float32).reshape(6, 2, 2)),
    ("array", np.arange(6, dtype=np.int16)),
    ("array", np.asfortranarray(np.arange(48).reshape(6, 4, 2))),
    ("array", np.arange(24, dtype=">i4").reshape(6, 4)),
    ("array(float32,2,2)", np.arange(24, dtype=np.float32).reshape(6, 2, 2)),
    ("npy", np.arange(24, dtype=np.uint16).reshape(6, 4)),
    ("npy", np.arange(48).reshape(2, 4, 6).transpose(2, 1, 0)),
    ("npy", np.zeros((6, 0), np.int8)),
    ("int", np.array([0, -1, 127, 128, -(2**63), 2**63 - 1])),
    ("int", np.array([True, False, True, True, False, False])),
    ("int", np.array([0, 1, 2**64 - 1, 5, 6, 7], np.uint64)),
    ("i64", np.array([0, -1, 127, 128, -(2**63), 2**63 - 1])),
    ("u64", np.array([0, 1, 2**64 - 1, 5, 6, 7], np.uint64)),
    ("u64", np.arange(6)),
    ("float", np.array([0, -0.0, np.nan, np.inf, 1e308, 5e-324])),
    ("float", np.arange(6)),
    ("f32", np.array([0, -0.0, np.nan, np.inf, 1e38, 1e-45], np.float32)),
    ("f32", np.array([0, -0.0, np.nan, np.inf, 1e38, 1e-45])),
    ("utf8", ["a", "", "é", "日本", "x" * 300, "e"]),
    ("json", [{}, None, [1], "x", 3, {"a": [None]}]),
    ("int", [1, 2, 3, 4, 5, 2**100]),
]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("kind", "column"), ARRAYS, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(ARRAYS)]
)
def test_columns_of_each_codec(container: str, kind: str, column: Any) -> None:
    plain = [bytes(value) for value in column] if kind == "bytes" else list(column)
    _same({"x": kind}, container, {"x": column}, [{"x": value} for value in plain], cuts=[2])
    several = {"x": column, "label": np.arange(6)}
    rows = [{"x": value, "label": number} for number, value in enumerate(plain)]
    _same({"x": kind, "label": "int"}, container, several, rows, shard_samples=4)


def test_gulp_sequences_and_missing_values(tmp_path: Path) -> None:
    frames = [[b"a"], [], [b"b", b"cc"]]
    rows = [{"frames": own, "meta": {"n": number}} for number, own in enumerate(frames)]
    columns = {"frames": frames, "meta": [row["meta"] for row in rows]}
    _same({"frames": "jpg[]", "meta": "json"}, "gulp", columns, rows, keys=["a", "b", "c"])
    for container in ("tar", "ffrecord"):
        spec = {"words": "utf8[]", "n": "int"}
        values = [{"words": ["x", "y"], "n": 1}, {"words": [], "n": 2}, {"words": ["z"], "n": 3}]
        columns = {name: [value[name] for value in values] for name in spec}
        _same(spec, container, columns, values, keys=["a", "b", "c"])
    values = [{"n": 1, "m": None}, {"n": None, "m": 2}]
    columns = {"n": [1, None], "m": [None, 2]}
    _same({"n": "int", "m": "int"}, "tar", columns, values, keys=["a", "b"])
    with bushel.Writer(tmp_path / "some", {"a": "int", "b": "int"}, container="ffrecord") as writer:
        writer.extend({"a": [1, 2]})
    assert [bushel.open(tmp_path / "some")[number] for number in range(2)] == [
        {"__key__": "0", "a": 1},
        {"__key__": "1", "a": 2},
    ]


@pytest.mark.parametrize("offsets", [np.array([1, 3, 3, 6]), np.array([1, 3, 3, 6], np.int32), [1, 3, 3, 6]])
def test_bytes_and_offsets(tmp_path: Path, offsets: Any) -> None:
    for container in CONTAINERS:
        with bushel.Writer(tmp_path / container, {"data": "bytes"}, container=container) as writer:
            writer.extend({"data": (b"_abcdef", offsets), "__key__": np.array(["x", "y", "z"])})
        ds = bushel.open(tmp_path / container)
        assert [ds[key]["data"] for key in "xyz"] == [b"ab", b"", b"cde"]


def test_arrow_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    columns = {
        "b": pa.array([b"skipped", b"ab", b"", b"c"]).slice(1),
        "t": pa.chunked_array([["é"], ["", "x"]]),
        "n": pa.array([1, -300, 2**40]),
        "v": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
    }
    spec = {"b": "bytes", "t": "utf8", "n": "int", "v": "array"}
    with bushel.Writer(tmp_path / "x", spec, container="bag") as writer:
        writer.extend(columns, keys=pa.array(["p", "q", "r"]))
    ds = bushel.open(tmp_path / "x")
    assert list(ds.keys) == ["p", "q", "r"]
    assert [(s["b"], s["t"], s["n"], s["v"].tolist()) for s in ds] == [
        (b"ab", "é", 1, [1, 2]),
        (b"", "", -300, [3, 4]),
        (b"c", "x", 2**40, [5, 6]),
    ]


@pytest.mark.parametrize(
    ("columns", "keys", "error", "message"),
    [
        ({"a": [1], "b": [1, 2]}, None, SpecError, "a: 1, b: 2"),
        ({"a": [1], "b": [2]}, ["x", "y"], SpecError, "keys: 2"),
        ({"a": [1], "c": [1]}, None, SpecError, "'c', which is not in the spec"),
        ({"a": [1]}, None, SpecError, "field 'b' has no column"),
        ({"a": 1, "b": [1]}, None, SpecError, "field 'a': expected an array or a list"),
        ({"a": b"x", "b": [1]}, None, SpecError, "field 'a': expected an array or a list"),
        ({"a": [1, 2], "b": [1, "x"]}, None, CodecError, "field 'b', sample 1"),
        ({"a": [1, 2], "b": np.array([1.5, 2])}, None, CodecError, "field 'b', sample 0"),
        ({"a": (b"abc", [0, 4]), "b": [1]}, None, SpecError, "field 'a': offsets must ascend"),
        ({"a": (b"abc", [2, 1]), "b": [1]}, None, SpecError, "field 'a': offsets must ascend"),
        ({"a": (b"abc", [0.5, 1]), "b": [1]}, None, SpecError, "field 'a': offsets must be integers"),
        ({"a": [1, 2], "b": [1, 2]}, ["x", "x"], ValueError, "key 'x' is given twice"),
        ({"a": [1], "b": [2]}, [1], TypeError, "a key must be a str"),
        ({}, None, SpecError, "a mapping of fields to columns"),
        ([1], None, SpecError, "a mapping of fields to columns"),
    ],
)
def test_errors_come_before_anything_is_written(
    tmp_path: Path, columns: Any, keys: Any, error: type[Exception], message: str
) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "int", "b": "int"}, container="bag") as writer:
        with pytest.raises(error, match=message):
            writer.extend(columns, keys)
        assert len(writer) == 0


def test_keys_of_other_samples(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"a": "int"}, container="tar", shard_samples=2) as writer:
        writer.append({"a": 0}, key="k0")
        assert writer.extend({"a": np.arange(1, 4)}, keys=["k1", "k2", "k3"]) == range(1, 4)
        for keys in (["k4", "k2"], ["k0", "k4"]):
            with pytest.raises(ValueError, match="is in the dataset already"):
                writer.extend({"a": [1, 2]}, keys)
        with pytest.raises(SpecError, match="cannot hold the key 'a.b'"):
            writer.extend({"a": [1]}, ["a.b"])
        assert len(writer) == 4
    with bushel.Writer(tmp_path / "x", mode="append", shard_samples=2) as writer:
        with pytest.raises(ValueError, match="'k3' is in the dataset already"):
            writer.extend({"a": [1]}, ["k3"])
        writer.extend({"a": [4, 5]}, ["k4", "k5"])
    ds = bushel.open(tmp_path / "x")
    assert [sample["a"] for sample in ds] == [0, 1, 2, 3, 4, 5]
    with bushel.Writer(tmp_path / "y", {"a": "int"}, container="bag") as writer:
        writer.extend({"a": [1]})
        with pytest.raises(ValueError, match="not allowed"):
            writer.extend({"a": [1]}, ["x"])
        assert writer.extend({"a": []}) == range(1, 1)
        writer.extend({"a": [7]}, ["1"])
    assert len(bushel.open(tmp_path / "y")) == 2


def test_resume_keeps_finished_shards(tmp_path: Path) -> None:
    values = [bytes([number]) * 10 for number in range(20)]
    for container in CONTAINERS:
        path = tmp_path / container
        options: dict[str, Any] = {"container": container, "shard_samples": 6}
        writer = bushel.Writer(path, {"data": "bytes"}, **options)
        writer.extend({"data": values[:14]})
        writer.suspend()
        with bushel.Writer(path, {"data": "bytes"}, mode="resume", **options) as again:
            assert len(again) == 12
            again.extend({"data": values[12:]})
        ds = bushel.open(path, verify=True)
        assert [sample["data"] for sample in ds] == values


def test_values_that_readers_would_mistake(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "f", {"data": "bytes"}, container="ffrecord") as writer:
        with pytest.raises(SpecError, match="packed folder"):
            writer.extend({"data": [b"fine", MAGIC + b"x"]})
        assert len(writer) == 0
        writer.extend({"data": [b"fine"]})
    for container in ("ffrecord", "recordio"):
        with bushel.Writer(tmp_path / f"m-{container}", {"data": "bytes"}, container=container) as writer:
            with pytest.raises(SpecError, match="starts like a packed sample"):
                writer.extend({"data": [b"\x82\xa7__key__\xc0"]})
            writer.extend({"data": [b"fine"]})


def test_a_registered_codec_may_encode_columns(tmp_path: Path) -> None:
    bushel.register_codec(
        "twice",
        lambda value: bytes([int(value) * 2]),
        lambda data: data[0] // 2,
        encode_column=lambda array: ((array * 2).astype(np.uint8), np.arange(len(array) + 1, dtype=np.int64)),
        replace=True,
    )
    _same({"x": "twice"}, "bag", {"x": np.arange(5)}, [{"x": number} for number in range(5)])


LARGE = [bytes([0xFF, 0xD8, 0xFF, number]) + bytes(20_000 + number) for number in range(9)]
LARGE[3] = LARGE[3][:4000] + MXNET_MAGIC + LARGE[3][4000:]  # aligned: its record has two parts
LARGE[5] = LARGE[5][:4001] + MXNET_MAGIC + LARGE[5][4001:]
SMALL = [image[:4] + image[3900:4300] for image in LARGE]
NUMBERS = [*range(8), int.from_bytes(MXNET_MAGIC, "little")]
FLOATS = [1.5] * 8 + [float(np.frombuffer(MXNET_MAGIC, "<f4")[0])]
LARGE_KEYS = ["a/b", "12", "007", "1" * 25, "é", "x y", "3.5", "8", "-"]


@pytest.mark.parametrize(
    ("images", "limits"), [(LARGE, {}), (LARGE, {"shard_bytes": 50_000}), (SMALL, {}), (SMALL, {"shard_bytes": 1000})]
)
@pytest.mark.parametrize(
    ("container", "spec", "columns", "keys"),
    [
        ("recordio", {"image": "jpg"}, {"image": LARGE}, LARGE_KEYS),
        ("recordio", {"label": "int", "image": "jpg"}, {"label": [*range(9)], "image": LARGE}, None),
        ("recordio", {"image": "jpg", "label": "float"}, {"image": LARGE, "label": FLOATS}, LARGE_KEYS),
        (
            "recordio",
            {"id2": "u64", "image": "jpg", "id": "u64"},
            {"id2": NUMBERS, "image": LARGE, "id": NUMBERS},
            None,
        ),
        ("recordio", {"image": "jpg", "label": "array"}, {"image": LARGE, "label": [np.arange(2.0)] * 9}, LARGE_KEYS),
        ("gulp", {"frames": "jpg"}, {"frames": LARGE}, LARGE_KEYS),
        (
            "gulp",
            {"text": "utf8", "image": "jpg", "y": "int"},
            {"text": LARGE_KEYS, "image": LARGE, "y": NUMBERS},
            None,
        ),
        ("gulp", {"frames": "jpg", "meta": "json"}, {"frames": LARGE, "meta": [{"a": 1}] * 9}, LARGE_KEYS),
        ("ffrecord", {"data": "bytes"}, {"data": LARGE}, LARGE_KEYS),
        ("ffrecord", {"data": "bytes"}, {"data": LARGE}, None),
        ("ffrecord", {"image": "jpg", "label": "int"}, {"image": LARGE, "label": NUMBERS}, LARGE_KEYS),
    ],
)
def test_images(
    container: str,
    spec: dict[str, str],
    columns: dict[str, list[Any]],
    keys: list[str] | None,
    images: list[bytes],
    limits: dict[str, Any],
) -> None:
    columns = {name: images if column is LARGE else column for name, column in columns.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    _same(spec, container, columns, rows, keys=keys, **limits)


@pytest.mark.parametrize("container", ["recordio", "gulp", "ffrecord"])
def test_large_images_with_a_bad_key(tmp_path: Path, container: str) -> None:
    keys = ["a", "b\tc", "a/b", *"defghi"]
    with bushel.Writer(tmp_path / "x", {"image": "jpg"}, container=container, sync=False) as writer:
        if container == "gulp":
            writer.extend({"image": LARGE}, keys)
        else:
            with pytest.raises(SpecError, match="key"):
                writer.extend({"image": LARGE}, keys)
            writer.extend({"image": LARGE[3:]}, keys[3:])
    assert list(bushel.open(tmp_path / "x").keys) == (keys if container == "gulp" else keys[3:])
    assert bushel.verify(tmp_path / "x").ok
