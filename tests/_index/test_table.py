from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bushel._index.block_arrays import blocks_without, words_of
from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.shard import FileStamp, Keys, Place, Shard
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage.blocks import Blocks

FILES = (FileStamp("a.bin", 10**6), FileStamp("b.bin", 10**6))
Extent: TypeAlias = tuple[int, int, int]
Row: TypeAlias = tuple[str, Extent | None, list[Extent] | None]
"""Key, extent of field a, and extents of sequence field b."""

EXTENTS = st.tuples(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 2**32 - 1))
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ROWS = st.tuples(
    KEYS,
    st.none() | EXTENTS,
    st.none() | st.lists(EXTENTS, max_size=3),
)


def builder(*, keyed: bool = True) -> IndexBuilder:
    columns = [FieldBuilder(Field("a", "jpg"), "jpg", 0), FieldBuilder(Field("b", "utf8", True), "utf8", 1)]
    return IndexBuilder("recordio", columns, keyed=keyed)


def put(into: IndexBuilder, row: Row) -> None:
    """Add the extents of a sample, but do not close it."""
    _, plain, elements = row
    if plain is not None:
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
    plain, sequence = index.fields["a"], index.fields["b"]
    assert plain.crc32 is not None
    assert sequence.crc32 is not None
    assert sequence.starts is not None
    table: list[Row] = []
    for sample in range(index.samples):
        extent = (int(plain.offset[sample]), int(plain.length[sample]), int(plain.crc32[sample]))
        rows, counts = sequence.rows_of(np.array([sample], np.int64))
        assert counts.tolist() == [len(rows)]
        elements = [(int(sequence.offset[r]), int(sequence.length[r]), int(sequence.crc32[r])) for r in rows.tolist()]
        lacking = sequence.absent is not None and bool(sequence.absent[sample])
        key = "" if index.keys is None else index.keys[sample]
        table.append((key, None if extent[1] == MISSING else extent, None if lacking else elements))
    return table


@given(st.lists(ROWS, max_size=8))
def test_what_is_added_is_in_the_table(rows: list[Row]) -> None:
    made = builder()
    fill(made, rows)
    index = made.build(FILES)
    assert index.check("x") is index
    assert rows_in(index) == rows
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
    assert rows_in(made.build(FILES)) == kept


@given(st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=4))
def test_a_finished_table_can_be_continued(rows: list[Row], more: list[Row]) -> None:
    made, again = builder(), builder()
    fill(made, rows)
    again.load(made.build(FILES))
    fill(again, more)
    assert rows_in(again.build(FILES)) == rows + more


@given(st.lists(ROWS, max_size=6), st.lists(ROWS, min_size=1, max_size=4))
def test_a_field_that_the_earlier_samples_lack(rows: list[Row], more: list[Row]) -> None:
    for name in ("a", "b"):
        made, again = builder(), builder()
        fill(made, rows)
        index = made.build(FILES)
        again.load(replace(index, fields={other: column for other, column in index.fields.items() if other != name}))
        fill(again, more)
        lacking: list[Row] = [
            (key, None, elements) if name == "a" else (key, plain, None) for key, plain, elements in rows
        ]
        assert rows_in(again.build(FILES)) == lacking + more


def test_keys_of_the_samples_written() -> None:
    made = builder()
    fill(made, [(key, None, None) for key in ("a", "", "déjà", "\udcff", "b")])
    text, offsets = made.key_arrays()
    assert (text.tobytes(), offsets.tolist()) == ("adéjà".encode() + b"\xffb", [0, 1, 1, 7, 8, 9])
    assert not builder(keyed=False).key_arrays()[0].size
    assert not builder(keyed=False).keyed
    index = made.build(FILES)
    assert index.keys is not None
    assert [index.keys[sample] for sample in range(5)] == ["a", "", "déjà", "\udcff", "b"]


@given(st.lists(st.integers(0, 4), max_size=8), st.data())
def test_rows_of_samples(counts: list[int], data: st.DataObject) -> None:
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
    zeros = np.zeros(int(starts[-1]), np.int64)
    column = FieldExtents(Field("a", "utf8", True), "utf8", 0, zeros, zeros, starts=starts)
    samples = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=9)) if counts else []
    rows, found = column.rows_of(np.array(samples, np.int64))
    assert rows.tolist() == [row for sample in samples for row in range(starts[sample], starts[sample + 1])]
    assert found.tolist() == [counts[sample] for sample in samples]
    plain = FieldExtents(Field("a", "utf8"), "utf8", 0, zeros, zeros)
    rows, found = plain.rows_of(np.array(samples, np.int64))
    assert (rows.tolist(), found.tolist()) == (samples, [1] * len(samples))


@given(st.lists(KEYS, max_size=30))
def test_taking_keys(keys: list[str]) -> None:
    table = Keys.of(keys)
    samples = np.arange(len(keys), dtype=np.int64)[::-1].copy()
    assert table.take(samples) == keys[::-1]
    assert len(table) == len(keys)


def test_keys_with_the_same_hash_are_distinguished() -> None:
    table = Keys.of(["a", "b", "c", "b"])
    same = Keys(table.text, table.offsets, np.full(4, table.hashes[0]), np.arange(4, dtype=np.int64))
    assert same.duplicates() == ["b"]


def table(column: FieldExtents, samples: int = 2, **options: Any) -> ShardIndex:
    return ShardIndex(samples, FILES, {column.field.name: column}, "bag", **options)


def test_check_of_extents_in_blocks() -> None:
    two = np.array([0, 3], np.int64)
    column = FieldExtents(Field("meta", "json"), "json", 2, two, two)
    good = table(column, blocks=(Blocks.in_table(np.zeros(6, np.uint8)),))
    assert good.check("x") is good
    with pytest.raises(FormatError, match="field 'meta', row 1"):
        table(column, blocks=(Blocks.in_table(np.zeros(5, np.uint8)),)).check("x")
    outside = replace(blocks_without(6, []), length=np.array([10**7]), start=np.array([0, 10**7]))
    with pytest.raises(FormatError, match="block 0 is not inside its file"):
        table(column, blocks=(outside,)).check("x")


def test_where_bytes_are() -> None:
    blocks = (blocks_without(100, [20, 60]), Blocks.in_table(np.zeros(6, np.uint8)))
    index = ShardIndex(0, FILES, {}, "recordio", blocks=blocks)
    assert index.place(1, 7) == Place(1, 7)
    assert [index.place(2, at) for at in (0, 19, 20, 55, 56, 91)] == [Place(0, at) for at in (0, 19, 24, 59, 64, 99)]
    assert index.place(3, 5) == Place(None, 5)
    shard = Shard(Path("/data"), "x.rec", ("x.rec", "x.idx"))
    assert shard.locate(index.place(2, 20)) == ("/data/x.rec", 24)
    assert shard.locate(index.place(3, 5)) == ("/data/.bushel/x.rec.safetensors", 5)
    assert [index.size_of(number) for number in range(4)] == [10**6, 10**6, 92, 6]


@given(st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=6), st.data())
def test_words_that_are_left_out_make_a_block_file(rows: list[tuple[Row, bool]], data: st.DataObject) -> None:
    made = builder()
    words = []
    for number, (row, split) in enumerate(rows):
        put(made, row)
        if split:
            words.append((number, 1000 * (number + 1)))
            made.left_out.append(words[-1])
        made.close_sample(row[0])
    kept = data.draw(st.integers(0, len(rows)))
    made.truncate(kept)
    index = made.build(FILES)
    left = [offset for number, offset in words if number < kept]
    assert [words_of(blocks).tolist() for blocks in index.blocks] == ([left] if left else [])
    assert {own.file for own in index.fields.values()} == ({2} if left else {0, 1})
    again = builder()
    again.load(index)
    assert [offset for _, offset in again.left_out] == left


def test_only_words_can_be_left_out_of_a_shard_that_grows() -> None:
    index = ShardIndex(0, FILES, {}, "gulp", blocks=(Blocks.in_table(np.zeros(6, np.uint8)),))
    with pytest.raises(FormatError, match="cannot append"):
        builder().load(index)


def test_nbytes_and_select() -> None:
    made = builder()
    fill(made, [("a", (0, 10, 0), [(0, 3, 0), (3, 4, 0)]), ("b", None, None)])
    index = made.build(FILES)
    assert [column.nbytes for column in index.fields.values()] == [10, 7]
    assert list(index.select(["b", "gone", "a"]).fields) == ["b", "a"]
