"""Where elements are in values, so that some of them are read without the others: what the values themselves say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BufferedReader

import numpy as np

from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.part_plan import Forms, RowForms
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import I64
from bushel.codecs import get_codec
from bushel.codecs.base import Outline, Ranged
from bushel.codecs.parts import FileOutline, RowForm, layout_of_rows
from bushel.errors import BushelError
from bushel.kernels import ExtentError
from bushel.storage import Extents, File, Seekable, read_many

_HEAD = 1024  # bytes of a value in which its header is looked for
_AT_A_TIME = 16  # values of a batch whose headers are read
_LEAST = 64 << 10  # bytes of a value; smaller ones are read whole
_KEPT = 1024  # outlines
_READ_AHEAD = 64 << 10  # bytes that are read at a time for decoders that read files
_MOST_ROUNDS = 70  # of looking; a codec that asks for more is not asked again

FileOf = Callable[[int, int], File]
"""Returns an open file, given the numbers of its shard and of the file there."""

_Value = tuple[int, FieldExtents, int]
"""The number of a shard, a field, and the row of a value."""


class ElementPlaces:
    """The places of elements in the values of a dataset, as far as they are known. Threads share it.

    Where the rows of arrays with headers are follows from a few arrays of each field and shard, whose
    headers are read. Elements of other values are found by first reading a few bytes of each value,
    if their codec has an outline for that.
    """

    def __init__(self) -> None:
        self._forms: dict[tuple[int, str], RowForms] = {}
        self._outlines: dict[tuple[int, str, int], Outline] = {}

    def of(
        self, groups: Sequence[Group], wanted: Mapping[str, Elements], total: int, file_of: FileOf
    ) -> Mapping[tuple[int, str], Forms]:
        """Return where the wanted elements of a batch of `total` samples are, by number of the shard and field.

        Arrays without headers of their own are left out, and so are fields whose values are read
        whole. All outlines of the batch look at their values together, round by round, since each
        round may be a request to an object store.
        """
        places: dict[tuple[int, str], Forms] = {}
        looking: list[tuple[_Value, Outline, slice | I64]] = []
        for group in groups:
            for name, elements in wanted.items():
                column = group.index.fields.get(name)
                if elements is None or column is None or not column.plain:
                    continue
                if column.frames is not None:
                    continue
                ranged = get_codec(column.codec).ranged
                if ranged is None or not len(group.rows):
                    continue
                if ranged.in_file is None and ranged.outline is None:
                    if (forms := self._rows_of_arrays(group, column, ranged, file_of)) is not None:
                        places[group.number, name] = forms
                    continue
                outlines: dict[int, Outline] = {}
                places[group.number, name] = outlines
                samples = group.places_in(total).tolist()
                for row, place in zip(group.rows.tolist(), samples, strict=True):
                    if column.length[row] < _LEAST:
                        continue
                    value = group.number, column, row
                    outlines[row] = outline = self._outline(value, ranged, file_of)
                    part = at_place(elements, place)
                    if ranged.in_file is None and part is not None and not isinstance(part, Ranges):
                        looking.append((value, outline, part))
        _look_at_values(looking, file_of)
        for oldest in list(self._outlines)[:-_KEPT]:
            self._outlines.pop(oldest, None)
        return places

    def look_again(self, number: int, column: FieldExtents, row: int, file_of: FileOf) -> None:
        """Look at an array whose header was not the expected one, for the next time that it is read."""
        if (forms := self._forms.get((number, column.field.name))) is not None:
            _look_at_headers(number, column, forms, [row], file_of)

    def _rows_of_arrays(
        self, group: Group, column: FieldExtents, ranged: Ranged, file_of: FileOf
    ) -> RowForms | None:
        """Return where the rows of arrays are; None if they have no headers."""
        home = group.number, column.field.name
        sizes, first = np.unique(column.length[group.rows], return_index=True)
        largest = max(int(sizes[-1]), 0)
        is_known = home in self._forms
        if not is_known and (
            ranged.layout is None or layout_of_rows(ranged, b"", largest) is not None
        ):
            return None
        forms = self._forms.setdefault(home, RowForms())
        rows_by_size = dict(zip(sizes.tolist(), group.rows[first].tolist(), strict=True))
        for most in (1, _AT_A_TIME):  # one may show the form of all others
            unlike = [row for size, row in rows_by_size.items() if size > 0 and forms.needs(size)]
            if unlike:
                _look_at_headers(group.number, column, forms, unlike[:most], file_of)
        return forms

    def _outline(self, value: _Value, ranged: Ranged, file_of: FileOf) -> Outline:
        number, column, row = value
        if ranged.in_file is not None:
            return FileOutline(partial(_opened, value, file_of), ranged.in_file)
        assert ranged.outline is not None
        at = number, column.field.name, row
        if (outline := self._outlines.get(at)) is not None:
            return outline
        return self._outlines.setdefault(at, ranged.outline(int(column.length[row])))


def _opened(value: _Value, file_of: FileOf) -> BufferedReader:
    """Open a value as a file."""
    number, column, row = value
    file = file_of(number, column.file)
    return BufferedReader(
        Seekable(file, int(column.offset[row]), int(column.length[row])), _READ_AHEAD
    )


def _look_at_headers(
    number: int, column: FieldExtents, forms: RowForms, rows: list[int], file_of: FileOf
) -> None:
    """Note the forms of arrays. Reading the value finds those that cannot be read."""
    sizes = column.length[rows]
    try:
        heads = read_many(
            [file_of(number, column.file)],
            Extents(0, column.offset[rows], np.minimum(sizes, _HEAD)),
        )
    except (ExtentError, BushelError, OSError):
        return
    ranged = get_codec(column.codec).ranged
    for size, head in zip(sizes.tolist(), heads, strict=True):
        form = None
        if ranged is not None and (layout := layout_of_rows(ranged, head or b"", size)) is not None:
            form = RowForm.of(layout)
        forms.add(size, form)


def _look_at_values(
    looking: Sequence[tuple[_Value, Outline, slice | I64]], file_of: FileOf
) -> None:
    """Look at bytes of values until all parts are clear. Reading the values finds those that cannot be read."""
    for _ in range(_MOST_ROUNDS):
        probes: dict[tuple[int, tuple[int, int]], tuple[_Value, Outline]] = {}
        for value, outline, part in looking:
            if (probe := outline.probe(part)) is not None:
                probes[id(outline), probe] = value, outline
        if not probes:
            return
        files: dict[tuple[int, int], int] = {}
        places = []
        for (_, (offset, length)), ((number, column, row), _) in probes.items():
            file = files.setdefault((number, column.file), len(files))
            places.append((file, int(column.offset[row]) + offset, length))
        numbers, offsets, lengths = np.ascontiguousarray(np.array(places, np.int64).T)
        extents = Extents(numbers.astype(np.int32), offsets, lengths)
        try:
            data = read_many([file_of(*number_of_file) for number_of_file in files], extents)
        except (ExtentError, BushelError, OSError):
            return
        for ((_, (offset, _)), (_, outline)), stored in zip(probes.items(), data, strict=True):
            outline.learn(offset, bytes(stored or b""))
