"""Samples of several fields as one msgpack map."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.containers.packed_map import Record, encode, index_records, is_packed_map, locate
from bushel.errors import FormatError
from bushel.spec import parse_spec

SPEC = parse_spec({"image": "jpg", "words": "utf8[]"})
texts = st.text(max_size=40)
values = st.one_of(st.binary(max_size=300), st.lists(st.binary(max_size=40), max_size=20))


def packed(key: str | None, sample: dict[str, Any]) -> bytes:
    fields = parse_spec({name: "bytes[]" if isinstance(value, list) else "bytes" for name, value in sample.items()})
    made = encode(key, fields.values(), sample)
    record = b"".join(made.pieces)
    assert len(record) == made.size
    for _, start, value in made.values:
        assert record[start : start + len(bytes(value))] == bytes(value)
    return record


def test_bytes() -> None:
    made = encode("a/1", SPEC.values(), {"image": b"IMG", "words": iter([b"x", b""])})
    assert b"".join(made.pieces) == bytes.fromhex(
        "83"
        "a7 5f5f6b65795f5f a3 612f31"
        "a5 696d616765 c4 03 494d47"
        "a5 776f726473 92 c4 01 78 c4 00"
    )  # fmt: skip
    assert made.values == [("image", 21, b"IMG"), ("words", 33, b"x"), ("words", 36, b"")]
    assert b"".join(encode(None, SPEC.values(), {}).pieces) == bytes.fromhex("81 a7 5f5f6b65795f5f c0")


@given(
    st.one_of(st.none(), texts),
    st.dictionaries(texts.filter(lambda t: t not in ("", "__key__") and "\0" not in t), values, max_size=20),
)
def test_msgpack_reads_it_and_so_does_locate(key: str | None, sample: dict[str, Any]) -> None:
    record = packed(key, sample)
    assert msgpack.unpackb(record) == {"__key__": key, **sample}
    assert msgpack.packb({"__key__": key, **sample}) == record
    assert is_packed_map(record[:16])
    found_key, found = locate(record)
    assert found_key == key
    assert list(found) == list(sample)
    for name, where in found.items():
        if isinstance(where, list):
            assert [record[start : start + length] for start, length in where] == sample[name]
        else:
            assert record[where[0] : where[0] + where[1]] == sample[name]


@pytest.mark.parametrize("size", [0, 255, 256, 65535, 65536, 70000])
def test_every_width_of_a_length(size: int) -> None:
    sample = {"x": bytes(size), "y": [b"ab"] * (size // 100), "n" * (size % 60000 + 1): b""}
    record = packed("k" * size, sample)
    assert msgpack.packb({"__key__": "k" * size, **sample}) == record
    assert set(locate(record)[1]) == set(sample)


def test_keys_that_are_not_unicode_survive() -> None:
    record = packed("caf\udce9", {"x": b""})
    assert locate(record)[0] == "caf\udce9"


RECORD = packed("key", {"x": b"abc", "y": [b"d", b"ef"]})


def test_a_cut_record_is_refused_everywhere() -> None:
    for end in range(len(RECORD)):
        with pytest.raises(FormatError):
            locate(RECORD[:end])
    with pytest.raises(FormatError, match="after the end"):
        locate(RECORD + b"\0")


@given(st.lists(st.tuples(st.integers(0, len(RECORD) - 1), st.integers(0, 255)), max_size=4))
def test_mutations(changes: list[tuple[int, int]]) -> None:
    data = bytearray(RECORD)
    for at, byte in changes:
        data[at] = byte
    try:
        _, found = locate(data)
    except FormatError:
        return
    for where in found.values():
        for start, length in where if isinstance(where, list) else [where]:
            assert 0 <= start <= start + length <= len(data)


@pytest.mark.parametrize(
    "value",
    [
        {"x": b"1"},
        {"__key__": 3},
        {"x": b"", "__key__": "a"},
        {"__key__": "a", "x": "text"},
        {"__key__": "a", "x": [b"", 3]},
        {"__key__": "a", "x": {}},
        {"__key__": "a", 3: b""},
        [b"x"],
        3,
        b"",
    ],
)
def test_other_msgpack_is_no_sample(value: Any) -> None:
    with pytest.raises(FormatError):
        locate(msgpack.packb(value))


def test_a_name_of_a_field_that_is_not_unicode_is_damage() -> None:
    with pytest.raises(FormatError, match="utf-8"):
        locate(msgpack.packb({"__key__": "key", "caf\udce9": b""}, unicode_errors="surrogateescape"))


def test_a_field_twice() -> None:
    with pytest.raises(FormatError, match="twice"):
        locate(bytes.fromhex("83 a7 5f5f6b65795f5f c0 a1 78 c4 00 a1 78 c4 00"))


def test_lengths_that_lie_allocate_nothing() -> None:
    head = bytes.fromhex("82 a7 5f5f6b65795f5f c0 a1 78")
    for tail in ("c6ffffffff", "ddffffffff", "dcffff", "c5ffff"):
        with pytest.raises(FormatError, match="truncated|truncates"):
            locate(head + bytes.fromhex(tail))
    with pytest.raises(FormatError, match="truncated|truncates"):
        locate(bytes.fromhex("dfffffffff a7 5f5f6b65795f5f c0"))


@pytest.mark.parametrize(
    "head", [b"", b"\x80", b"\xde\0", b"\x81", b"\x81\xa7__kez__", b"\xff\xd8\xff", b"\xde\x00\x01\xa3abc"]
)
def test_not_a_packed_map(head: bytes) -> None:
    assert not is_packed_map(head)


def index(*samples: tuple[str | None, dict[str, Any]], spec: dict[str, str] | None = None) -> Any:
    records, at = [], 100
    for key, sample in samples:
        payload = packed(key, sample)
        records.append(Record(payload, at))
        at += len(payload)
    return index_records(records, None if spec is None else parse_spec(spec), file="x.ffr", checksums=True)


def test_columns_of_samples_that_lack_fields() -> None:
    columns, keys = index(("a", {"x": b"1"}), ("b", {"y": [b"2", b"3"]}), ("c", {"y": [], "x": b"4"}))
    assert [keys[row] for row in range(3)] == ["a", "b", "c"]
    assert columns["x"].length.tolist() == [1, -1, 1]
    assert columns["y"].length.tolist() == [1, 1]
    assert columns["y"].starts.tolist() == [0, 0, 2, 2]
    assert columns["y"].absent.tolist() == [True, False, False]
    assert columns["y"].field.type == "bytes[]"


def test_a_given_spec_names_the_types() -> None:
    columns, keys = index((None, {"x": b"1"}), spec={"x": "jpg", "z": "int[]", "w": "utf8"})
    assert keys is None
    assert {name: column.field.type for name, column in columns.items()} == {"x": "jpg", "z": "int[]", "w": "utf8"}
    assert columns["w"].length.tolist() == [-1]
    assert columns["z"].absent.tolist() == [True]


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        ([("a", {}), (None, {})], "some samples have a key"),
        ([(None, {}), ("a", {})], "some samples have a key"),
        ([("a", {"x": b""}), ("b", {"x": [b""]})], "should be one value, but is a list"),
        ([("a", {"x": []}), ("b", {"x": b""})], "should be a list, but is one value"),
    ],
)
def test_samples_that_do_not_agree(samples: list[Any], match: str) -> None:
    with pytest.raises(FormatError, match=match) as error:
        index(*samples)
    assert error.value.file == "x.ffr"
    assert error.value.offset is not None
    assert error.value.offset > 100


def test_a_given_spec_must_fit() -> None:
    with pytest.raises(FormatError, match="should be a list"):
        index((None, {"x": b"1"}), spec={"x": "jpg[]"})
