from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.core.index.builders import ColumnBuilder, IndexBuilder
from bushel.core.index.table import INLINE, MISSING, Column, FileStamp, Keys, ShardIndex
from bushel.spec import Field

FILES = (FileStamp("a.bin", 10**6), FileStamp("b.bin", 10**6))
Extent: TypeAlias = tuple[int, int, int]
Row: TypeAlias = tuple[str, Extent | None, list[Extent] | None, tuple[int, int] | None]
"""Key, extent of field a, extents of sequence field b, and start and length where a is stored in pieces."""

EXTENTS = st.tuples(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 2**32 - 1))
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ROWS = st.tuples(
    KEYS,
    st.none() | EXTENTS,
    st.none() | st.lists(EXTENTS, max_size=3),
    st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
)


def builder(*, keyed: bool = True) -> IndexBuilder:
    columns = [ColumnBuilder(Field("a", "jpg"), "jpg", 0), ColumnBuilder(Field("b", "utf8", True), "utf8", 1)]
    return IndexBuilder("recordio", columns, keyed=keyed)


def put(into: IndexBuilder, row: Row) -> None:
    """Add the extents of a sample, but do not close it."""
    _, plain, elements, piece = row
    if plain is not None:
        if piece is not None:
            into.fragments.setdefault("a", []).append((len(into.columns["a"].offset), *piece))
        into.columns["a"].add(*plain)
    if elements is None:
        into.columns["b"].mark_absent()
    for element in elements or ():
        into.columns["b"].add(*element)


def fill(into: IndexBuilder, rows: list[Row]) -> None:
    for row in rows:
        put(into, row)
        into.close_sample(row[0])


def rows_in(index: ShardIndex) -> list[Row]:
    """The table, sample by sample."""
    plain, sequence = index.columns["a"], index.columns["b"]
    assert plain.crc32 is not None
    assert sequence.crc32 is not None
    assert sequence.starts is not None
    pieces = {}
    if (parts := plain.fragments) is not None:
        columns = (parts.rows.tolist(), parts.start.tolist(), parts.length.tolist())
        pieces = {row: (start, length) for row, start, length in zip(*columns, strict=True)}
    table: list[Row] = []
    for sample in range(index.samples):
        extent = (int(plain.offset[sample]), int(plain.length[sample]), int(plain.crc32[sample]))
        rows, counts = sequence.rows_of(np.array([sample], np.int64))
        assert counts.tolist() == [len(rows)]
        elements = [(int(sequence.offset[r]), int(sequence.length[r]), int(sequence.crc32[r])) for r in rows.tolist()]
        lacking = sequence.absent is not None and bool(sequence.absent[sample])
        key = "" if index.keys is None else index.keys[sample]
        table.append((key, None if extent[1] == MISSING else extent, None if lacking else elements, pieces.get(sample)))
    return table


def expected(rows: list[Row]) -> list[Row]:
    return [(key, plain, elements, piece if plain is not None else None) for key, plain, elements, piece in rows]


@given(st.lists(ROWS, max_size=8))
def test_what_is_added_is_in_the_table(rows: list[Row]) -> None:
    made = builder()
    fill(made, rows)
    index = made.build(FILES)
    assert index.check("x") is index
    assert rows_in(index) == expected(rows)
    assert (index.samples, index.files, index.container) == (len(rows), FILES, "recordio")


@given(st.lists(ROWS, max_size=8), st.data())
def test_truncation_leaves_no_trace(rows: list[Row], data: st.DataObject) -> None:
    made = builder()
    kept = list(rows)
    fill(made, rows)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            put(made, data.draw(ROWS))  # a sample that failed before it was closed
        size = data.draw(st.integers(0, len(kept)))
        made.truncate(size)
        more = data.draw(st.lists(ROWS, max_size=3))
        fill(made, more)
        kept = kept[:size] + more
        assert made.samples == len(kept)
    assert rows_in(made.build(FILES)) == expected(kept)


@given(st.lists(st.lists(ROWS, max_size=4), max_size=4), st.booleans())
def test_what_was_added_since_makes_the_same_table_elsewhere(parts: list[list[Row]], keyed: bool) -> None:
    made, copy = builder(keyed=keyed), builder(keyed=keyed)
    for part in parts:
        before = made.samples
        fill(made, part)
        copy.extend(msgpack.unpackb(msgpack.packb(made.since(before))))
        assert copy.samples == made.samples
    rows = [row if keyed else ("", *row[1:]) for part in parts for row in part]
    assert rows_in(copy.build(FILES)) == expected(rows)


@given(st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=4))
def test_a_finished_table_can_be_continued(rows: list[Row], more: list[Row]) -> None:
    made, again = builder(), builder()
    fill(made, rows)
    again.load(made.build(FILES))
    fill(again, more)
    assert rows_in(again.build(FILES)) == expected(rows + more)


@given(st.lists(ROWS, max_size=6), st.lists(ROWS, min_size=1, max_size=4))
def test_a_field_that_the_earlier_samples_lack(rows: list[Row], more: list[Row]) -> None:
    for name in ("a", "b"):
        made, again = builder(), builder()
        fill(made, rows)
        index = made.build(FILES)
        again.load(replace(index, columns={other: column for other, column in index.columns.items() if other != name}))
        fill(again, more)
        lacking: list[Row] = [
            (key, None, elements, None) if name == "a" else (key, plain, None, piece)
            for key, plain, elements, piece in rows
        ]
        assert rows_in(again.build(FILES)) == expected(lacking + more)


def test_keys_of_the_samples_written() -> None:
    made = builder()
    fill(made, [(key, None, None, None) for key in ("a", "", "déjà", "\udcff", "b")])
    text, ends = made.key_text(1, 4)
    assert (text, list(ends)) == ("déjà".encode() + b"\xff", [0, 6, 7])
    assert builder(keyed=False).key_text(0, 0)[0] == b""
    assert not builder(keyed=False).keyed
    index = made.build(FILES)
    assert index.keys is not None
    assert [index.keys[sample] for sample in range(5)] == ["a", "", "déjà", "\udcff", "b"]


@given(st.lists(st.integers(0, 4), max_size=8), st.data())
def test_rows_of_samples(counts: list[int], data: st.DataObject) -> None:
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
    zeros = np.zeros(int(starts[-1]), np.int64)
    column = Column(Field("a", "utf8", True), "utf8", 0, zeros, zeros, starts=starts)
    samples = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=9)) if counts else []
    rows, found = column.rows_of(np.array(samples, np.int64))
    assert rows.tolist() == [row for sample in samples for row in range(starts[sample], starts[sample + 1])]
    assert found.tolist() == [counts[sample] for sample in samples]
    plain = Column(Field("a", "utf8"), "utf8", 0, zeros, zeros)
    rows, found = plain.rows_of(np.array(samples, np.int64))
    assert (rows.tolist(), found.tolist()) == (samples, [1] * len(samples))


@given(st.lists(KEYS, max_size=30))
def test_taking_keys(keys: list[str]) -> None:
    table = Keys.of(keys)
    samples = np.arange(len(keys), dtype=np.int64)[::-1].copy()
    assert table.take(samples) == keys[::-1]
    assert len(table) == len(keys)


def test_keys_with_the_same_hash_are_told_apart() -> None:
    table = Keys.of(["a", "b", "c", "b"])
    same = Keys(table.text, table.offsets, np.full(4, table.hashes[0]), np.arange(4, dtype=np.int64))
    assert same.duplicates() == ["b"]


def table(column: Column, samples: int = 2, **options: Any) -> ShardIndex:
    return ShardIndex(samples, FILES, {column.field.name: column}, "bag", **options)


def test_check_of_inline_extents() -> None:
    two = np.array([0, 3], np.int64)
    column = Column(Field("meta", "json"), "json", INLINE, two, two)
    table(column, inline=np.zeros(6, np.uint8)).check("x")
    for inline in (None, np.zeros(5, np.uint8)):
        with pytest.raises(Exception, match="field 'meta', row 1"):
            table(column, inline=inline).check("x")


def test_nbytes_and_select() -> None:
    made = builder()
    fill(made, [("a", (0, 10, 0), [(0, 3, 0), (3, 4, 0)], None), ("b", None, None, None)])
    index = made.build(FILES)
    assert [column.nbytes for column in index.columns.values()] == [10, 7]
    assert list(index.select(["b", "gone", "a"]).columns) == ["b", "a"]
