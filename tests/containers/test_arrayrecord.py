"""ArrayRecord, read in place."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.containers.arrayrecord_chunks import BLOCK, COMPRESS, array_record, chunk
from tests.containers.read_in_place import FOREIGN, check_damaged, check_expected, check_suite, copy
from tests.containers.tfrecords import varint

import bushel
from bushel.errors import BushelError, FormatError, SpecError, UnsupportedError
from bushel.testing import READABLE_CHECKS

each_dataset = pytest.mark.parametrize(
    "name", [f"arrayrecord-{own}" for own in ("default", "plain", "groups", "brotli")]
)
not_compared = pytest.mark.filterwarnings("ignore:.* the hashes of its chunks were not compared")
usual = pytest.mark.filterwarnings("ignore:the order .* expands")


@not_compared
@each_dataset
def test_what_array_record_wrote(name: str, tmp_path: Path) -> None:
    check_expected(name, copy(name, tmp_path))
    ds = bushel.open(tmp_path / name)
    assert (ds.info.container, dict(ds.spec)) == ("arrayrecord", {"data": "image"})
    assert bushel.verify(tmp_path / name).ok


@usual
@not_compared
@each_dataset
@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(name: str, check: str, tmp_path: Path) -> None:
    check_suite("arrayrecord", check, copy(name, tmp_path), tmp_path, spec={"data": "bytes"})


@pytest.mark.parametrize("kind", ["", *COMPRESS])
@pytest.mark.parametrize("group", [1, 7, 1000])
def test_records_of_all_sizes(kind: str, group: int, tmp_path: Path) -> None:
    rng = random.Random(group)
    records = [rng.randbytes(rng.choice((0, 1, 50, 3000, 70_000))) for _ in range(60)]
    records += [b""] * 300
    chunks = [chunk(records[at : at + group], kind) for at in range(0, len(records), group)]
    (tmp_path / "x.array_record").write_bytes(array_record([*chunks[:3], chunk([b"skipped"], type="p"), *chunks[3:]]))
    ds = bushel.open(tmp_path / "x.array_record", verify=True)
    assert [each["data"] for each in ds] == records
    assert [each["data"] for each in ds.read([59, 0, 17, 17])] == [records[row] for row in (59, 0, 17, 17)]


def test_a_chunk_that_begins_at_a_block(tmp_path: Path) -> None:
    for size in range(BLOCK - 160, BLOCK - 60, 3):
        records = [bytes(size), b"next"]
        (tmp_path / "x.array_record").write_bytes(array_record([chunk([record]) for record in records]))
        assert [each["data"] for each in bushel.open(tmp_path / "x.array_record", index="memory")] == records


def test_declared_types(tmp_path: Path) -> None:
    (tmp_path / "x.array_record").write_bytes(array_record([chunk([b"one", b"two"])]))
    ds = bushel.open(tmp_path / "x.array_record", spec={"text": "utf8"})
    assert [each["text"] for each in ds] == ["one", "two"]
    with pytest.raises(SpecError, match="one plain field"):
        bushel.open(tmp_path / "x.array_record", spec={"a": "utf8", "b": "utf8"}, index="memory")


def test_verify_says_what_it_lacks_or_compares_hashes(tmp_path: Path) -> None:
    path = copy("arrayrecord-default", tmp_path)
    file = min(path.iterdir())
    data = bytearray(file.read_bytes())
    data[80] ^= 1  # inside the first record
    file.write_bytes(data)
    try:
        import array_record  # noqa: F401
    except ImportError:
        with pytest.warns(RuntimeWarning, match=r"not compared: pip install 'bushel\[arrayrecord\]'"):
            bushel.verify(path)
    else:
        assert "array_record cannot read it" in str(bushel.verify(path).problems)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has 0 bytes"),
        (bytes(BLOCK - 1), "has 65535 bytes"),
        (bytes(BLOCK), "the end does not say where the footer is|a number"),
        (array_record([chunk([b"x"])], magic=3), "expected the mark 0x71930e704fdae05e"),
        (array_record([chunk([b"x"])], footer=1 << 62), "expected the mark"),
        (array_record([chunk([b"x"])], footer=100), "its chunks end at"),
        (array_record([chunk([b"x"], type="t")]), "its chunks are transposed"),
        (array_record([chunk([b"x"], expanded=1 << 62)]), r"expected 4611686018427387904|has 1 bytes of records"),
        (array_record([chunk([b"x", b"y"], "z", expanded=3)]), "its 2 records have 2 bytes, expected 3"),
        (array_record([struct.pack("<QQQQQ", 0, 1 << 63, 0, ord("r") | 256, 1)]), "goes beyond the end"),
        (array_record([struct.pack("<QQQQQ", 0, 2, 0, ord("r") | (1 << 50) << 8, 1) + b"\0\0"]), "goes|expected|chunk"),
        (array_record([struct.pack("<QQQQQ", 0, 3, 0, ord("r") | 512, 1) + b"q\0\0"]), "its compression is 113"),
        (array_record([struct.pack("<QQQQQ", 0, 12, 0, ord("r") | 512, 1) + b"\0" + b"\xff" * 11]), "64 bits"),
        (
            array_record([struct.pack("<QQQQQ", 0, 7, 0, ord("r") | 512, 1) + b"z\x06" + varint(1 << 34)]),
            "are said to take 17179869184 bytes|take 6 bytes",
        ),
    ],
)
def test_damage_is_named(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.array_record").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        bushel.open(tmp_path / "x.array_record")
    assert caught.value.file == str(tmp_path / "x.array_record")


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_bomb_takes_no_memory(kind: str, tmp_path: Path) -> None:
    data = b"\0" if kind == "" else kind.encode()
    body = data + b"\x00" + varint(1 << 40) + COMPRESS[kind](b"x")
    head = struct.pack("<QQQQQ", 0, len(body), 0, ord("r") | 256, 1 << 40)
    (tmp_path / "x.array_record").write_bytes(array_record([head + body]))
    with pytest.raises(FormatError, match="stored bytes for 1099511627776"):
        bushel.open(tmp_path / "x.array_record")


@each_dataset
def test_damage_gives_an_error_that_names_the_file_or_other_values(name: str, tmp_path: Path) -> None:
    data = min((FOREIGN / name).glob("train*")).read_bytes()
    check_damaged(data, tmp_path / "x.array_record", 0, name)


def test_a_filter_without_its_side_input() -> None:
    for side in (None, b"z", b"q\0\0\0\0"):
        with pytest.raises(BushelError, match="the side input does not name"):
            bushel.filters.expand("riegeli", b"\1x", 1, side)
    with pytest.raises(BushelError, match="it says that it expands to 2 bytes"):
        bushel.filters.expand("riegeli", b"\2x", 1, b"z\xff\xff\0\0")


@pytest.mark.parametrize("spec", [None, {"label": "int"}])
def test_files_of_tensorflow_datasets(tmp_path: Path, spec: dict[str, str] | None) -> None:
    folder = copy("arrayrecord-default", tmp_path)
    (folder / "features.json").write_text("{}")
    with pytest.raises(UnsupportedError, match="each record is a tf.train.Example"):
        bushel.open(folder, spec=spec)
    assert bushel.open(folder, spec={"data": "bytes"}).spec == {"data": "bytes"}
