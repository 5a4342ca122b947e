"""The reads of a loader: stored samples of batches, and numbers that are copied straight into batch arrays.

A `NumberReader` collects the places of a field's numbers and the extents of the shards in the
kernel `NumberTable`, which checks each value and copies the numbers. It grows as samples of other
shards, or values of other lengths, are met. Batches with values that it cannot gather are made of
samples, which describes the error. Fields whose values the index has as a column of numbers
are copied from there, without opening a file.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from bushel._dataset.read.known_values import copy_values
from bushel._dataset.read.selection import Given, Mask, Sample
from bushel._dataset.read.shards import kinds, looked_at, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._index.columns import NUMBERS
from bushel._index.elements import Elements, Group
from bushel._index.table import MISSING, FieldExtents
from bushel._runtime.arrays import I64, Array
from bushel.kernels import MappedFile, NumberTable
from bushel.storage import Extents, File

from .number_field import NumberField, Rooms

if TYPE_CHECKING:
    from bushel._dataset.read.stored_reader import Room
    from bushel.storage.fetch import Held

_EXAMPLES = 4096  # rows of a shard among which examples of values are looked for
_TABLES = 3  # tables that are tried: other threads may replace one in the meantime


class BatchReader(Struct, frozen=True):
    """Reads and decodes the samples of batches of a dataset, in two steps.

    Attributes:
        dataset: The dataset or view.
        decode: Whether the samples will be decoded. If not, all stored bytes are read.
    """

    dataset: Dataset
    decode: bool = True

    @property
    def remote(self) -> bool:
        """Whether any of its files is outside the file system of this machine."""
        return not self.dataset.reader.local

    def read_encoded(
        self,
        positions: Given,
        fields: Mask = None,
        *,
        held: Held | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read samples for `decode_samples`: as `Dataset.read(..., decode=False)`, but only what decoding needs.

        These are the packets of a clip that a mask needs, and no field whose values the index has.

        Args:
            positions: int64[n].
            fields: The mask.
            held: Bytes of remote files that need not be requested.
            room: Memory for the stored bytes of some fields.
        """
        chosen = self._chosen(positions, fields)
        return self.dataset.reader.read(
            *chosen, decode=False, parts=self.decode, held=held, room=room
        )

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Given,
        encoded: Collection[str] = (),
        fields: Mask = None,
    ) -> list[Sample]:
        """Decode samples of `read_encoded`, as `Dataset.decode_samples` does."""
        absolute, elements = self._chosen(positions, fields)
        return self.dataset.reader.decode_samples(stored, absolute, encoded, elements)

    def prefetch(self, positions: Given, fields: Mask = None) -> None:
        """Ask the operating system to load what `read_encoded` will need. Returns at once."""
        self.dataset.reader.prefetch(*self._chosen(positions, fields), decode=self.decode)

    def extents(self, positions: Given, fields: Mask = None) -> list[tuple[list[File], Extents]]:
        """Return the extents that `read_encoded` will read together, with the files that they count.

        Raises:
            FormatError: A shard has changed, or damage touches one of the samples.
        """
        reader = self.dataset.reader
        absolute, elements = self._chosen(positions, fields)
        requested = reader.asked(absolute, elements)
        groups = reader.readable(absolute, requested)
        rest = reader.unknown(groups, requested) if self.decode else requested
        plan = reader.plan(groups, len(absolute), rest, parts=self.decode)
        return [
            ([reader.file(*numbers) for numbers in batch.files], batch.extents)
            for batch in plan.batches
        ]

    def _chosen(self, positions: Given, fields: Mask) -> tuple[I64, dict[str, Elements]]:
        """Return positions and fields of the view as its reader has them."""
        selection = self.dataset.selection
        return selection.all_of(positions), selection.wanted(fields)

    def drain_whole_clips(self) -> int:
        """Return how many clips were read whole since the last call because their packets did not give the frames."""
        count, whole_clips = 0, self.dataset.reader.whole_clips
        with suppress(IndexError):  # none is left; other threads may add some at the same time
            while True:
                whole_clips.popleft()
                count += 1
        return count


def gathers(dataset: object, fields: Mask = None, transformed: Collection[str] = ()) -> list[str]:
    """Return the fields of a mask that may be gathered: plain ones of a `Dataset`, wholly read, without transforms."""
    if (
        type(dataset) is not Dataset
        or not len(dataset.selection.positions)
        or dataset.reader.windows is not None
    ):
        return []
    chosen = dataset.selection
    requested = chosen.wanted(fields)
    return [
        name
        for name, elements in requested.items()
        if elements is None and not chosen.fields[name].sequence and name not in transformed
    ]


class NumberReader:
    """Gathers fields of numbers of one of the datasets that are joined. Threads share it; it belongs to one process.

    From a dataset that is not in local files, only fields that the index has can be gathered.

    Attributes:
        fields: The fields that can be gathered, in the same order.
        waited: Whether values of the last batch were not in memory.
    """

    def __init__(self, dataset: Dataset, fields: Sequence[NumberField]) -> None:
        self._reader, self._selection = dataset.reader, dataset.selection
        self._lock = threading.Lock()
        self._name = fields[0].name  # all fields have the same samples
        self._shards: dict[int, tuple[tuple[MappedFile, I64, I64, FieldExtents], ...] | None] = {}
        rows = self._rows(np.arange(min(len(self._selection.positions), _EXAMPLES)))
        groups = self._reader.all.groups(rows[rows >= 0][:1])
        first = groups[0].number if groups else 0
        self._in_index = {field.name for field in fields if self._learn_column(field, first)}
        in_files = [
            field
            for field in fields
            if field.name not in self._in_index
            and self._reader.local
            and not self._is_expanded(first, field.name)
        ]
        for field in in_files:
            self._look(first, field, None)
        self._in_files = [field for field in in_files if field.known]
        usable = self._in_index.union(field.name for field in self._in_files)
        self.fields = [field for field in fields if field.name in usable]
        self.waited = bool(self._in_files)
        self._table = NumberTable([], len(self._in_files))

    def _rows(self, samples: I64) -> I64:
        """Return the places of the values of samples among the values of all shards; -1 for missing values."""
        return self._reader.rows_of(self._name, self._selection.absolute(samples))

    def _is_expanded(self, number: int, name: str) -> bool:
        """Return whether the first values of a field of a shard are in blocks that have to be expanded."""
        index = self._reader.shards[number].index
        extents = index.fields.get(name)
        if extents is None or extents.starts is not None:
            return False
        blocks = index.blocks_of(extents.file)
        if blocks is None or not len(blocks):
            return False
        block = np.searchsorted(blocks.start, extents.offset[:_EXAMPLES], "right") - 1
        return not blocks.is_stored(np.clip(block, 0, len(blocks) - 1)).any()

    def _learn_column(self, field: NumberField, first: int) -> bool:
        """Learn the type of a field whose numbers the index has. Return whether it has them.

        They have one type in all shards; of very many, the first and the last are checked.
        """
        kind_in = partial(self._reader.known.kind, name=field.name)
        kind = kind_in(first)
        if kind not in ("int", "float") or not field.learn_number(np.dtype(NUMBERS[kind])):
            return False
        having, before = list[range](), 0
        for shards in self._reader.divisions:
            if field.name in union_of_fields(kinds(shards)):
                numbers = range(before, before + len(shards))
                if looked_at(shards) is not shards:
                    numbers = numbers[-1:]
                having.append(numbers)
            before += len(shards)
        # of several datasets in a row, each has columns of its own
        return len(having) == 1 and set(map(kind_in, having[0])) == {kind}

    def gather(self, samples: I64, arrays: Mapping[str, Sequence[Array]]) -> dict[str, I64 | None]:
        """Gather the values of samples, of fields that are not ragged.

        Args:
            samples: int64[n], positions in the dataset.
            arrays: For each field, contiguous arrays of its type that have n rows together.

        Returns:
            For each field, the places in `samples` whose values could not be gathered, and whose
            rows are undefined; None if all could be gathered.
        """
        wrong_places: dict[str, I64 | None] = {}
        if from_index := [name for name in arrays if name in self._in_index]:
            groups = self._reader.groups(self._selection.absolute(samples), from_index)
            for name in from_index:
                wrong_places[name] = self._take(name, groups, arrays[name], len(samples))
        if len(from_index) < len(arrays):
            names = [field.name for field in self._in_files]
            from_files = [arrays.get(name) for name in names]
            wrong = self._gather_files(self._rows(samples), from_files)
            wrong_places |= zip(names, wrong, strict=True)
        return wrong_places

    def _take(
        self, name: str, groups: Sequence[Group], arrays: Sequence[Array], samples: int
    ) -> I64 | None:
        """Copy a column of the index. Return the places of samples that lack a value there, or None."""
        out = arrays[0] if len(arrays) == 1 else np.empty(samples, arrays[0].dtype)
        wrong, kind_in = np.ones(samples, np.bool_), self._reader.known.kind
        for group in groups:
            if NUMBERS.get(kind_in(group.number, name) or "") is out.dtype.type:
                copy_values(group.index.columns[name], group, out, wrong)
        if len(arrays) > 1:
            ends = np.cumsum([len(part) for part in arrays[:-1]])
            for part, values in zip(arrays, np.split(out, ends), strict=True):
                part[...] = values
        if wrong.any():
            return np.flatnonzero(wrong)
        return None

    def _gather_files(
        self, positions: I64, arrays: Sequence[Sequence[Array] | None]
    ) -> list[I64 | None]:
        for _ in range(_TABLES):
            table = self._table
            bad, self.waited = table.gather(positions, arrays)
            wrong = [places for places in bad if places is not None]
            if not wrong or not self._learn(positions[np.concatenate(wrong)], table):
                break
        return bad

    def lengths(self, field: NumberField, samples: I64) -> I64 | None:
        """Return the lengths of the values of a ragged field along their first axis.

        Args:
            field: One of `fields`.
            samples: int64[n], positions in the dataset.

        Returns:
            int64[n]; None if a value cannot be gathered.
        """
        positions, number = self._rows(samples), self._in_files.index(field)
        for _ in range(_TABLES):
            table = self._table
            sizes = table.measure(number, positions)
            bad = sizes < 0
            if not bad.any():
                if (sizes % field.nbytes).any():
                    return None
                return sizes // field.nbytes
            if not self._learn(positions[bad], table):
                break
        return None

    def gather_rows(self, field: NumberField, samples: I64, rooms: Rooms) -> bool:
        """Gather the values of a ragged field into rooms of one array.

        Args:
            field: One of `fields`.
            samples: int64[n], positions in the dataset.
            rooms: Where the value of each goes.

        Returns:
            Whether all could be gathered. If not, the array holds anything.
        """
        skip = None if rooms.skip is None else rooms.skip * field.nbytes
        starts, number = rooms.starts * field.nbytes, self._in_files.index(field)
        bad, self.waited = self._table.gather_rows(
            number, self._rows(samples), rooms.out, starts, rooms.fill, skip
        )
        return bad is None

    def prefetch(self, samples: I64) -> None:
        """Ask the system to load what a later `gather` needs."""
        self._table.prefetch(self._rows(samples))

    def _learn(self, positions: I64, table: NumberTable) -> bool:
        """Learn from samples that a table could not gather. Return whether there is another table to try."""
        with self._lock:
            if self._table is not table:
                return True
            groups = self._reader.all.groups(positions[positions >= 0])
            learned = self._add([group.number for group in groups])
            for group in groups:
                if self._shards.get(group.number) is not None:
                    for field in self._in_files:
                        learned |= self._look(group.number, field, group.rows)
            if learned:
                self._table = self._build()
            return learned

    def _add(self, numbers: Sequence[int]) -> bool:
        """Open shards for the table. Return whether any was added that can be gathered from."""
        missing = [number for number in numbers if number not in self._shards]
        limit = self._reader.pool.limit
        if len(missing) > limit:
            return False  # they cannot all be open: such batches are read shard by shard
        if len(self._shards) + len(missing) > limit:
            self._shards.clear()
            missing = list(numbers)
        for number in missing:
            self._shards[number] = self._columns(number)
            for field in self._in_files if self._shards[number] is not None else ():
                self._look(number, field, None)
        return any(self._shards[number] is not None for number in missing)

    def _columns(self, number: int) -> tuple[tuple[MappedFile, I64, I64, FieldExtents], ...] | None:
        """Return file, offsets, lengths and extents of each field in a shard; None if one cannot be gathered there."""
        shard = self._reader.shards[number]
        columns = []
        for field in self._in_files:
            column = shard.index.fields.get(field.name)
            if column is None or column.starts is not None or shard.damage is not None:
                return None
            home, offset = column.file, np.asarray(column.offset)
            length = np.ascontiguousarray(column.length)
            # the kernel copies values that are one piece of a real file
            if shard.index.blocks_of(home) is not None:
                homes, offset = shard.index.in_one_piece(column)
                if not (homes >= 0).any():
                    return None
                home = int(homes[homes >= 0][0])
                length = np.where(homes == home, length, MISSING)
            file = self._reader.file(number, home)
            if not isinstance(file, MappedFile):
                return None
            columns.append((file, offset, length, column))
        return tuple(columns)

    def _look(self, number: int, field: NumberField, rows: I64 | None) -> bool:
        """Read values of unknown lengths of a field in a shard: of some rows, or of the usual ones."""
        column = self._reader.shards[number].index.fields.get(field.name)
        if column is None or column.starts is not None or not field.may_learn(column.codec):
            return False
        lengths = column.length[:_EXAMPLES] if rows is None else column.length[rows]
        different, places, counts = np.unique(lengths, return_index=True, return_counts=True)
        if rows is None and not field.ragged:  # the most frequent length
            counts[different < 0] = 0
            places = places[np.argsort(-counts, kind="stable")[:1]]
        learned = False
        for row in places.tolist() if rows is None else rows[places].tolist():
            length = int(column.length[row])
            if length >= 0 and not field.knows(column.codec, length):
                file, offset = self._reader.file(number, column.file), int(column.offset[row])
                learned |= field.learn(column.codec, bytes(file.read(offset, length)))
        return learned

    def _build(self) -> NumberTable:
        shards = []
        for number, columns in sorted(self._shards.items()):
            if columns is None:
                continue
            shard = self._reader.shards[number]
            rows = []
            for field, (file, offset, length, column) in zip(self._in_files, columns, strict=True):
                sums = column.crc32 if self._reader.checks(shard) else None
                rows.append((file, offset, length, sums, *field.forms(column.codec)))
            shards.append((int(self._reader.all.starts[number]), shard.samples, rows))
        return NumberTable(shards, len(self._in_files))


def number_readers(dataset: Dataset, fields: Sequence[NumberField]) -> list[NumberReader]:
    """Return the readers of some fields that `gathers` names: one for those that the same joined datasets have."""
    divisions = [union_of_fields(kinds(shards)) for shards in dataset.reader.divisions]
    together: dict[tuple[bool, ...], list[NumberField]] = {}
    for field in fields:
        together.setdefault(tuple(field.name in names for names in divisions), []).append(field)
    return [NumberReader(dataset, fields_there) for fields_there in together.values()]
