from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.elements import Group
from bushel._index.read_plan import ReadPlan, plan_read
from bushel._index.shard import FileStamp
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field

Value: TypeAlias = tuple[int, int, int, int, int] | None
"""Shard, file, offset, length, CRC-32: all that a value is read by."""


@dataclass
class Shape:
    """How a field of a random shard is kept."""

    sequence: bool
    checked: bool


def column_of(name: str, rows: list[Any], shape: Shape, file: int, salt: int) -> FieldExtents:
    """Extents of a field that differ in their offsets; None among the rows is a sample without the field."""
    counts = [0 if row is None else row for row in rows] if shape.sequence else [1] * len(rows)
    total = sum(counts)
    offset = np.arange(total, dtype=np.int64) * 10 + salt
    length = np.arange(total, dtype=np.int64) % 7
    starts = absent = None
    if shape.sequence:
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
        absent = np.array([row is None for row in rows], np.bool_)
    else:
        length[[row is None for row in rows]] = MISSING
    crc32 = (np.arange(total) + salt).astype(np.uint32) if shape.checked else None
    field = Field(name, f"codec{salt % 2}", shape.sequence)
    return FieldExtents(field, field.codec, file, offset, length, crc32, starts, absent)


SHAPES = st.builds(Shape, st.just(False), st.booleans())


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[ShardIndex], list[tuple[int, int]]]:
    """Some shards, and the shard and row of each sample of a batch."""
    shards = []
    sequence = {"a": False, "b": True, "c": draw(st.booleans())}
    for number in range(draw(st.integers(1, 3))):
        samples = draw(st.integers(1, 4))
        columns = {}
        for file, name in enumerate(sequence):
            if draw(st.integers(0, 4)) == 0:
                continue
            shape = draw(SHAPES)
            shape.sequence = sequence[name]
            values = st.none() | st.integers(0, 4)
            rows = draw(st.lists(values, min_size=samples, max_size=samples))
            columns[name] = column_of(name, rows, shape, file, number * 100_000 + file * 1000)
        shards.append(ShardIndex(samples, tuple(FileStamp(f"{i}", 10**6) for i in range(3)), columns, "recordio"))
    places = st.integers(0, len(shards) - 1).flatmap(
        lambda shard: st.tuples(st.just(shard), st.integers(0, shards[shard].samples - 1))
    )
    return shards, draw(st.lists(places, min_size=1, max_size=8))


def groups_of(shards: list[ShardIndex], batch: list[tuple[int, int]]) -> list[Group]:
    present = sorted({shard for shard, _ in batch})
    groups = []
    for number in present:
        places = np.array([place for place, (shard, _) in enumerate(batch) if shard == number], np.int64)
        rows = np.array([batch[place][1] for place in places], np.int64)
        groups.append(Group(number, shards[number], rows, places if len(present) > 1 else None))
    return groups


def value_of(shard: int, column: FieldExtents, row: int) -> Value:
    """By the definition of a column."""
    length, offset = int(column.length[row]), int(column.offset[row])
    if length == MISSING:
        return None
    crc32 = -1 if column.crc32 is None else int(column.crc32[row])
    return shard, column.file, offset, length, crc32


def naive(shards: list[ShardIndex], batch: list[tuple[int, int]], name: str, elements: Any) -> list[Any]:
    """What each sample of the batch has of a field: a value, a list of values, or None."""
    found: list[Any] = []
    for shard, row in batch:
        column = shards[shard].fields.get(name)
        if column is None:
            found.append(None)
        elif column.starts is None:
            found.append(value_of(shard, column, row))
        elif column.absent is not None and column.absent[row]:
            found.append(None)
        else:
            own = list(range(int(column.starts[row]), int(column.starts[row + 1])))
            chosen = own if elements is None else own[elements]
            found.append([value_of(shard, column, each) for each in chosen])
    return found


def carried_out(plan: ReadPlan, total: int) -> dict[str, list[Any]]:
    """What reading by the plan would give."""
    flat: list[Value] = [None] * plan.size
    seen = []
    for batch in plan.batches:
        extents = batch.extents
        assert batch.rows is None or len(batch.rows) == len(extents)
        for number in range(len(extents)):
            length = int(extents.length[number])
            crc32 = -1 if extents.crc32 is None else int(extents.crc32[number])
            where = batch.files[extents.file_of(number)] if length >= 0 else (0, 0)
            seen.append(batch.row(number))
            flat[seen[-1]] = None if length < 0 else (*where, int(extents.offset[number]), length, crc32)
    assert len(set(seen)) == len(seen)
    found: dict[str, list[Any]] = {}
    for field, following in zip(plan.fields, [*plan.fields[1:], None], strict=True):
        own = flat[field.first : len(flat) if following is None else following.first]
        if field.counts is None:
            found[field.name] = own
            continue
        values = iter(own)
        found[field.name] = [None if count < 0 else [next(values) for _ in range(count)] for count in field.counts]
        assert next(values, "end") == "end"
    assert all(len(values) == total for values in found.values())
    return found


def without_checksum(value: Any) -> Any:
    if isinstance(value, list):
        return [without_checksum(each) for each in value]
    return None if value is None else (*value[:-1], -1)


@given(batches(), st.none() | st.slices(4), st.permutations(["a", "b", "c"]), st.integers(0, 7))
def test_a_plan_reads_what_the_tables_say(
    made: tuple[list[ShardIndex], list[tuple[int, int]]], elements: slice | None, names: list[str], checksums: int
) -> None:
    shards, batch = made
    wanted = dict.fromkeys(names) | ({"b": elements} if elements is not None else {})
    checked = {number for number in range(len(shards)) if checksums >> number & 1}
    plan = plan_read(groups_of(shards, batch), len(batch), wanted, checksums=checked)
    assert len(plan.batches) <= 2
    found = carried_out(plan, len(batch))
    assert list(found) == list(wanted)
    for name, values in found.items():
        expected = naive(shards, batch, name, wanted[name])
        for (shard, _), value, own in zip(batch, values, expected, strict=True):
            assert value == (own if shard in checked else without_checksum(own))
    parts = [part for whole in plan.batches for part in whole.parts()]
    by_file = carried_out(ReadPlan(plan.size, parts, plan.fields), len(batch))
    assert by_file == found


@given(batches(), st.permutations(["a", "b", "c"]))
def test_the_owner_of_every_extent(made: tuple[list[ShardIndex], list[tuple[int, int]]], names: list[str]) -> None:
    shards, batch = made
    plan = plan_read(groups_of(shards, batch), len(batch), dict.fromkeys(names))
    row = 0
    for field in plan.fields:
        counts = [1] * len(batch) if field.counts is None else [max(count, 0) for count in field.counts]
        for place, count in enumerate(counts):
            for _ in range(count):
                assert plan.owner(row) == (field.name, place)
                row += 1
    assert row == plan.size == sum(len(each.extents) for each in plan.batches)


@given(batches())
def test_stored_codecs(made: tuple[list[ShardIndex], list[tuple[int, int]]]) -> None:
    shards, batch = made
    plan = plan_read(groups_of(shards, batch), len(batch), {"a": None})
    [field] = plan.fields
    codecs = [field.codecs] * len(batch) if isinstance(field.codecs, str) else field.codecs
    for (shard, _), codec in zip(batch, codecs, strict=True):
        column = shards[shard].fields.get("a")
        assert column is None or codec == column.codec


def sequence(starts: list[int], rows: int, absent: list[bool] | None = None) -> Group:
    column = FieldExtents(
        Field("b", "utf8", True),
        "utf8",
        0,
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        None,
        np.array(starts, np.int64),
        None if absent is None else np.array(absent),
    )
    samples = len(starts) - 1
    index = ShardIndex(samples, (FileStamp("b.bag", 9),), {"b": column}, "bag")
    return Group(0, index, np.arange(samples, dtype=np.int64), None)


@pytest.mark.parametrize(
    "starts",
    [
        [0, 3, 2],
        [0, 2, 9],
        [-1, 2],
        [5, 5],
        [1, -(2**63)],
        [2**63 - 1, -(2**63)],
        [0, 2**63 - 1],
        [-(2**63), 2**63 - 1],
    ],
)
@pytest.mark.parametrize("elements", [None, slice(0, 1), np.array([0], np.int64)])
def test_borders_that_are_not_in_order(starts: list[int], elements: Any) -> None:
    group = sequence(starts, 3)
    with pytest.raises(FormatError, match="offsets of its sequences") as caught:
        plan_read([group], len(starts) - 1, {"b": elements})
    assert caught.value.file == "b.bag"


def test_a_list_of_elements_of_samples_that_lack_the_field() -> None:
    group = sequence([0, 2, 2, 4], 4, [False, True, False])
    plan = plan_read([group], 3, {"b": np.array([1, -2], np.int64)})
    assert plan.fields[0].counts == [2, -1, 2]
    with pytest.raises(IndexError, match="of 0 elements"):
        plan_read([sequence([0, 2, 2], 2)], 2, {"b": np.array([0], np.int64)})


def test_the_extents_of_one_plain_field_are_taken_as_they_are() -> None:
    rows = np.array([3, 0, 3], np.int64)
    column = column_of("a", [1, 1, 1, 1], Shape(False, True), 2, 0)
    index = ShardIndex(4, tuple(FileStamp(f"{i}", 99) for i in range(3)), {"a": column}, "bag")
    plan = plan_read([Group(5, index, rows, None)], 3, {"a": None}, checksums={5})
    [only] = plan.batches
    assert (only.files, only.rows) == ([(5, 2)], None)
    extents = only.extents
    assert extents.file == 0
    assert extents.offset.tolist() == [30, 0, 30]


def test_fields_are_read_together_unless_only_some_have_checksums() -> None:
    for checked, parts in ((True, 1), (False, 2)):
        columns = {
            name: column_of(name, [1, 1], Shape(False, checks), 0, 0) for name, checks in (("a", True), ("b", checked))
        }
        index = ShardIndex(2, (FileStamp("x", 99),), columns, "bag")
        groups = [Group(0, index, np.arange(2, dtype=np.int64), None)]
        assert len(plan_read(groups, 2, {"a": None, "b": None}, checksums={0}).batches) == parts
        assert len(plan_read(groups, 2, {"a": None, "b": None}).batches) == 1
