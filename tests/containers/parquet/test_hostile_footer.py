"""Footers of Parquet files that announce more than they have: lists, depths, numbers, texts, columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.containers.tfrecords import varint

import bushel
from bushel.errors import FormatError


def element(name: str, children: int | None = None) -> bytes:
    """Return an element of the schema: a required INT32, or a group."""
    head = b"\x15\x02\x25\x00\x18" if children is None else b"\x48"
    count = b"" if children is None else b"\x15" + varint(children << 1)
    return head + varint(len(name)) + name.encode() + count + b"\0"


def footer(elements: list[bytes], announced: int | None = None) -> bytes:
    """Return a footer without row groups, whose list of elements may announce another number."""
    count = len(elements) if announced is None else announced
    return b"\x15\x02\x19\xfc" + varint(count) + b"".join(elements) + b"\x16\x00\x19\x0c\0"


def test_numbers_in_place_of_structs(tmp_path: Path) -> None:
    logical = element("a")[:-1] + b"\x6c\xa5\x02\0\0"  # the logical type INTEGER as a number
    assert len(opened(tmp_path, footer([element("root", 1), logical]))) == 0
    with pytest.raises(FormatError, match="field 5 is not a list of structs"):
        opened(tmp_path, footer([element("root", 1), element("a")])[:-1] + b"\x15\x02\0")


def test_an_honest_footer(tmp_path: Path) -> None:
    dataset = opened(tmp_path, footer([element("root", 2), element("a"), element("b")]))
    assert (len(dataset), list(dataset.spec)) == (0, ["a", "b"])


def opened(folder: Path, data: bytes) -> bushel.Dataset:
    (folder / "x.parquet").write_bytes(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")
    return bushel.open(folder / "x.parquet", index="memory")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (footer([element("root", 1)], 1 << 31), "a list of 2147483648 elements in"),
        (footer([element("root", 1)], (1 << 63) - 1), "a list of 9223372036854775807 elements in"),
        (footer([element("root", 1 << 31), element("a")]), "the schema ends inside a group"),
        (footer([element("root", 1 << 60), element("a")]), "the schema ends inside a group|not a count"),
        (footer([*(element(f"g{number}", 1) for number in range(5000)), element("a")]), "is nested too deep"),
        (b"\x1c" * 100_000, "structs are nested more than 32 deep"),
        (b"\x19\x19" * 100_000, "lists are nested more than 32 deep|announced|elements in"),
        (b"\x15" + b"\xff" * 1000, "a number has more than 64 bits"),
        (b"\x18" + varint(1 << 31) + b"x", "2147483648 bytes are announced"),
        (footer([element("root", 100_001), *(element(f"c{number}") for number in range(100_001))]), "100,000 at most"),
    ],
    ids=["list", "long-list", "children", "more-children", "groups", "structs", "lists", "varint", "text", "columns"],
)
def test_what_is_announced_is_checked_first(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        opened(tmp_path, data)
    assert str(tmp_path / "x.parquet") in str(caught.value)
