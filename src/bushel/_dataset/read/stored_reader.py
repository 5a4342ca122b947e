"""From positions in the whole dataset to stored bytes: a batch is planned, and read with one call to the storage.

`ElementPlaces` knows where elements are in values, so that some of them are read without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from io import BufferedReader
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct

from bushel import storage
from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.part_plan import Forms, RowForms
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import I64, U8, joined
from bushel.codecs import get_codec
from bushel.codecs.base import Outline, Ranged
from bushel.codecs.parts import FileOutline, RowForm
from bushel.errors import BushelError, CodecError
from bushel.kernels import ExtentError, MappedFile, read_samples
from bushel.spec import KEY
from bushel.storage import Extents, File, FilePool

from .selection import Sample
from .shards import OpenShard, ShardRows

if TYPE_CHECKING:
    from bushel._index.read_plan import Batch, ReadPlan
    from bushel.storage.fetch import Held

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
        if home not in self._forms and not _has_headers(ranged, int(sizes[-1])):
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
        storage.Seekable(file, int(column.offset[row]), int(column.length[row])), _READ_AHEAD
    )


def _has_headers(ranged: Ranged, size: int) -> bool:
    """Return whether the layout of arrays is in them, and does not follow from their size."""
    try:
        return ranged.layout is not None and ranged.layout(b"", max(size, 0)) is None
    except CodecError:
        return True


def _look_at_headers(
    number: int, column: FieldExtents, forms: RowForms, rows: list[int], file_of: FileOf
) -> None:
    """Note the forms of arrays. Reading the value finds those that cannot be read."""
    sizes = column.length[rows]
    try:
        heads = storage.read_many(
            [file_of(number, column.file)],
            Extents(0, column.offset[rows], np.minimum(sizes, _HEAD)),
        )
    except (ExtentError, BushelError, OSError):
        return
    ranged = get_codec(column.codec).ranged
    for size, head in zip(sizes.tolist(), heads, strict=True):
        forms.add(size, _form(ranged, head, size))


def _form(ranged: Ranged | None, head: bytes | None, size: int) -> RowForm | None:
    """Return the form of an array, given its first bytes; None if its rows cannot be read alone."""
    if ranged is None or ranged.layout is None or head is None:
        return None
    try:
        layout = ranged.layout(head, size)
    except CodecError:
        return None
    if layout is None or not layout.shape:
        return None
    return RowForm.of(layout)


def _look_at_values(
    looking: Sequence[tuple[_Value, Outline, slice | I64]], file_of: FileOf
) -> None:
    """Look at bytes of values until all parts are clear. Reading the values finds those that cannot be read."""
    for _ in range(_MOST_ROUNDS):
        probes: dict[tuple[int, int, int], tuple[_Value, Outline]] = {}
        unclear = []
        for value, outline, part in looking:
            if (probe := outline.probe(part)) is not None:
                probes[id(outline), *probe] = value, outline
                unclear.append((value, outline, part))
        if not probes:
            return
        looking = unclear
        files: dict[tuple[int, int], int] = {}
        numbers, offsets = [], []
        for (_, offset, _), ((number, column, row), _) in probes.items():
            numbers.append(files.setdefault((number, column.file), len(files)))
            offsets.append(int(column.offset[row]) + offset)
        lengths = np.array([length for _, _, length in probes], np.int64)
        extents = Extents(np.array(numbers, np.int32), np.array(offsets, np.int64), lengths)
        try:
            data = storage.read_many(
                [file_of(*number_of_file) for number_of_file in files], extents
            )
        except (ExtentError, BushelError, OSError):
            return
        for (_, offset, _), (_, outline), read_bytes in zip(
            probes, probes.values(), data, strict=True
        ):
            outline.learn(offset, bytes(read_bytes or b""))


T = TypeVar("T")


class Room(Struct, frozen=True):
    """Where the stored bytes of some fields go, so that a batch needs no bytes object for each."""

    # the fields; their values may become read-only memoryviews; bytes are as good
    names: frozenset[str]
    # returns uint8 of at least that many bytes; None for bytes objects
    take: Callable[[int], U8 | None]


class StoredReader(ShardRows):
    """Reads stored bytes of samples of a list of shards by position in the whole dataset.

    Attributes:
        verify: Whether bytes are compared with their checksum where that is known; None to compare
            them only for containers that promise it.
        pool: The open files.
        _promising: The containers that promise to compare checksums.
    """

    verify: bool | None
    pool: FilePool
    _promising: Collection[str]

    @cached_property
    def element_places(self) -> ElementPlaces:
        """Where elements are in values, as far as it is known."""
        return ElementPlaces()

    def checks(self, shard: OpenShard) -> bool:
        """Return whether bytes of a shard are compared with their checksums, where these are known.

        With `verify`, all are; with None, shards of containers that promise it, and files that may
        be replaced unnoticed: their server says neither ETag nor time, by which that is seen, as is
        known when the table is loaded.
        """
        if self.verify is not None or shard.container in self._promising:
            return self.verify is not False
        if self.local or shard.local:
            return False
        return any(stamp.mtime_ns == 0 for stamp in shard.stamps)

    def _checked(self, groups: Iterable[Group]) -> frozenset[int]:
        """Return the numbers of the shards of a batch whose bytes are compared with their checksums."""
        return frozenset(group.number for group in groups if self.checks(self.shards[group.number]))

    def file(self, shard: int, number: int) -> File:
        """Return an open file or block file of a shard, given the numbers of both."""
        file = self.pool.files.get((shard, number))
        if file is None:
            file = self.pool.get(
                (shard, number), partial(self.shards[shard].open, number, partial(self.file, shard))
            )
        return file

    def read_stored(
        self,
        positions: I64,
        groups: Sequence[Group],
        wanted: Mapping[str, Elements],
        *,
        parts: bool,
        held: Held | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Return samples with stored bytes, lists of them, and parts of values: see `Reader.read`.

        Plain fields of local shards are read by a kernel, which needs no plan.
        """
        from bushel._index.read_plan import plan_kernel

        if groups and (self.local or all(self.shards[group.number].local for group in groups)):
            kernel_plan = plan_kernel(groups, len(positions), wanted, self._checked(groups))
            by_kernel = partial(self._by_kernel, kernel_plan, positions, groups, room)
            if (samples := self.pool.attempt(by_kernel)) is not None:
                return samples
        plan = self.plan(groups, len(positions), wanted, parts=parts)
        stored = self.stored(plan, positions, held)
        return _samples_of(plan, stored, self.keys(positions, groups))

    def _by_kernel(
        self,
        plan: tuple[list[Any], list[tuple[int, int]], I64 | None] | None,
        positions: I64,
        groups: Sequence[Group],
        room: Room | None,
    ) -> list[Sample] | None:
        """Read by a plan for the kernel; None if it has to be done in another way, which also reports the errors."""
        if plan is None:
            return None
        fields, files, rows = plan
        keys, views = groups[0].index.keys, () if room is None else (room.names, room.take)
        try:
            maps: list[Any] = [self.file(*numbers) for numbers in files]
            if not all(isinstance(file, MappedFile) for file in maps):
                return None
            if rows is None or keys is None:
                return read_samples(maps, fields, rows, KEY, self.keys(positions, groups), *views)
            return read_samples(maps, fields, rows, KEY, (keys.text, keys.offsets), *views)
        except (ExtentError, ValueError, IndexError):
            return None

    def plan(
        self, groups: Sequence[Group], total: int, wanted: Mapping[str, Elements], *, parts: bool
    ) -> ReadPlan:
        """Plan the read of a batch, divided by shard. With `parts`, values are read in part where that suffices."""
        from bushel._index.read_plan import plan_read

        parts, forms = parts and not self.verify, None
        if parts and any(elements is not None for elements in wanted.values()):
            forms = self.element_places.of(groups, wanted, total, self.file)
        return plan_read(
            groups, total, wanted, checksums=self._checked(groups), parts=parts, forms=forms
        )

    def stored(
        self, plan: ReadPlan, positions: I64, held: Held | None = None
    ) -> list[bytes | None]:
        """Return the bytes of each extent of a plan, None where a sample lacks the field.

        They are read together, or in parts if the process cannot have all of their files open.

        Raises:
            CorruptError, FormatError: An extent cannot be read.
        """
        values: list[bytes | None] = [None] * plan.size
        read, parts = partial(storage.read_many, held=held), list(plan.batches)
        while parts:
            part = parts.pop()
            stored = self._call(read, plan, part, positions)
            if stored is None:
                parts += part.parts()
            elif part.rows is None:  # all extents of the plan
                return stored
            else:
                for row, value in zip(part.rows.tolist(), stored, strict=True):
                    values[row] = value
        return values

    def gather(self, positions: I64, name: str) -> tuple[U8, I64]:
        """Return the stored bytes of one plain field in one buffer, and int64[n + 1] offsets into it."""
        plan = self.plan(
            self.readable(positions, [name]), len(positions), {name: None}, parts=False
        )
        batches = plan.batches
        if (
            len(batches) == 1
            and (in_one := self._call(storage.gather, plan, batches[0], positions)) is not None
        ):
            return in_one
        return joined([value or b"" for value in self.stored(plan, positions)])

    def _call(
        self, do: Callable[[list[File], Extents], T], plan: ReadPlan, batch: Batch, positions: I64
    ) -> T | None:
        """Call a function with the open files of a batch and its extents; return None if they cannot all be open.

        Raises:
            CorruptError, FormatError: An extent cannot be read; the error names the sample and the
                field.
        """

        def called() -> T:
            return do([self.file(*numbers) for numbers in batch.files], batch.extents)

        try:
            if len(batch.extents.offset) <= 1:
                return called()
            return self.pool.attempt(called)
        except ExtentError as error:
            from .read_errors import unreadable

            name, place = plan.owner(batch.row(error.row))
            shard, file = batch.files[batch.extents.file_of(error.row)]
            path, at = self.shards[shard].locate(file, int(batch.extents.offset[error.row]))
            raise unreadable(error, self.key(int(positions[place])), name, path, at) from None


def _samples_of(
    plan: ReadPlan, stored: Sequence[bytes | None], keys: Sequence[str]
) -> list[Sample]:
    """Return the samples that the extents of a plan make up, given the bytes of each, and the key of each sample."""
    samples: list[Sample] = [{KEY: key} for key in keys]
    ends = [field.first for field in plan.fields[1:]] + [len(stored)]
    for field, end in zip(plan.fields, ends, strict=False):
        name, values = field.name, stored[field.first : end]
        if field.counts is not None:
            at = 0
            for sample, count in zip(samples, field.counts, strict=True):
                if count >= 0:
                    sample[name] = values[at : at + count]
                    at += count
            continue
        if field.parts is not None:
            from bushel.codecs.parts import joined_parts

            values = joined_parts(field.parts, values)
        for sample, value in zip(samples, values, strict=True):
            if value is not None:
                sample[name] = value
    return samples
