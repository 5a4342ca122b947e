"""Learning where the rows of arrays lie: the headers of a few arrays of each field and shard are read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from bushel._dataset.read.shards import OpenShard
from bushel._index.elements import Elements, Group
from bushel._index.row_forms import RowForms
from bushel._index.table import FieldExtents
from bushel.codecs import get_codec
from bushel.codecs.base import Ranged
from bushel.codecs.parts import RowForm
from bushel.errors import BushelError, CodecError
from bushel.kernels import ExtentError
from bushel.storage import Extents, File, read_many

_HEAD = 1024  # bytes of a value in which its header is looked for
_AT_A_TIME = 16  # values of a batch whose headers are read


class Source(Protocol):
    """The reader of the arrays: `Reader`, which describes these members."""

    shards: Sequence[OpenShard]
    row_forms: dict[tuple[int, str], RowForms]

    def file(self, shard: int, number: int) -> File: ...

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]: ...


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
    reader: Source, groups: Iterable[Group], wanted: Mapping[str, Elements]
) -> Mapping[tuple[int, str], RowForms]:
    """Return where the rows of the wanted arrays of a batch lie, by number of the shard and field.

    Arrays without headers of their own are left out, and so are fields whose elements are not rows.
    """
    found: dict[tuple[int, str], RowForms] = {}
    for group, name, _, column, ranged in ranged_fields(groups, wanted):
        if ranged.layout is None or not len(group.rows):
            continue
        if (forms := reader.row_forms.get((group.number, name))) is None:
            if not _has_headers(ranged, int(column.length[group.rows].max())):
                continue
            forms = reader.row_forms.setdefault((group.number, name), RowForms())
        found[group.number, name] = forms
        for most in (1, _AT_A_TIME):  # one may show the form of all others
            if rows := _unlike(forms, column, group)[:most]:
                _look(reader, group.number, column, forms, rows)
    return found


def look_again(reader: Source, position: int, name: str) -> None:
    """Look at an array whose header was not the expected one, for the next time that it is read."""
    number, row = reader.row_of(position, name)
    if (forms := reader.row_forms.get((number, name))) is not None:
        _look(reader, number, reader.shards[number].index.fields[name], forms, [row])


def _unlike(forms: RowForms, column: FieldExtents, group: Group) -> list[int]:
    """Return rows of arrays like none that is known, one of each size."""
    sizes, first = np.unique(column.length[group.rows], return_index=True)
    both = zip(sizes.tolist(), group.rows[first].tolist(), strict=True)
    return [row for size, row in both if size > 0 and forms.needs(size)]


def _has_headers(ranged: Ranged, size: int) -> bool:
    """Return whether the layout of arrays is in them, and does not follow from their size."""
    try:
        return ranged.layout is not None and ranged.layout(b"", max(size, 0)) is None
    except CodecError:
        return True


def _look(reader: Source, number: int, column: FieldExtents, forms: RowForms, rows: list[int]) -> None:
    """Note the forms of arrays. Reading the value finds those that cannot be read."""
    sizes = column.length[rows].astype(np.int64)
    try:
        file = reader.file(number, column.file)
        heads = read_many([file], Extents(0, column.offset[rows].astype(np.int64), np.minimum(sizes, _HEAD)))
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
            form = None if layout is None or not layout.shape else RowForm.of(layout)
        forms.add(size, form)
