"""Texts and pages that are small and announce much: depths of JSON, columns by the million, sizes of pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.containers.tfrecords import varint

import bushel
from bushel.errors import BushelError, FormatError
from bushel.filters.base import MAX_BLOCK
from bushel.filters.parquet_pages import pages_of

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mds/index.json", f'{{"version": 2, "shards": {DEEP}}}'),
        ("litdata/index.json", f'{{"chunks": {DEEP}, "config": {{}}}}'),
        ("robot/meta/info.json", f'{{"codebase_version": "v3.0", "features": {DEEP}}}'),
        ("set/state.json", f'{{"_data_files": {DEEP}}}'),
    ],
)
def test_deep_descriptions_are_errors(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (path.parent / "data.arrow").touch()
    with pytest.raises(FormatError, match=name.partition("/")[0]):
        bushel.open(tmp_path / name.partition("/")[0], index="memory")


def test_a_deep_value_is_an_error_of_its_sample_only(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"a": {DEEP}, "n": 1}}\n{{"a": [2], "n": 2}}\n')
    dataset = bushel.open(path, index="memory")
    with pytest.raises(BushelError, match=r"sample '0', field 'a'.*x\.jsonl"):
        dataset[0]
    assert dataset[0, ["n"]]["n"] == 1
    assert dataset[1] == {"a": [2], "n": 2, "__key__": "1"}


def test_a_million_columns(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({f"c{number}": number for number in range(1_000_000)}) + "\n")
    with pytest.raises(FormatError, match=r"x\.jsonl.*too many different names.*spec="):
        bushel.open(tmp_path / "x.jsonl", index="memory")
    (tmp_path / "x.csv").write_text(",".join(f"c{number}" for number in range(1_000_000)) + "\n")
    with pytest.raises(FormatError, match=r"x\.csv.*too many cells"):
        bushel.open(tmp_path / "x.csv", index="memory")


def page(size: int, length: int, values: int) -> bytes:
    """Return the header of a data page of version 1, as it is written in Thrift's compact protocol."""
    numbers = b"".join(b"\x15" + varint(number << 1) for number in (0, size, length))
    return numbers + b"\x2c\x15" + varint(values << 1) + b"\x15\x00\x15\x06\x15\x06\x00\x00"


def test_pages_that_announce_much() -> None:
    def parsed(data: bytes, length: int) -> list[int]:
        return [each.values for each in pages_of(lambda at, size: data[at : at + size], 0, length)]

    data = page(8, 8, 2) + bytes(8)
    assert parsed(data, len(data)) == [2]
    for header, message in (
        (page(8, 8, 1 << 31), "is said to have 2147483648 values"),
        (page(MAX_BLOCK + 1, 8, 2), "is said to have 2 values and"),
        (page(8, 1 << 31, 2), "goes beyond its column chunk"),
        (page(8, 1 << 40, 2), "not a count"),
    ):
        with pytest.raises(ValueError, match=message):
            parsed(header + bytes(8), len(header) + 8)
