"""From positions in the whole dataset to stored bytes: a batch is planned, and read with one call to the storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from bushel import storage
from bushel._runtime.arrays import I64, U8, U32, joined
from bushel._runtime.messages import log_warning
from bushel.kernels import ExtentError, MappedFile, read_samples
from bushel.spec import KEY
from bushel.storage import FilePool

from .selection import Sample
from .shards import OpenShard, ShardRows

if TYPE_CHECKING:
    from bushel._index.elements import Elements, Group
    from bushel._index.read_plan import Batch, ReadPlan
    from bushel.storage import Extents, File
    from bushel.storage.fetch import Held

    from .element_places import ElementPlaces
    from .windows import Windows

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
        windows: The windows that positions count; None if they count samples.
        _promising: The containers that promise to compare checksums.
    """

    windows: Windows | None = None

    verify: bool | None
    pool: FilePool
    _promising: Collection[str]
    whole_clips: deque[None]
    warned_of_clips: bool

    @cached_property
    def element_places(self) -> ElementPlaces:
        """Where elements are in values, as far as it is known."""
        from .element_places import ElementPlaces

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
        held: Held | None,
        room: Room | None,
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
            if rows is None or keys is None or self.windows is not None:
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

    def gather(self, positions: I64, name: str) -> tuple[U8, I64, U32 | None]:
        """Return the stored bytes of one plain field in one buffer, and int64[n + 1] offsets into it.

        The third result is uint32[n], the CRC-32 of each value, if all of them were compared with
        the table's; else None. It means nothing for a sample without the field.
        """
        plan = self.plan(
            self.readable(positions, [name]), len(positions), {name: None}, parts=False
        )
        batches = plan.batches
        if (
            len(batches) == 1
            and (in_one := self._call(storage.gather, plan, batches[0], positions)) is not None
        ):
            return *in_one, batches[0].extents.crc32
        return *joined([value or b"" for value in self.stored(plan, positions)]), None

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

    def count_whole_clip(self, position: int, name: str) -> None:
        """Count a clip that is read whole, after a part was read, and log the first one."""
        self.whole_clips.append(None)
        if self.warned_of_clips:
            return
        self.warned_of_clips = True
        log_warning(
            "sample %r, field %r (%s): the packets that the index lists do not give the "
            "frames, so the clip is read whole. It is damaged, or a stream without true keyframes, "
            "or the index is wrong (`bushel index --frames --force` makes it again). More such "
            "clips are counted in the loader's stats, but not logged",
            self.key(position),
            name,
            self.location(position, name)[0],
        )


def _samples_of(
    plan: ReadPlan, stored: Sequence[bytes | None], keys: Sequence[str]
) -> list[Sample]:
    """Return the samples that the extents of a plan make up, given the bytes of each, and the key of each sample."""
    from bushel._index.read_plan import WHOLE

    samples: list[Sample] = [{KEY: key} for key in keys]
    ends = [field.first for field in plan.fields[1:]] + [len(stored)]
    for field, end in zip(plan.fields, ends, strict=False):
        name, values = field.name, stored[field.first : end]
        if field.counts is not None:
            at = 0
            for sample, count in zip(samples, field.counts, strict=True):
                if count == WHOLE:
                    sample[name] = values[at]
                    at += 1
                elif count >= 0:
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
