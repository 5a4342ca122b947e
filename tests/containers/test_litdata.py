"""LitData, read in place."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.litdata_chunks import LEAF, dict_of, write
from tests.containers.read_in_place import check_damaged, check_expected, check_suite, copy
from tests.sources.folders import jpeg

import bushel
from bushel.errors import BushelError, FormatError, UntrustedWarning
from bushel.testing import READABLE_CHECKS

each_dataset = pytest.mark.parametrize("name", ["litdata-plain", "litdata-zstd"])
TEXTS = [f"{number} text".encode() * (number % 7) for number in range(11)]
ROWS = [[text, number.to_bytes(8, "little")] for number, text in enumerate(TEXTS)]
FORMATS = {"x": "str", "n": "int"}


@each_dataset
def test_what_litdata_wrote(name: str, tmp_path: Path) -> None:
    check_expected(name, copy(name, tmp_path))
    assert bushel.verify(tmp_path / name).ok
    assert bushel.open(tmp_path / name).info.container == "litdata"


@pytest.mark.filterwarnings("ignore:the order .* expands")
@each_dataset
@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(name: str, check: str, tmp_path: Path) -> None:
    check_suite("litdata", check, copy(name, tmp_path), tmp_path)


@pytest.mark.parametrize("level", [None, "chunk", "sample", "batch"])
def test_chunks_of_all_kinds(level: str | None, tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS[:6], ROWS[6:]], level=level)
    ds = bushel.open(path, verify=True)
    assert [(each["x"], each["n"]) for each in ds] == [(text.decode(), n) for n, text in enumerate(TEXTS)]
    assert ds[10]["x"] == TEXTS[10].decode()
    assert bushel.verify(path).ok


def test_a_chunk_that_litdata_has_expanded(tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS])
    index = json.loads((path / "index.json").read_text())
    index["chunks"][0]["filename"] = "chunk-0-0.zstd.bin"
    index["config"] |= {"compression": "zstd", "compression_level": "chunk"}
    (path / "index.json").write_text(json.dumps(index))
    assert [each["n"] for each in bushel.open(path)] == list(range(11))


def test_all_formats(tmp_path: Path) -> None:
    photo, pixels = jpeg(1, 8, 9), np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    values: dict[str, tuple[str, bytes, Any]] = {
        "a": ("bytes", b"\0\1", b"\0\1"),
        "b": ("text", "é".encode(), "é"),
        "c": ("int", (-5).to_bytes(8, "little", signed=True), -5),
        "d": ("float", np.float64(1.5).tobytes(), 1.5),
        "e": ("bool", b"\1", True),
        "f": ("no_header_numpy:9", np.arange(3, dtype="<f4").tobytes(), np.arange(3)),
        "g": ("no_header_tensor:17", np.arange(3, dtype="<i8").tobytes(), np.arange(3)),
        "h": ("no_header_tensor:10", b"\0\1", b"\0\1"),
        "i": ("numpy", struct.pack("<4I", 1, 2, 2, 1) + b"\1\0\2\0", [[1], [2]]),
        "j": ("tensor", struct.pack(">4I", 13, 2, 2, 1) + b"\1\0\2\0", [[1], [2]]),
        "k": ("pil", struct.pack("<III", 4, 2, 3) + b"RGB" + pixels.tobytes(), pixels),
        "l": ("file:txt", b"text", "text"),
        "m": ("json", b"\x02\x01\0\0\0" + (7).to_bytes(8, "little"), [7]),
    }
    formats = {name: format_ for name, (format_, _, _) in values.items()}
    formats |= {"n": "jpeg", "o": "image:jpg", "p": "jpeg_array"}
    row = [stored for _, stored, _ in values.values()]
    row += [photo, photo, struct.pack("<II", 1, len(photo)) + photo]
    ds = bushel.open(write(tmp_path / "x", formats, [[row, row]]), verify=True)
    for name, (_, stored, value) in values.items():
        np.testing.assert_equal(ds[1][name], value)
        assert ds.read([1], [name], decode=False)[0][name] == stored
    assert np.array_equal(ds[1]["n"], ds[1]["p"][0])
    assert ds[1]["o"].shape == (8, 9, 3)


def test_names_of_leaves(tmp_path: Path) -> None:
    two = {"type": "builtins.list", "context": "null", "children_spec": [LEAF, LEAF]}
    tree = dict_of(a=LEAF, b=two, c=dict_of(d=LEAF))
    path = write(tmp_path / "x", dict.fromkeys("abcd", "str"), [[[b"1", b"2", b"3", b"4"]]], tree)
    assert bushel.open(path)[0] == {"__key__": "0", "a": "1", "b.0": "2", "b.1": "3", "c.d": "4"}
    assert bushel.open(write(tmp_path / "y", {"a": "str"}, [[[b"1"]]], LEAF))[0]["data"] == "1"


def test_tokens(tmp_path: Path) -> None:
    documents = [np.arange(size, dtype="<u2") for size in (3, 0, 5)]
    rows = [[each.tobytes()] for each in documents]
    path = write(tmp_path / "x", {"t": "no_header_tensor:20"}, [rows], LEAF, item_loader="TokensLoader")
    ds = bushel.open(path)
    assert ds.spec == {"tokens": "array(uint16,-1)"}
    assert [each["tokens"].tolist() for each in ds] == [each.tolist() for each in documents]


def test_pickles_only_if_requested(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"p": "pickle"}, [[[pickle.dumps({1, 2})]]])
    with pytest.warns(UntrustedWarning, match="pickle=True"):
        assert bushel.open(path)[0]["p"] == pickle.dumps({1, 2})
    assert bushel.open(path, pickle=True)[0]["p"] == {1, 2}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"encryption": {"algorithm": "fernet", "level": "sample"}}, "its chunks are encrypted"),
        ({"item_loader": "ParquetLoader"}, "its chunks are for ParquetLoader"),
        ({"compression": "lz4"}, "its compression is 'lz4', expected zstd"),
        ({"data_format": ["str"]}, "2 leaves have 1 formats"),
        ({"data_format": ["str", "evil"]}, r"leaf 'n' has the unknown format 'evil' .*spec=\{'n': 'bytes'\}"),
        ({"data_format": ["str", "no_header_numpy:" + "9" * 5000]}, "leaf 'n' has the unknown format"),
        ({"data_format": ["str", "no_header_numpy:99"]}, "unknown format 'no_header_numpy:99'"),
        ({"data_spec": None}, "data_spec is missing"),
        ({"data_spec": "[2, {}]"}, "version 2"),
        ({"data_spec": "[1, {}]"}, "not an index of LitData"),
        ({"data_spec": "[1, " + json.dumps(dict_of(x=LEAF)).replace("[LEAF]", "") + "]"}, "1 leaves have 2 formats"),
        ({"data_spec": json.dumps([1, dict_of(**{"a.b": LEAF, "a": dict_of(b=LEAF)})])}, "the same name"),
    ],
)
def test_refusals(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS], **config)
    with pytest.raises(FormatError, match=message):
        bushel.open(path)


def test_a_tree_that_is_too_deep(tmp_path: Path) -> None:
    tree: Any = LEAF
    for _ in range(100):
        tree = dict_of(a=tree)
    with pytest.raises(FormatError, match="deeper than 64"):
        bushel.open(write(tmp_path / "x", {"a": "str"}, [[[b"1"]]], tree))


@pytest.mark.parametrize("at", [0, 8, 10, 12, 20, 24, 68, 80, 88, 92])
@pytest.mark.parametrize("value", [(1 << 32) - 1, 1 << 31])
def test_damaged_tables_of_frames(at: int, value: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS], level="batch")
    data = bytearray((path / "chunk-0-0.bin").read_bytes())
    data[at : at + 4] = value.to_bytes(4, "little")
    (path / "chunk-0-0.bin").write_bytes(data)
    with pytest.raises(BushelError, match="chunk-0-0.bin"):
        bushel.open(path)


@pytest.mark.parametrize("level", [None, "sample", "chunk"])
@pytest.mark.parametrize(
    "change",
    [{"chunk_size": 5}, {"chunk_size": 1 << 39}, {"filename": "x"}, {"filename": "../x"}, {"filename": "x" * 5000}],
)
def test_an_index_that_does_not_fit(level: str | None, change: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS], level=level)
    index = json.loads((path / "index.json").read_text())
    index["chunks"][0] |= change
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError):
        bushel.open(path)


@pytest.mark.parametrize("level", [None, "sample", "chunk", "batch"])
def test_damage_gives_an_error_or_other_values(level: str | None, tmp_path: Path) -> None:
    path = write(tmp_path / "x", FORMATS, [ROWS], level=level)
    file = path / "chunk-0-0.bin"
    check_damaged(file.read_bytes(), file, 0, level, dataset=path, copies=100)


@pytest.mark.parametrize("damage", ["cut", "more", "surrogate"])
def test_an_index_that_is_no_json_is_named(damage: str, tmp_path: Path) -> None:
    path = copy("litdata-plain", tmp_path) / "index.json"
    data = path.read_bytes()
    half, surrogate = data[: len(data) // 2], data.replace(b'": ', b'\\ud800": ', 1)
    path.write_bytes({"cut": half, "more": data + b"}", "surrogate": surrogate}[damage])
    with pytest.raises(FormatError, match=r"index\.json: not an index of LitData: ") as caught:
        bushel.open(path.parent)
    assert "fetch its index.json" in str(caught.value)
