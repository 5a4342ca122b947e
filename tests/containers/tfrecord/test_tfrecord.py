"""TFRecord, read in place."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, check_damaged, check_expected, check_suite, copy
from tests.containers.tfrecords import bytes_list, example, float_list, framed, int_list, piece, varint

import bushel
from bushel.errors import CodecError, FormatError, SpecError
from bushel.testing import READABLE_CHECKS

SPECS: dict[str, Any] = {"tfrecord-records": {"spec": {"data": "bytes"}}}
each_dataset = pytest.mark.parametrize("name", ["tfrecord-plain", "tfrecord-gzip", "tfrecord-records"])


def written(path: Path, *features: dict[str, bytes]) -> Path:
    path.write_bytes(framed([example(each) for each in features]))
    return path


@each_dataset
def test_what_tensorflow_wrote(name: str, tmp_path: Path) -> None:
    check_expected(name, copy(name, tmp_path), **SPECS.get(name, {}))
    assert bushel.verify(tmp_path / name).ok
    assert bushel.open(tmp_path / name).info.container == "tfrecord"


@pytest.mark.filterwarnings("ignore:the order .* expands")
@each_dataset
@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(name: str, check: str, tmp_path: Path) -> None:
    check_suite("tfrecord", check, copy(name, tmp_path), tmp_path, **SPECS.get(name, {}))


def test_images_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    ds = bushel.open(copy("tfrecord-plain", tmp_path))
    assert ds.spec["image"] == "image"
    assert ds[0]["image"].ndim == 3
    assert bushel.open(tmp_path / "tfrecord-plain", spec={"image": "bytes"})[0]["image"][:2] == b"\xff\xd8"


def test_single_numbers_are_columns(tmp_path: Path) -> None:
    ds = bushel.open(copy("tfrecord-plain", tmp_path))
    labels = [each["label"] for each in ds]
    assert ds.column("label").tolist() == labels
    assert ds.column("score").tolist() == [each["score"] for each in ds]
    assert len(ds.where("label == 4")) == labels.count(4)


@pytest.mark.parametrize("packed", [True, False])
def test_values_of_all_kinds(packed: bool, tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.tfrecord",
        {"f": float_list(1.5, 2.5, packed=packed), "i": int_list(1, -1, 1 << 40, packed=packed), "n": int_list(-5)},
        {"f": float_list(0.5, packed=packed), "i": int_list(packed=packed), "b": bytes_list(b"one")},
        {"f": float_list(), "i": int_list(7, packed=packed), "n": int_list(5, packed=packed), "b": bytes_list()},
    )
    ds = bushel.open(path)
    assert dict(ds.spec) == {"b": "bytes", "f": "array(float32,-1)", "i": "array(int64,-1)", "n": "int"}
    assert [each["f"].tolist() for each in ds] == [[1.5, 2.5], [0.5], []]
    assert [each["i"].tolist() for each in ds] == [[1, -1, 1 << 40], [], [7]]
    assert [each.get("n") for each in ds] == [-5, None, 5]
    assert [each.get("b") for each in ds] == [None, b"one", None]
    assert ds.column("n").tolist() == [-5, None, 5] or np.ma.isMaskedArray(ds.column("n"))


def test_lists_of_bytes_and_samples_without_them(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", {"b": bytes_list(b"a", b"")}, {}, {"b": bytes_list()}, {"b": b""})
    ds = bushel.open(path)
    assert ds.spec == {"b": "bytes[]"}
    assert [each.get("b") for each in ds] == [[b"a", b""], None, [], None]
    assert ds[0, {"b": slice(0, 1)}]["b"] == [b"a"]


def test_lists_in_several_pieces_are_joined(tmp_path: Path) -> None:
    two = piece(3, piece(1, varint(1) + varint(300)) + b"\x08" + varint(-2) + piece(1, varint(4)))
    path = written(tmp_path / "x.tfrecord", {"i": two}, {"i": int_list(9, 8)})
    assert [each["i"].tolist() for each in bushel.open(path)] == [[1, 300, -2, 4], [9, 8]]
    (tmp_path / "y.tfrecord").write_bytes(gzip.compress(path.read_bytes()))
    assert [each["i"].tolist() for each in bushel.open(tmp_path / "y.tfrecord")] == [[1, 300, -2, 4], [9, 8]]


def test_types_that_the_caller_declares(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.tfrecord",
        {"t": bytes_list(b"text"), "i": int_list(3), "f": float_list(1, 2, 3, 4)},
        {"t": bytes_list(b"more"), "i": int_list(4), "f": float_list(5, 6, 7, 8)},
    )
    spec = {"t": "utf8[]", "i": "array(int64,-1)", "f": "array(float32,2,2)"}
    ds = bushel.open(path, spec=spec, index="memory")
    assert ds[1]["t"] == ["more"]
    assert ds[1]["i"].tolist() == [4]
    assert ds[1]["f"].tolist() == [[5, 6], [7, 8]]
    assert bushel.open(path, spec={"i": "float"}, index="memory")[1]["i"] == 4.0
    for wrong in ({"f": "int"}, {"f": "array(int64,-1)"}, {"i": "bool"}, {"i": "array(int64,2)"}):
        with pytest.raises(SpecError, match=rf"field '{next(iter(wrong))}' of x\.tfrecord .* cannot be read as"):
            bushel.open(path, spec=wrong, index="memory")


def test_records_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(framed([b"one", b"", b"three"]))
    assert [each["data"] for each in bushel.open(tmp_path / "x.tfrecord")] == [b"one", b"", b"three"]
    ds = bushel.open(tmp_path / "x.tfrecord", spec={"text": "utf8"}, index="memory")
    assert ds[2]["text"] == "three"
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    assert len(bushel.open(tmp_path / "empty.tfrecord")) == 0


def test_examples_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", {"i": int_list(3)})
    assert bushel.open(path, spec={"data": "bytes"}, index="memory")[0]["data"] == example({"i": int_list(3)})


def test_a_record_among_examples_that_is_none(tmp_path: Path) -> None:
    records = [example({"i": int_list(3)}), b"no Example"]
    (tmp_path / "x.tfrecord").write_bytes(framed(records))
    with pytest.raises(FormatError, match=r"record 1 is not a tf\.train\.Example: .*spec=\{'data': 'bytes'\}"):
        bushel.open(tmp_path / "x.tfrecord")
    ds = bushel.open(tmp_path / "x.tfrecord", spec={"data": "bytes"}, index="memory")
    assert [each["data"] for each in ds] == records


def test_a_feature_of_two_types_and_sequence_examples(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"another type than before \('i'\)"):
        bushel.open(written(tmp_path / "x.tfrecord", {"i": int_list(3)}, {"i": float_list(3)}))
    sequence = example({"i": int_list(3)}) + piece(2, b"")
    (tmp_path / "y.tfrecord").write_bytes(framed([sequence]))
    assert bushel.open(tmp_path / "y.tfrecord")[0]["data"] == sequence


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, lambda data: zlib.compress(data, 0)])
def test_compressed_files(pack: Any, tmp_path: Path) -> None:
    texts = [f"text {number} " * 100 for number in range(3000)]
    data = framed([example({"t": bytes_list(text.encode())}) for text in texts])
    (tmp_path / "x.tfrecord").write_bytes(pack(data))
    ds = bushel.open(tmp_path / "x.tfrecord", spec={"t": "utf8"}, verify=True)
    assert [ds[place]["t"] for place in (2999, 0, 1500)] == [texts[2999], texts[0], texts[1500]]
    assert bushel.verify(tmp_path / "x.tfrecord").ok
    changed = bytearray(pack(data))
    changed[-1] ^= 1
    (tmp_path / "y.tfrecord").write_bytes(changed)
    with pytest.raises(FormatError, match="checksum"):
        bushel.open(tmp_path / "y.tfrecord")


def test_names_of_files(tmp_path: Path) -> None:
    data = framed([example({"i": int_list(3)})])
    for name in ("train-00000-of-00002", "train-00001-of-00002", "notes.txt"):
        (tmp_path / name).write_bytes(data)
    assert len(bushel.open(tmp_path)) == len(bushel.open(tmp_path, container="tfrecord")) == 2
    assert len(bushel.open(tmp_path / "train-00001-of-00002", container="tfrecord")) == 1
    (tmp_path / "a.tfrecords").write_bytes(data)
    assert len(bushel.open(tmp_path)) == 1


def test_verify_compares_the_checksums_of_records(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", {"t": bytes_list(b"one")}, {"t": bytes_list(b"two")})
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)
    report = bushel.verify(path)
    assert not report.ok
    assert "record 1: its" in str(report.problems[0])
    data[8] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"length of a record has another checksum \(first record\)"):
        bushel.open(path)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 46, 1 << 62, 100])
def test_hostile_lengths(length: int, tmp_path: Path) -> None:
    head = struct.pack("<Q", length)
    whole = framed([head])
    (tmp_path / "x.tfrecord").write_bytes(head + whole[-4:] + bytes(50))
    with pytest.raises(FormatError, match="first record"):
        bushel.open(tmp_path / "x.tfrecord")


@pytest.mark.parametrize(
    "record",
    [
        b"\x0a" + b"\xff" * 9 + b"\x01",
        b"\x0a" + b"\xff" * 11,
        b"\x0a\x80",
        piece(1, piece(1, piece(1, b"i") + piece(2, piece(3, piece(1, b"\x80"))))),
        piece(1, piece(1, piece(1, b"i") + piece(2, piece(3, b"\x08" + b"\xff" * 20)))),
        piece(1, piece(1, piece(1, b"f") + piece(2, piece(2, piece(1, b"abc"))))),
        piece(1, piece(1, piece(1, b"f") + piece(2, piece(2, b"\x0dabc")))),
        example({"i": int_list(1)}) * 2,
    ],
)
def test_damaged_messages_are_records_as_they_are(record: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(framed([record]))
    assert bushel.open(tmp_path / "x.tfrecord")[0] == {"__key__": "0", "data": record}


def test_integers_of_more_than_64_bits(tmp_path: Path) -> None:
    long = piece(3, piece(1, b"\x01" + b"\xff" * 10 + b"\x01"))
    ds = bushel.open(written(tmp_path / "x.tfrecord", {"i": long}))
    with pytest.raises(CodecError, match="more than 64 bits"):
        ds[0]


def test_names_that_cannot_be_fields_and_sparse_features(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(framed([piece(1, piece(1, piece(1, b"\xff") + piece(2, int_list(1))))]))
    with pytest.raises(FormatError, match="cannot be a field"):
        bushel.open(tmp_path / "x.tfrecord")
    many = [example({f"{number}": int_list(1)}) for number in range(6000)]
    (tmp_path / "y.tfrecord").write_bytes(framed(many))
    with pytest.raises(FormatError, match="6000 records have 6000 features"):
        bushel.open(tmp_path / "y.tfrecord")


def test_a_truncated_file(tmp_path: Path) -> None:
    data = framed([example({"t": bytes_list(b"one")})] * 2)
    for size in (len(data) - 1, len(data) // 2 + 5, len(data) // 2 + 12, 5):
        (tmp_path / "x.tfrecord").write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"needs \d+ bytes, but \d+ are left"):
            bushel.open(tmp_path / "x.tfrecord")


@pytest.mark.parametrize("name", ["tfrecord-plain", "tfrecord-gzip", "tfrecord-records"])
def test_damage_gives_an_error_that_names_the_file_or_other_values(name: str, tmp_path: Path) -> None:
    path = sorted((FOREIGN / name).glob("*tfrecord*"))[0]
    check_damaged(path.read_bytes(), tmp_path / "x.tfrecord", 0, name)


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [("utf8", b"text", b"\xff\xfe"), ("json", b"[1]", b"{"), ("cls", b"12", b"twelve"), ("utf8[]", b"text", b"\xff")],
)
def test_a_declared_type_is_compared_when_a_file_is_opened(
    declared: str, good: bytes, bad: bytes, tmp_path: Path
) -> None:
    spec = {"t": declared}
    path = written(tmp_path / "x.tfrecord", {"t": bytes_list(good)}, {"t": bytes_list(bad)})
    with pytest.raises(SpecError, match="'t'"):
        bushel.open(path, spec=spec, index="memory")
    written(path, *[{"t": bytes_list(good)}] * 100, {"t": bytes_list(bad)})
    ds = bushel.open(path, spec=spec, index="memory")
    with pytest.raises(CodecError):
        ds[100]


@pytest.mark.parametrize("name", [b"caf\xe9\n", b"\xff"])
def test_an_error_names_a_feature_in_any_bytes(tmp_path: Path, name: bytes) -> None:
    features = [piece(1, piece(1, piece(1, name) + piece(2, values))) for values in (int_list(3), float_list(3))]
    (tmp_path / "x.tfrecord").write_bytes(framed(features))
    shown = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in name)
    with pytest.raises(FormatError, match=re.escape(f"({shown!r})")):
        bushel.open(tmp_path / "x.tfrecord")
    (tmp_path / "y.tfrecord").write_bytes(framed(features[:1]))
    with pytest.raises(FormatError, match=re.escape(f"the feature {name!r} cannot be a field")):
        bushel.open(tmp_path / "y.tfrecord")


def test_a_sequence_that_is_declared_as_one_value(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tfrecord", {"b": bytes_list(b"1", b"2")})
    with pytest.raises(SpecError, match=r"x\.tfrecord: feature 'b' .* Declare the sequence 'utf8\[\]'"):
        bushel.open(path, spec={"b": "utf8"})
    assert bushel.open(path, spec={"b": "utf8[]"})[0]["b"] == ["1", "2"]


_EXAMPLES = [example({"x": int_list(number)}) for number in range(3)]


@pytest.mark.parametrize(
    "files",
    [[[*_EXAMPLES, b"stray"]], [[b"stray", *_EXAMPLES]], [_EXAMPLES, [b"stray"]], [[b"stray"], _EXAMPLES]],
)
def test_examples_beside_other_records_are_refused(files: list[list[bytes]], tmp_path: Path) -> None:
    """Neither are Examples read as bytes, nor are there samples with other fields, without a word."""
    for number, records in enumerate([*files, []]):  # an empty file is of either kind
        (tmp_path / f"{number}.tfrecord").write_bytes(framed(records))
    with pytest.raises(FormatError, match=r"(is|are) not .*tf.train.Example.*spec=\{'data': 'bytes'\}"):
        bushel.open(tmp_path)
    assert len(bushel.open(tmp_path, spec={"data": "bytes"})) == 4


def test_a_feature_may_be_called_data(tmp_path: Path) -> None:
    (tmp_path / "0.tfrecord").write_bytes(framed([example({"data": bytes_list(b"a")})]))
    (tmp_path / "1.tfrecord").write_bytes(framed([example({"data": bytes_list(b"b"), "x": int_list(1)})]))
    assert [sample["data"] for sample in bushel.open(tmp_path)] == [b"a", b"b"]
