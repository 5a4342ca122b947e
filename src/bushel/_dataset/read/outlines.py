"""Find the bytes of elements of values that have an outline, by first reading a few bytes of each value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from bushel._dataset.read import row_forms
from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.part_plan import Forms
from bushel._runtime.arrays import I64
from bushel.codecs.base import Outline
from bushel.errors import BushelError
from bushel.kernels import ExtentError
from bushel.storage import Extents, read_many

_LEAST = 64 << 10  # bytes of a value; smaller ones are read whole
_KEPT = 1024  # outlines
_MOST_ROUNDS = 70  # of looking; a codec that asks for more is not asked again


Place = tuple[int, str, int]
"""The number of a shard, a field, and the row of a value."""


class Source(row_forms.Source, Protocol):
    """The reader of the values: `Reader`, which describes these members."""

    outlines: dict[Place, Outline]


def forms_and_outlines(
    reader: Source, groups: Sequence[Group], wanted: Mapping[str, Elements], total: int
) -> Mapping[tuple[int, str], Forms]:
    """Return where the wanted elements of a batch lie, by shard and field: in rows with headers and in other values."""
    return {**row_forms.forms_of(reader, groups, wanted), **outlines_of(reader, groups, wanted, total)}


def outlines_of(
    reader: Source, groups: Iterable[Group], wanted: Mapping[str, Elements], total: int
) -> dict[tuple[int, str], dict[int, Outline]]:
    """Return the outlines of the wanted values of a batch of `total` samples, by shard and field, and by row.

    Each knows where its wanted elements lie, or that the value has to be read whole. All values of the batch are looked
    at together, round by round, since each round may be a request to an object store.
    """
    found: dict[tuple[int, str], dict[int, Outline]] = {}
    wanted_parts: list[tuple[Place, Outline, slice | I64]] = []
    for group, name, elements, column, ranged in row_forms.ranged_fields(groups, wanted):
        if ranged.outline is None:
            continue
        own = found.setdefault((group.number, name), {})
        for row, place in zip(group.rows.tolist(), group.places_in(total).tolist(), strict=True):
            if (size := int(column.length[row])) < _LEAST:
                continue
            at = group.number, name, row
            own[row] = outline = reader.outlines.get(at) or reader.outlines.setdefault(at, ranged.outline(size))
            part = at_place(elements, place)
            if part is not None and not isinstance(part, Ranges):
                wanted_parts.append((at, outline, part))
    _look(reader, wanted_parts)
    while len(reader.outlines) > _KEPT and (oldest := next(iter(reader.outlines), None)) is not None:
        reader.outlines.pop(oldest, None)
    return found


def _look(reader: Source, wanted_parts: Sequence[tuple[Place, Outline, slice | I64]]) -> None:
    """Look at bytes of values until all parts are clear. Reading the values finds those that cannot be read."""
    for _ in range(_MOST_ROUNDS):
        probes: dict[tuple[Place, int, int], Outline] = {}
        still = []
        for place, outline, part in wanted_parts:
            if (asked := outline.probe(part)) is not None:
                probes[place, *asked] = outline
                still.append((place, outline, part))
        if not probes:
            return
        wanted_parts = still
        homes = [(shard, reader.shards[shard].index.fields[name]) for (shard, name, _), _, _ in probes]
        rows = [row for (_, _, row), _, _ in probes]
        files: dict[tuple[int, int], int] = {}
        number = [files.setdefault((shard, column.file), len(files)) for shard, column in homes]
        starts = np.array([int(column.offset[row]) for (_, column), row in zip(homes, rows, strict=True)], np.int64)
        offsets = np.array([offset for _, offset, _ in probes], np.int64)
        lengths = np.array([length for _, _, length in probes], np.int64)
        extents = Extents(np.array(number, np.int32), starts + offsets, lengths)
        try:
            data = read_many([reader.file(*each) for each in files], extents)
        except (ExtentError, BushelError, OSError):
            return
        for outline, offset, own in zip(probes.values(), offsets.tolist(), data, strict=True):
            outline.learn(offset, bytes(own or b""))
