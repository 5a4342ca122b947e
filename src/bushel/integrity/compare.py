"""Comparing two tables of one shard: the stored one, and the one made from the files. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bushel._dataset.views.stored_values import same_value
from bushel._index.columns import Column
from bushel._index.identity import same_keys
from bushel._index.names import field_of
from bushel._index.shard import Keys
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64
from bushel.storage.blocks import Blocks

_CHUNK = 4096
_SCANS = {"segments": "segments", "frames": "packets of its clip", "seek": "seek table"}
_SHOWN = 60  # characters of a value in a message


class Difference(Struct, frozen=True):
    """A difference between the stored table and the files."""

    what: str  # a description of the two values
    sample: int | None = None  # number of the sample in the shard, or None
    field: str | None = None
    file: int | None = None  # number of the file that holds the field, or None
    offset: int | None = None  # offset of the bytes in the stored table, or None
    # whether the files have another intact record instead: then the references to records changed,
    # not the table of the records
    referred: bool = False


def differences(kept: ShardIndex, built: ShardIndex) -> Iterator[Difference]:
    """Yield the differences between the structure of the stored table and that of the files.

    Extents of a field that the two tables have in different files are not compared: JSON that
    strict parsers refuse has none when it is indexed, and extents of its writer are covered by
    checksums.
    """
    if kept.samples != built.samples:
        yield Difference(
            f"the files have {built.samples} samples, but the index has {kept.samples}"
        )
        return
    if kept.container != built.container:
        yield Difference(f"the files are {built.container}, but the index says {kept.container}")
    yield from _key_differences(kept, built)
    yield from name_differences(kept, built)
    for name, column in kept.fields.items():
        other = built.fields.get(name)
        if (
            other is not None
            and column.file == other.file
            and column.field.sequence == other.field.sequence
        ):
            yield from _column_differences(column, other)
    for number, blocks in enumerate(kept.blocks[: len(built.blocks)]):
        yield from _block_differences(kept, len(kept.files) + number, blocks, built.blocks[number])
    if len(kept.blocks) > len(built.blocks):
        have = f"the files have {len(built.blocks)} block files"
        yield Difference(f"{have}, but the index has {len(kept.blocks)}")


def content_differences(kept: ShardIndex, now: ShardIndex) -> Iterator[Difference]:
    """Yield the differences of columns, segments, packets and seek tables, of two tables with the same extents."""
    for name, column in kept.columns.items():
        for what, row in _value_differences(name, column, now.columns.get(name)):
            owner = field_of(name, kept.spec)
            yield Difference(what, row, None if owner is None else owner.name)
    for name, extents in kept.fields.items():
        for attribute, what in _SCANS.items():
            known, found = getattr(extents, attribute), getattr(now.fields[name], attribute)
            if known is None or found is None:
                continue
            said = f"the {what} in the index differs from the value in the files"
            for row in array_differences(known, found).tolist():
                sample = extents.sample_of(row) if row < extents.rows else None
                yield Difference(said, sample, name)


def _shown(value: object) -> str:
    text = repr(value)
    if value is None:
        text = "no value"
    if len(text) > _SHOWN:
        return f"{text[:_SHOWN]}…"
    return text


def _key_differences(kept: ShardIndex, built: ShardIndex) -> Iterator[Difference]:
    if kept.keys is built.keys:  # none, or the ones that `with_sound_keys` has compared
        return
    # without keys they are the positions, which some containers store
    stored, now = (index.keys or Keys.of(map(str, range(index.samples))) for index in (kept, built))
    if same_keys(stored, now):
        return
    for sample, (was, is_now) in enumerate(zip(stored.tolist(), now.tolist(), strict=True)):
        if was != is_now:
            yield Difference(
                f"the files have the key {is_now!r}, but the index has {was!r}", sample
            )


def name_differences(
    kept: ShardIndex, built: ShardIndex, *, changed: bool = False
) -> Iterator[Difference]:
    """Yield fields that only one table has, types that differ, and classes with other names.

    The index may have more classes, as samples that were appended bring new ones along. Files that
    have `changed` since may have other types, more classes, and more fields or fewer.
    """
    new = [name for name in built.fields if name not in kept.fields]
    gone = [name for name in kept.fields if name not in built.fields]
    differ = new and gone if changed else new or gone
    if differ and kept.samples:  # files without samples may not tell their fields
        have = (
            f"{', '.join(map(repr, new)) or 'nothing'} where the "
            f"index has {', '.join(map(repr, gone)) or 'nothing'}"
        )
        yield Difference(
            f"the names of fields differ: the files have {have}", field=(gone or new)[0]
        )
    for name in () if changed else kept.fields.keys() & built.fields.keys():
        known, found = kept.fields[name], built.fields[name]
        if (known.field, known.codec) != (found.field, found.codec):
            was, is_now = (f"{each.field.type} (stored as {each.codec})" for each in (known, found))
            yield Difference(f"the files have it as {is_now}, but the index as {was}", field=name)
    for field, names in built.labels.items():
        classes = kept.labels.get(field, ())
        yield from _class_differences(field, classes, names[: len(classes)] if changed else names)


def _class_differences(
    field: str, known: tuple[str, ...], names: tuple[str, ...]
) -> Iterator[Difference]:
    """Yield the first class that has another name in the index, or that the index lacks."""
    padded = (*known, *[""] * len(names))
    for number, (was, name) in enumerate(zip(padded, names, strict=False)):
        if was != name:
            what = f"class {number} is {was!r} in the index, but {name!r} in the files"
            hint = "`bushel repair` writes the samples again, with the names of the index"
            yield Difference(f"{what}: {hint}", None, field)
            return


def _column_differences(kept: FieldExtents, built: FieldExtents) -> Iterator[Difference]:
    name, file = kept.field.name, kept.file
    if kept.starts is not None and built.starts is not None:
        had, has = np.diff(kept.starts), np.diff(built.starts)
        changed = np.flatnonzero(had != has)
        for sample in changed.tolist():
            yield Difference(
                f"the files have {has[sample]} elements, but the index has {had[sample]}",
                sample,
                name,
                file,
            )
        if len(changed):
            return
        yield from _empty_differences(kept, built)
    there = kept.length != MISSING
    changed = np.flatnonzero(
        (kept.length != built.length) | ((kept.offset != built.offset) & there)
    )
    known = np.isin(_pairs(built)[changed], np.sort(_pairs(kept))) if len(changed) else changed
    for row, referred in zip(changed.tolist(), known.tolist(), strict=True):
        is_now, was = _extent(built, row), _extent(kept, row)
        what = f"the files have it {is_now}, but the index has it {was}"
        referred = referred and built.length[row] != MISSING
        place = kept.sample_of(row), name, file, int(kept.offset[row])
        yield Difference(what, *place, referred=bool(referred))
    if kept.crc32 is not None and built.crc32 is not None:
        for row in np.flatnonzero(
            (kept.crc32 != built.crc32) & there & (kept.length == built.length)
        ).tolist():
            yield Difference(
                f"the files record the CRC-32 {int(built.crc32[row]):08x}, "
                f"the index {int(kept.crc32[row]):08x}",
                kept.sample_of(row),
                name,
                file,
                int(kept.offset[row]),
            )


def _empty_differences(kept: FieldExtents, built: FieldExtents) -> Iterator[Difference]:
    """Yield the samples that have an empty sequence in one table, and no value in the other.

    Formats that do not distinguish the two have an empty one.
    """
    (empty, _), (empty_now, _) = kept.empty_and_absent, built.empty_and_absent
    changed = empty != empty_now if built.absent is not None else empty & ~empty_now
    for sample in np.flatnonzero(changed).tolist():
        what = "the files have no value, but the index has an empty sequence"
        if empty_now[sample]:
            what = "the files have an empty sequence, but the index has no value"
        yield Difference(what, sample, kept.field.name, kept.file)


def _extent(column: FieldExtents, row: int) -> str:
    if column.length[row] == MISSING:
        return "nowhere"
    return f"at {column.offset[row]} with {column.length[row]} bytes"


def _pairs(column: FieldExtents) -> npt.NDArray[np.complex128]:
    """Return offset and length as one sortable number per row."""
    return column.offset + 1j * column.length


def _block_differences(
    kept: ShardIndex, file: int, known: Blocks, found: Blocks
) -> Iterator[Difference]:
    """Yield the first block of a block file that differs, with a sample that it holds bytes of."""
    block = _differing_block(known, found)
    if block is None:
        return
    position = int(known.start[min(block, len(known))])
    what = f"block {block} of its bytes in the index differs from that of the files"
    for name, column in kept.fields.items():
        if column.file == file:
            rows = np.flatnonzero(column.present & (column.offset + column.length > position))
            if len(rows):
                yield Difference(what, column.sample_of(int(rows[0])), name, file, position)
                return
    yield Difference(what, file=file, offset=position)


def _differing_block(known: Blocks, found: Blocks) -> int | None:
    """Return the number of the first block that differs; None if all are equal."""
    if not same_arrays(known, found, ("held",)):
        return 0
    pairs = zip_longest(_facts_of(known), _facts_of(found))
    return next((block for block, (was, is_now) in enumerate(pairs) if was != is_now), None)


def _facts_of(blocks: Blocks) -> Iterator[tuple[object, ...]]:
    """Yield the facts of each block."""
    columns = blocks.start[1:], blocks.file, blocks.offset, blocks.length, blocks.filter
    facts = zip(*(column.tolist() for column in columns), strict=True)
    for block, (*numbers, number) in enumerate(facts):
        yield *numbers, blocks.filters[number], blocks.side and blocks.side.of(block)


def _value_differences(
    name: str, known: Column, found: Column | None
) -> Iterator[tuple[str, int | None]]:
    """Yield the differences of values and types in two columns, each with its sample. NaN is NaN."""
    if found is None:
        yield f"the index has a column {name!r}, which no field can have", None
        return
    if known.kind == found.kind and same_arrays(known, found, _COLUMN_ARRAYS):
        return
    try:
        for first in range(0, len(found), _CHUNK):
            rows = slice(first, first + _CHUNK)
            pairs = zip(known.piece(rows).plain(), found.piece(rows).plain(), strict=True)
            for row, (was, is_now) in enumerate(pairs, first):
                if not same_value(was, is_now):
                    said = f"{_shown(was)}, but the value in the files has {_shown(is_now)}"
                    yield f"column {name!r} has {said}", row
    except ValueError as error:  # its arrays contradict each other
        yield f"column {name!r} is damaged: {error}", None


_COLUMN_ARRAYS = ("values", "missing", "codes", "text", "offsets", "types")


def same_arrays(known: object, found: object, names: Sequence[str]) -> bool:
    """Return whether the arrays, or None, that two objects have under some names are equal. NaN is NaN."""
    return all(_equal(getattr(known, name), getattr(found, name)) for name in names)


def _equal(known: np.ndarray | None, found: np.ndarray | None) -> bool:
    may_hold_nan = known is not None and known.dtype.kind == "f"
    return np.array_equal(known, found, equal_nan=may_hold_nan)  # type: ignore[arg-type]


def array_differences(known: Any, found: Any) -> I64:
    """Return int64[n], the rows whose part of the arrays of two objects differs; the arrays are their attributes.

    Row `i` has the elements `starts[i]` to `starts[i + 1]`, or one in an array of `rows` elements.
    """
    if len(known.starts) != len(found.starts):
        return np.zeros(1, np.int64)
    lengths = np.diff(known.starts)
    wrong = lengths != np.diff(found.starts)
    if wrong.any():
        return np.flatnonzero(wrong)
    rows = np.arange(len(lengths))
    row_of_element = {len(known.starts) and int(known.starts[-1]): np.repeat(rows, lengths)}
    row_of_element[len(rows)] = rows
    for name in known.__struct_fields__:
        recorded, now = getattr(known, name), getattr(found, name)
        if np.array_equal(recorded, now):
            continue
        owners = row_of_element.get(len(recorded), rows[:0])
        if len(owners) == len(now):
            wrong[owners[recorded != now]] = True
        else:  # of all rows
            wrong[:1] = True
    return np.flatnonzero(wrong)
