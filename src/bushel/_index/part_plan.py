"""The parts of values that a batch needs: packets of clips, rows of arrays, seek tables of images. Pure: no I/O."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.codecs import get_codec
from bushel.codecs.base import Outline
from bushel.codecs.image import Seekable
from bushel.codecs.parts import (
    Part,
    RowForm,
    SharedPart,
    layout_of_rows,
    part_of_headed_rows,
    part_of_rows,
    part_of_whole,
)

from .elements import Elements, Group, Ranges, at_place, element_rows
from .table import MISSING, FieldExtents

_size = itemgetter(0)
_MOST = 64  # examples: where the form depends on the size, those at its steps


class RowForms:
    """The known forms of the arrays of one field in one shard. Threads share it.

    The header of an array says where its rows are. Arrays of one field nearly always have headers of
    one length and rows of one size, so that a few examples show which bytes to read of the others.
    Their headers are read with the rows, and a wrong guess is noticed.
    """

    def __init__(self) -> None:
        self._known: list[tuple[int, RowForm | None]] = []

    def of(self, size: int) -> RowForm | None:
        """Return the form that an array of `size` bytes probably has: the known form of the nearest size.

        None if it has to be read whole.
        """
        forms = self._known
        at = bisect_left(forms, size, key=_size)
        near = sorted(forms[max(0, at - 1) : at + 1], key=lambda one: abs(one[0] - size))
        if near:
            return near[0][1]
        return None

    def needs(self, size: int) -> bool:
        """Return whether an array of `size` bytes should be looked at, as none like it is known."""
        forms = self._known
        at = bisect_left(forms, size, key=_size)
        if at < len(forms) and forms[at][0] == size:
            return False
        form = self.of(size)
        return len(forms) < _MOST and (form is None or form.count(size) is None)

    def add(self, size: int, form: RowForm | None) -> None:
        """Note the form of an array of `size` bytes; None for one whose rows cannot be read alone."""
        forms = [form_of_size for form_of_size in self._known if form_of_size[0] != size]
        if len(forms) < _MOST:
            insort(forms, (size, form), key=_size)
            self._known = forms  # others may be reading the list before it


Forms: TypeAlias = RowForms | Mapping[int, Outline]
"""Where the rows of the arrays of a field in one shard are; or the outlines of its values, by row of the table."""


def plan_parts(
    values: Iterable[tuple[FieldExtents, I64, I64, Forms | None]], total: int, elements: Elements
) -> list[Part | None] | None:
    """Return the part of each value that the elements need.

    Samples of a batch with other elements of the same value share one part.

    Args:
        values: By shard, the extents of the field, which is a plain one, the rows of the samples,
            their places in the batch, and where its elements are, if that is in the values
            themselves.
        total: Number of samples in the batch.
        elements: The elements.

    Returns:
        None for a value that is read whole, and instead of the list if all are.

    Raises:
        IndexError: An element is out of range.
    """
    parts: list[Part | None] = [None] * total
    for column, rows, places, forms in values:
        of_row: dict[int, list[int]] = {}
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            of_row.setdefault(row, []).append(place)
        for row, places_of_row in of_row.items():
            if column.length[row] == MISSING:
                continue
            if len(places_of_row) > 1 and isinstance(elements, Ranges):
                _share(parts, column, row, places_of_row, elements, forms)
                continue
            for place in places_of_row:
                parts[place] = _part(column, row, at_place(elements, place), forms)
    return parts if any(part is not None for part in parts) else None


def _share(
    parts: list[Part | None],
    column: FieldExtents,
    row: int,
    places: list[int],
    elements: Ranges,
    forms: Forms | None,
) -> None:
    """Plan one part for all samples of a batch that need elements of the same value."""
    elements_of_places = [elements.of(place) for place in places]
    together = np.sort(np.concatenate(elements_of_places))
    together = together[np.diff(together, prepend=-1) != 0]  # np.unique takes six times as long
    part = _part(column, row, together, forms)
    if part is None:
        ranged = get_codec(column.codec).ranged
        if ranged is None:
            return
        part = part_of_whole(ranged, together, int(column.length[row]))
    shared, alone = tuple(sorted(places)), sum(map(len, elements_of_places)) == len(together)
    for place, numbers in zip(places, elements_of_places, strict=True):
        rows = np.searchsorted(together, numbers)
        # a view would be changed together with another sample's, if both had some of the same
        # elements
        rows_of_place: I64 | slice = (
            slice(int(rows[0]), int(rows[-1]) + 1)
            if alone and len(rows) and (np.diff(rows) == 1).all()
            else rows
        )
        parts[place] = SharedPart.of(part, rows_of_place, shared, place)


def _part(column: FieldExtents, row: int, elements: Elements, forms: Forms | None) -> Part | None:
    """Return the part of a value that the elements need; None if it is read whole."""
    size = int(column.length[row])
    if elements is None or isinstance(elements, Ranges):
        return None
    if (frames := column.frames) is not None:
        packets = frames.of(row, size) if frames.knows(row) else None
        part = None if packets is None else packets.part(elements)
        # packets of a damaged table could overlap, and be much more than the clip
        if part is not None and part.nbytes <= size:
            return part
        return None
    if isinstance(forms, Mapping):
        outline = forms.get(row)
        return None if outline is None else outline.part(elements)
    ranged = get_codec(column.codec).ranged
    if ranged is None:
        return None
    if forms is not None:
        form = forms.of(size)
        if form is None:
            return None
        return part_of_headed_rows(ranged, form, size, elements)
    layout = layout_of_rows(ranged, b"", size)
    if layout is None:
        return None
    return part_of_rows(layout, elements)


def tables_by_field(
    groups: Sequence[Group], total: int, names: Iterable[str], wanted: Mapping[str, Elements]
) -> dict[str, list[Any]]:
    """Return the seek tables of some fields in each sample of a batch.

    Returns:
        By field, for each sample uint64[words], empty without a table; for a sequence field a list
        of these, one per chosen element. None for a sample without the field, or of a shard without
        tables.
    """
    return {name: _of_field(groups, total, name, wanted.get(name)) for name in names}


def _of_field(groups: Sequence[Group], total: int, name: str, elements: Elements) -> list[Any]:
    tables_of_samples: list[Any] = [None] * total
    for group in groups:
        column = group.index.fields.get(name)
        if column is None or column.seek is None:
            continue
        if column.starts is None:
            tables_of_group: list[Any] = column.seek.of(group.rows)
        else:
            rows, counts = element_rows(column, group, elements)
            tables, ends = column.seek.of(rows), np.cumsum(counts).tolist()
            tables_of_group = [
                tables[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)
            ]
        if group.places is None:
            return tables_of_group
        for place, value in zip(group.places.tolist(), tables_of_group, strict=True):
            tables_of_samples[place] = value
    return tables_of_samples


def with_table(stored: Any, table: Any) -> Any:
    """Return stored bytes, or a list of them, as `Seekable` where there is a seek table."""
    if isinstance(stored, list):
        if isinstance(table, list) and len(table) == len(stored):
            return list(map(with_table, stored, table))
        return stored
    if table is None or not len(table):
        return stored
    return Seekable(stored, table)


@lru_cache(maxsize=1024)
def warn_of_refused(file: str | None) -> None:
    """Warn, once for each file, that the seek table of an image in it does not fit, and was not used."""
    log_warning(
        "%s: the seek table of an image does not fit its bytes; it is not "
        "used. Run `bushel index --seek --force` to make the tables again",
        file,
    )
