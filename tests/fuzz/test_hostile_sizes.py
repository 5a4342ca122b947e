"""Texts and pages that are small and announce much: depths of JSON, columns by the million, sizes of pages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.containers.tfrecords import bytes_list, example, framed, varint

import bushel
from bushel.errors import BushelError, DamagedWarning, FormatError
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


def test_a_record_with_a_feature_for_each_number(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed([example({str(number): bytes_list(b"") for number in range(10_001)})]))
    with pytest.raises(FormatError, match=r"x\.tfrecord: its records have 10001 different features.*spec="):
        bushel.open(path, index="memory")
    assert len(bushel.open(path, index="memory", spec={"data": "bytes"})[0]["data"]) > 100_000


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


def optional_nulls(pages: int, values: int) -> bytes:
    """Return a Parquet file with one column of nulls: each page is a run of as many levels as it announces."""
    run = varint(values << 1) + b"\0"
    levels = len(run).to_bytes(4, "little") + run
    data = (page(len(levels), len(levels), values) + levels) * pages
    rows, size = varint(pages * values << 1), varint(len(data) << 1)
    schema = b"\x48\x04root\x15\x02\x00" + b"\x15\x04\x25\x02\x18\x01a\x00"
    meta = b"\x15\x04\x19\x15\x00\x19\x18\x01a\x15\x00\x16" + rows + b"\x16" + size + b"\x16" + size + b"\x26\x08\x00"
    group = b"\x19\x1c\x26\x08\x1c" + meta + b"\x00\x16" + size + b"\x16" + rows + b"\x00"
    footer = b"\x15\x02\x19\x2c" + schema + b"\x16" + rows + b"\x19\x1c" + group + b"\x00"
    return b"PAR1" + data + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_rows_without_values(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(optional_nulls(2, 1000))
    assert len(bushel.open(path, index="memory")) == 2000
    path.write_bytes(optional_nulls(400, 1 << 24))  # 19 KB
    with pytest.raises(
        FormatError,
        match=r"6710886400 rows of 1 columns are announced in .* bytes.*x\.parquet|x\.parquet.*6710886400 rows",
    ):
        bushel.open(path, index="memory")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x19\xfc" + varint(2_000_000) + bytes(2_000_000), "more structs and elements of lists"),
        (b"\x19\xf9" + varint(2_000_000) + b"\x09" * 2_000_000, "more structs and elements of lists"),
        (b"\x19\xf5" + varint(2_000_000) + bytes(2_000_000), "more structs and elements of lists"),
        (b"\x1c\x00" * 2_000, "a field has number 1001"),
        (b"\x11" * 2_000, "a field has number 1001"),
    ],
    ids=["empty structs", "empty lists", "integers", "structs", "truth values"],
)
def test_footers_of_many_small_parts(body: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + body + b"\x00" + (len(body) + 1).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FormatError, match=rf"damaged footer: .*{message}.*x\.parquet|x\.parquet.*{message}"):
        bushel.open(path, index="memory")


def test_columns_that_need_many_arrays(tmp_path: Path) -> None:
    """Tables of more than 4 MiB are in a temporary file, which is mapped once."""
    (tmp_path / "x.csv").write_text(
        ",".join(f"c{number}" for number in range(9_000)) + "\n" + ("1," * 8_999 + "1\n") * 30
    )
    dataset = bushel.open(tmp_path / "x.csv", index="memory")
    assert (len(dataset), len(dataset.spec)) == (30, 9_000)
    (tmp_path / "x.jsonl").write_text("".join(f'{{"c{number}": 1}}\n' for number in range(100_000)))
    with pytest.raises(FormatError, match=r"x\.jsonl.*different names"):
        bushel.open(tmp_path / "x.jsonl", index="memory")


def test_a_file_of_other_lines_is_refused_soon(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n" * 2_000_000))
    with pytest.raises(FormatError, match=r"x\.jsonl\.gz.*line 1 of the expanded file: expected an object"):
        bushel.open(path, index="memory")
    found = bushel.verify(path, max_problems=3)
    assert found.more < 20_000


@pytest.mark.parametrize("length", [10, 100_000, 3_000_000])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_each_damaged_line_is_left_out_alone(length: int, end: str, tmp_path: Path) -> None:
    """Bytes that are scanned after a damaged line may end inside the next one, which is one line all the same."""
    lines = b"".join(
        (b'{"n": %d}\n' % number) if number % 3 else b'{"n": "' + b"x" * length + b'" 1}\n' for number in range(12)
    )
    path = tmp_path / f"x.jsonl{end}"
    path.write_bytes(gzip.compress(lines) if end else lines)
    with pytest.warns(DamagedWarning, match="4 of 12 samples cannot be read"):
        dataset = bushel.open(path, index="memory")
    assert [dataset[row]["n"] for row in range(12) if row % 3] == [1, 2, 4, 5, 7, 8, 10, 11]
