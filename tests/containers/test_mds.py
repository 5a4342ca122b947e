"""MDS, read in place."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.mds_shards import PACK, images_list, shard, write
from tests.containers.read_in_place import check_damaged, check_expected, check_suite, copy
from tests.sources.folders import jpeg

import bushel
from bushel.errors import BushelError, FormatError, UntrustedWarning
from bushel.testing import READABLE_CHECKS

each_dataset = pytest.mark.parametrize("name", ["mds-plain", "mds-zstd", "mds-hashes"])
without_xxhash = pytest.mark.filterwarnings("ignore:.* xxh64 was not compared")
ROW = {"x": b"text", "n": (7).to_bytes(8, "little")}
COLUMNS = {"x": "str", "n": "int"}


@without_xxhash
@each_dataset
def test_what_streaming_wrote(name: str, tmp_path: Path) -> None:
    check_expected(name, copy(name, tmp_path))
    assert bushel.verify(tmp_path / name).ok
    assert bushel.open(tmp_path / name / "index.json", container="mds").info.container == "mds"


@without_xxhash
@pytest.mark.filterwarnings("ignore:the order .* expands")
@each_dataset
@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(name: str, check: str, tmp_path: Path) -> None:
    check_suite("mds", check, copy(name, tmp_path), tmp_path)


def test_all_encodings(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    raw = struct.pack("<III", 4, 2, 3) + b"RGB" + pixels.tobytes()
    photo = jpeg(1, 8, 9)
    values: dict[str, tuple[str, bytes, Any]] = {
        "a": ("bytes", b"\0\1", b"\0\1"),
        "b": ("str", "é".encode(), "é"),
        "c": ("int", (-5).to_bytes(8, "little", signed=True), -5),
        "d": ("int8", b"\xff", -1),
        "e": ("uint16", b"\xff\xff", 65535),
        "f": ("float16", np.float16(1.5).tobytes(), 1.5),
        "g": ("float32", np.float32(2.5).tobytes(), 2.5),
        "h": ("float64", np.float64(-2.5).tobytes(), -2.5),
        "i": ("str_int", b"123456789012345678901234567890", 123456789012345678901234567890),
        "j": ("str_float", b"1e+16", 1e16),
        "k": ("str_float", b"inf", float("inf")),
        "l": ("str_decimal", b"1.10", "1.10"),
        "m": ("ndarray", b"\x22\x08\x02\x03" + np.arange(6, dtype="<f4").tobytes(), np.arange(6.0).reshape(2, 3)),
        "n": ("ndarray:int16", b"\x05\x03\x00" + np.arange(3, dtype="<i2").tobytes(), np.arange(3)),
        "o": ("ndarray:int8:2,2", bytes(range(4)), np.arange(4).reshape(2, 2)),
        "p": ("json", b'{"a": [1, null]}', {"a": [1, None]}),
        "q": ("pil", raw, pixels),
        "r": ("list[pil]", images_list([raw, raw], bytes(4)), [pixels, pixels]),
    }
    columns = {name: encoding for name, (encoding, _, _) in values.items()}
    images = {"s": "jpeg", "t": "jpeg_array", "u": "list[jpeg]"}
    sample = {name: stored for name, (_, stored, _) in values.items()}
    sample |= {"s": photo, "t": images_list([photo, photo]), "u": images_list([], bytes(4))}
    ds = bushel.open(write(tmp_path / "x", columns | images, [[sample, sample]]), verify=True)
    for name, (_, stored, value) in values.items():
        np.testing.assert_equal(ds[1][name], value)
        if name != "r":
            assert ds.read([1], [name], decode=False)[0][name] == stored
    assert (ds.spec["t"], ds.spec["u"], ds.spec["s"]) == ("jpg[]", "jpg[]", "jpg")
    assert np.array_equal(ds[1]["t"][1], ds[0]["s"])
    assert ds[1, {"t": slice(0, 1)}]["t"][0].shape == ds[0]["s"].shape
    assert ds[1]["u"] == []


def test_pickles_only_if_requested(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"p": "pkl"}, [[{"p": pickle.dumps({1, 2})}]])
    with pytest.warns(UntrustedWarning, match="pickle=True"):
        assert bushel.open(path)[0]["p"] == pickle.dumps({1, 2})
    assert bushel.open(path, pickle=True)[0]["p"] == {1, 2}


@pytest.mark.parametrize("compression", PACK)
def test_compressed_shards(compression: str, tmp_path: Path) -> None:
    rng = random.Random(0)
    texts = [f"{number} ".encode() * 100 + rng.randbytes(300).hex().encode() for number in range(400)]
    rows = [{"x": text, "n": bytes(8)} for text in texts]
    path = write(tmp_path / "x", COLUMNS, [rows[:250], rows[250:]], compression)
    ds = bushel.open(path, verify=True)
    assert [ds[place]["x"].encode() for place in (399, 0, 250, 7)] == [texts[place] for place in (399, 0, 250, 7)]
    assert bushel.verify(path).ok
    (path / "shard.00000.mds").write_bytes(shard(COLUMNS, rows[:250]))
    packed = path / f"shard.00000.mds.{compression}"
    packed.unlink()
    assert bushel.open(path, index="memory")[7]["x"].encode() == texts[7]
    packed = path / f"shard.00001.mds.{compression}"
    data = bytearray(packed.read_bytes())
    data[len(data) // 2 :] = data[len(data) // 2 : -1]
    packed.write_bytes(data)
    with pytest.raises(BushelError):
        bushel.open(path, index="memory").read(range(400))


def test_merged_streams_and_streams_in_sub_folders(tmp_path: Path) -> None:
    for name in ("de", "en"):
        write(tmp_path / name, COLUMNS, [[ROW | {"x": name.encode()}]])
    assert [each["x"] for each in bushel.open(tmp_path, container="mds", index="memory")] == ["de", "en"]
    with pytest.raises(FormatError, match=r"datasets: .*/de, .*/en\. Name one of them; container='mds' joins"):
        bushel.open(tmp_path)
    merged = [json.loads((tmp_path / name / "index.json").read_text())["shards"][0] for name in ("en", "de")]
    for name, entry in zip(("en", "de"), merged, strict=True):
        entry["raw_data"]["basename"] = f"{name}/shard.00000.mds"
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": merged}))
    assert [each["x"] for each in bushel.open(tmp_path, index="memory")] == ["en", "de"]


def test_verify_compares_hashes(tmp_path: Path) -> None:
    def sha1(data: bytes) -> dict[str, str]:
        return {"sha1": hashlib.sha1(data).hexdigest()}

    path = write(tmp_path / "x", COLUMNS, [[ROW]], hashes=sha1)
    assert bushel.verify(path).ok
    data = bytearray((path / "shard.00000.mds").read_bytes())
    data[-1] ^= 1
    (path / "shard.00000.mds").write_bytes(data)
    assert "its sha1 is" in str(bushel.verify(path).problems[0])
    packed = write(tmp_path / "y", COLUMNS, [[ROW]], "gz", lambda data: {"md5": hashlib.md5(data[:-1]).hexdigest()})
    assert sum("its md5 is" in str(each) for each in bushel.verify(packed).problems) == 2


def test_declared_types_and_unknown_encodings(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"x": "embedding2"}, [[{"x": b"ab"}]])
    with pytest.raises(FormatError, match=r"encoding 'embedding2', which is unknown .*spec=\{'x': 'bytes'\}"):
        bushel.open(path)
    assert bushel.open(path, spec={"x": "utf8"})[0]["x"] == "ab"
    with pytest.raises(FormatError, match="cannot be a field"):
        bushel.open(write(tmp_path / "y", {"x": "ndarray:object"}, [[{"x": b"ab"}]]))


def test_an_index_of_something_else_is_not_taken(tmp_path: Path) -> None:
    for text in ("[1]", "{", '{"chunks": []}'):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(FormatError, match="belong"):
            bushel.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "xsv"}, "shard 0: its format is 'xsv'"),
        ({"samples": 2}, "a file of 2 samples begins with"),
        ({"samples": 1 << 47}, "samples begins with"),
        ({"samples": 1 << 60}, "not an index of MDS"),
        ({"column_names": ["n"]}, "one name, one encoding and one size each"),
        ({"column_sizes": [8, -1]}, "not an index of MDS"),
        ({"column_sizes": [8, 1 << 40]}, "its fields need at least"),
        ({"column_sizes": [8, 4]}, "its fields have 12 bytes, expected 16"),
        ({"raw_data": {"basename": "../x", "bytes": 1}}, r"lists the shard '\.\./x', which does not exist"),
        ({"raw_data": {"basename": 3, "bytes": 1}}, "not an index of MDS"),
        ({"raw_data": {"basename": "y" * 5000 + "/x", "bytes": 1}}, "a name of more than 200 bytes"),
        ({"raw_data": {"basename": "y/" * 5000, "bytes": 1}}, "a name of more than 200 bytes"),
        ({"raw_data": {"basename": "y", "bytes": 1}}, "lists the shard 'y', which does not exist"),
        ({"zip_data": {"basename": "y", "bytes": 1}, "compression": "xz"}, "its compression is 'xz'"),
    ],
)
def test_damaged_indexes(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", COLUMNS, [[ROW]])
    index = json.loads((path / "index.json").read_text())
    index["shards"][0] |= change
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match=message):
        bushel.open(path)


@pytest.mark.parametrize("at", [0, 4, 8, 12])
@pytest.mark.parametrize("value", [0, 1 << 31, (1 << 32) - 1, 17])
def test_damaged_tables(at: int, value: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x", COLUMNS, [[ROW]])
    data = bytearray((path / "shard.00000.mds").read_bytes())
    data[at : at + 4] = value.to_bytes(4, "little")
    (path / "shard.00000.mds").write_bytes(data)
    with pytest.raises(FormatError, match="shard.00000.mds"):
        bushel.open(path)


@pytest.mark.parametrize("compression", ["br", "bz2", "snappy", "zstd", "gz"])
def test_a_bomb_takes_no_memory(compression: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", COLUMNS, [[ROW]], compression)
    index = json.loads((path / "index.json").read_text())
    index["shards"][0]["raw_data"]["bytes"] = 1 << 45
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError):
        bushel.open(path)


@pytest.mark.parametrize("value", [images_list([b"ab"])[:-1], b"\1\0", b"\xff\xff\xff\xff", images_list([b"a"]) + b"b"])
def test_damaged_lists(value: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="field 'x', sample 0: its .* elements do not fit"):
        bushel.open(write(tmp_path / "x", {"x": "jpeg_array"}, [[{"x": value}]]))


@each_dataset
def test_damage_gives_an_error_or_other_values(name: str, tmp_path: Path) -> None:
    path = copy(name, tmp_path)
    [file] = path.glob("shard*")
    check_damaged(file.read_bytes(), file, -400, name, dataset=path, copies=100)


def test_verify_finds_other_names_of_columns(tmp_path: Path) -> None:
    path = copy("mds-plain", tmp_path)
    bushel.index(path)
    described = (path / "index.json").read_text()
    (path / "index.json").write_text(described.replace('"blob"', '"blub"'))
    found = bushel.verify(path)
    assert not found.ok
    assert "the files have 'blub' where the index has 'blob'" in found.problems[0].message


@pytest.mark.parametrize("damage", ["cut", "more", "surrogate"])
def test_an_index_that_is_no_json_is_named(damage: str, tmp_path: Path) -> None:
    path = copy("mds-plain", tmp_path) / "index.json"
    data = path.read_bytes()
    half, surrogate = data[: len(data) // 2], data.replace(b'": ', b'\\ud800": ', 1)
    path.write_bytes({"cut": half, "more": data + b"}", "surrogate": surrogate}[damage])
    with pytest.raises(FormatError, match=r"index\.json: not an index of MDS: ") as caught:
        bushel.open(path.parent)
    assert "fetch its index.json" in str(caught.value)


@pytest.mark.parametrize("format_", ["json", "csv", "xsv"])
def test_other_formats_of_streaming_are_named(format_: str, tmp_path: Path) -> None:
    data = {"basename": f"shard.00000.{format_}", "bytes": 9, "hashes": {}}
    shard = {"format": format_, "columns": {"x": "int"}, "samples": 1, "raw_data": data, "raw_meta": data}
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    with pytest.raises(FormatError, match=f"its format is '{format_}', which Bushel does not read.*MDSWriter"):
        bushel.open(tmp_path)


def test_a_name_of_ten_thousand_digits_for_an_expanded_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "x", COLUMNS, [[ROW]], "zstd")
    index = json.loads((path / "index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = "9" * 10_000
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match="a name of more than 200 bytes"):
        bushel.open(path)
