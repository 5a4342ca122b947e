"""Learning where the rows of arrays are: the headers of a few arrays of each field and shard are read once.

Elements of other values with an outline are found by first reading a few bytes of each value.
`reader` is the `Reader` everywhere here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BufferedReader
from typing import Any

import numpy as np

from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.part_plan import Forms, RowForms
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import I64
from bushel.codecs import get_codec
from bushel.codecs.base import Outline, Ranged
from bushel.codecs.parts import FileOutline, RowForm
from bushel.errors import BushelError, CodecError
from bushel.kernels import ExtentError
from bushel.storage import Extents, Seekable, read_many

_HEAD = 1024  # bytes of a value in which its header is looked for
_AT_A_TIME = 16  # values of a batch whose headers are read
_LEAST = 64 << 10  # bytes of a value; smaller ones are read whole
_KEPT = 1024  # outlines
_READ_AHEAD = 64 << 10  # bytes that are read at a time for decoders that read files
_MOST_ROUNDS = 70  # of looking; a codec that asks for more is not asked again
Place = tuple[int, str, int]
"""The number of a shard, a field, and the row of a value."""


def ranged_fields(
    groups: Iterable[Group], wanted: Mapping[str, Elements]
) -> Iterator[tuple[Group, str, Elements, FieldExtents, Ranged]]:
    """Yield the plain fields of each shard with wanted elements, if their codec can decode parts of a value."""
    for group in groups:
        for name, elements in wanted.items():
            column = None if elements is None else group.index.fields.get(name)
            if column is None or column.starts is not None or column.frames is not None:
                continue
            if (ranged := get_codec(column.codec).ranged) is not None:
                yield group, name, elements, column, ranged


def forms_of(
    reader: Any, groups: Iterable[Group], wanted: Mapping[str, Elements]
) -> Mapping[tuple[int, str], RowForms]:
    """Return where the rows of the wanted arrays of a batch are, by number of the shard and field.

    Arrays without headers of their own are left out, and so are fields whose elements are not rows.
    """
    forms_of_fields: dict[tuple[int, str], RowForms] = {}
    for group, name, _, column, ranged in ranged_fields(groups, wanted):
        if ranged.layout is None or not len(group.rows):
            continue
        if (forms := reader.row_forms.get((group.number, name))) is None:
            if not _has_headers(ranged, int(column.length[group.rows].max())):
                continue
            forms = reader.row_forms.setdefault((group.number, name), RowForms())
        forms_of_fields[group.number, name] = forms
        for most in (1, _AT_A_TIME):  # one may show the form of all others
            if rows := _unlike(forms, column, group)[:most]:
                _look(reader, group.number, column, forms, rows)
    return forms_of_fields


def look_again(reader: Any, position: int, name: str) -> None:
    """Look at an array whose header was not the expected one, for the next time that it is read."""
    number, row = reader.row_of(position, name)
    if (forms := reader.row_forms.get((number, name))) is not None:
        _look(reader, number, reader.shards[number].index.fields[name], forms, [row])


def _unlike(forms: RowForms, column: FieldExtents, group: Group) -> list[int]:
    """Return rows of arrays like none that is known, one of each size."""
    sizes, first = np.unique(column.length[group.rows], return_index=True)
    pairs = zip(sizes.tolist(), group.rows[first].tolist(), strict=True)
    return [row for size, row in pairs if size > 0 and forms.needs(size)]


def _has_headers(ranged: Ranged, size: int) -> bool:
    """Return whether the layout of arrays is in them, and does not follow from their size."""
    try:
        return ranged.layout is not None and ranged.layout(b"", max(size, 0)) is None
    except CodecError:
        return True


def _look(reader: Any, number: int, column: FieldExtents, forms: RowForms, rows: list[int]) -> None:
    """Note the forms of arrays. Reading the value finds those that cannot be read."""
    sizes = column.length[rows].astype(np.int64)
    try:
        file = reader.file(number, column.file)
        heads = read_many(
            [file], Extents(0, column.offset[rows].astype(np.int64), np.minimum(sizes, _HEAD))
        )
    except (ExtentError, BushelError, OSError):
        return
    ranged = get_codec(column.codec).ranged
    for size, head in zip(sizes.tolist(), heads, strict=True):
        form = None
        if ranged is not None and ranged.layout is not None and head is not None:
            try:
                layout = ranged.layout(head, size)
            except CodecError:
                layout = None
            if layout is not None and layout.shape:
                form = RowForm.of(layout)
        forms.add(size, form)


def forms_and_outlines(
    reader: Any, groups: Sequence[Group], wanted: Mapping[str, Elements], total: int
) -> Mapping[tuple[int, str], Forms]:
    """Return where the wanted elements of a batch are, by shard and field: in rows with headers and in other values."""
    return {**forms_of(reader, groups, wanted), **outlines_of(reader, groups, wanted, total)}


def outlines_of(
    reader: Any, groups: Iterable[Group], wanted: Mapping[str, Elements], total: int
) -> dict[tuple[int, str], dict[int, Outline]]:
    """Return the outlines of the wanted values of a batch of `total` samples, by shard and field, and by row.

    Each knows where its wanted elements are, or that the value has to be read whole. All values of
    the batch are looked at together, round by round, since each round may be a request to an object
    store.
    """
    outlines_of_fields: dict[tuple[int, str], dict[int, Outline]] = {}
    wanted_parts: list[tuple[Place, Outline, slice | I64]] = []
    for group, name, elements, column, ranged in ranged_fields(groups, wanted):
        if ranged.outline is None and ranged.in_file is None:
            continue
        outlines_of_rows = outlines_of_fields.setdefault((group.number, name), {})
        for row, place in zip(group.rows.tolist(), group.places_in(total).tolist(), strict=True):
            if (size := int(column.length[row])) < _LEAST:
                continue
            at = group.number, name, row
            if ranged.in_file is not None:
                opened = partial(_opened, reader, group.number, column, row)
                outlines_of_rows[row] = FileOutline(opened, ranged.in_file)
                continue
            if ranged.outline is None:
                continue
            outlines_of_rows[row] = outline = reader.outlines.get(at) or reader.outlines.setdefault(
                at, ranged.outline(size)
            )
            part = at_place(elements, place)
            if part is not None and not isinstance(part, Ranges):
                wanted_parts.append((at, outline, part))
    _look_at_outlines(reader, wanted_parts)
    while (
        len(reader.outlines) > _KEPT and (oldest := next(iter(reader.outlines), None)) is not None
    ):
        reader.outlines.pop(oldest, None)
    return outlines_of_fields


def _opened(reader: Any, number: int, column: FieldExtents, row: int) -> BufferedReader:
    """Open a value as a file."""
    file = reader.file(number, column.file)
    value = Seekable(file, int(column.offset[row]), int(column.length[row]))
    return BufferedReader(value, _READ_AHEAD)


def _look_at_outlines(
    reader: Any, wanted_parts: Sequence[tuple[Place, Outline, slice | I64]]
) -> None:
    """Look at bytes of values until all parts are clear. Reading the values finds those that cannot be read."""
    for _ in range(_MOST_ROUNDS):
        probes: dict[tuple[Place, int, int], Outline] = {}
        still = []
        for place, outline, part in wanted_parts:
            if (probe := outline.probe(part)) is not None:
                probes[place, *probe] = outline
                still.append((place, outline, part))
        if not probes:
            return
        wanted_parts = still
        homes = [
            (shard, reader.shards[shard].index.fields[name]) for (shard, name, _), _, _ in probes
        ]
        rows = [row for (_, _, row), _, _ in probes]
        files: dict[tuple[int, int], int] = {}
        number = [files.setdefault((shard, column.file), len(files)) for shard, column in homes]
        starts = np.array(
            [int(column.offset[row]) for (_, column), row in zip(homes, rows, strict=True)],
            np.int64,
        )
        offsets = np.array([offset for _, offset, _ in probes], np.int64)
        lengths = np.array([length for _, _, length in probes], np.int64)
        extents = Extents(np.array(number, np.int32), starts + offsets, lengths)
        try:
            data = read_many([reader.file(*number_of_file) for number_of_file in files], extents)
        except (ExtentError, BushelError, OSError):
            return
        for outline, offset, read_bytes in zip(
            probes.values(), offsets.tolist(), data, strict=True
        ):
            outline.learn(offset, bytes(read_bytes or b""))
