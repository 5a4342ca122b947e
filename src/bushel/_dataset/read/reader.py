"""The reader: from positions in the whole dataset to samples. Every value that is read comes from here.

There is one way: positions become rows of shards, a plan says which extents these need,
`Reader.stored` reads them, and `decoding` makes samples of the bytes. Two shortcuts give the same
samples sooner: one sample of a local shard is read value by value, and stored values of local files
are read by a kernel that needs no plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bushel import storage
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64, U8, joined
from bushel.codecs import get_codec
from bushel.containers import get_container
from bushel.errors import CodecError
from bushel.kernels import ExtentError, crc32
from bushel.spec import KEY
from bushel.storage import FilePool

from .selection import Sample
from .shards import Listing, OpenShard, ShardRows

if TYPE_CHECKING:
    from bushel._dataset.open.completeness import Incomplete
    from bushel._index.elements import Elements, Group
    from bushel._index.part_plan import RowForms
    from bushel._index.read_plan import Batch, ReadPlan
    from bushel.codecs.base import Outline
    from bushel.storage import Extents, File
    from bushel.storage.fetch import Held

    from .decoding import Room
    from .known_values import KnownFields
    from .selection import Remaining
    from .sides import Joined, Side
    from .windows import Windows

__all__ = ["Reader", "Sample"]

T = TypeVar("T")


class Reader(ShardRows):
    """Reads samples of a list of shards by position in the whole dataset.

    Its only state is open files, so threads can share it, and a pickled copy opens its own files.

    Attributes:
        verify: Whether bytes are compared with their checksum where that is known; None to compare
            them only for containers that promise it.
        pool: The open files.
        direct_pool: Files that are open for direct reads, for `direct`.
        incomplete: The state of the dataset if its writer has not finished.
        joins: The descriptions of the joins.
        sides: The datasets that were joined to the first one.
        windows: The windows that positions count; None if they count samples.
        row_forms: Where the rows of arrays with headers are, by number of the shard and field, as
            far as it is known.
        outlines: Where the elements of other values are, by number of the shard, field and row, as
            far as it is known.
        whole_clips: An entry per clip that had to be read whole after a part was read; `drained`
            takes them.
    """

    windows: Windows | None = None

    def __init__(
        self,
        shards: Sequence[OpenShard],
        *,
        verify: bool | None = None,
        incomplete: Incomplete | None = None,
        remaining: Remaining | None = None,
    ) -> None:
        some = shards[:1] if isinstance(shards, Listing) else shards
        sections = any(shard.section is not None for shard in some)
        # containers that promise to compare checksums
        self._promising = {
            shard.container for shard in some if get_container(shard.container).promises_checksums
        }
        super().__init__(shards, remaining)
        self.verify, self.incomplete = verify, incomplete
        self.joins: tuple[Joined, ...] = ()
        self.sides: tuple[Side, ...] = ()
        self._narrowed: dict[frozenset[str], Reader] | None = {} if sections else None
        self.pool, self.direct_pool = FilePool(), FilePool(direct=True)
        self.row_forms: dict[tuple[int, str], RowForms] = {}
        self.outlines: dict[tuple[int, str, int], Outline] = {}
        self.whole_clips: deque[None] = deque()  # threads share it: its methods are atomic
        self.warned_of_clips = False

    def checks(self, shard: OpenShard) -> bool:
        """Return whether bytes of a shard are compared with their checksums, where these are known.

        With `verify`, all are; with None, shards of containers that promise it, and files that may
        be replaced unnoticed: their server says neither ETag nor time, by which that is seen, as is
        known when the table is loaded.
        """
        if self.verify is not None or shard.container in self._promising:
            return self.verify is not False
        is_local = isinstance(shard.shard.root, Path)
        return not is_local and any(stamp.mtime_ns == 0 for stamp in shard.stamps)

    def _checked(self, groups: Iterable[Group]) -> frozenset[int]:
        """Return the numbers of the shards of a batch whose bytes are compared with their checksums."""
        return frozenset(group.number for group in groups if self.checks(self.shards[group.number]))

    def narrowed(self, names: Collection[str]) -> Reader:
        """Return the reader with which these fields are read: of sections of remote files, only their bytes are."""
        if (
            self._narrowed is None
            or not names
            or self.fields.keys() <= set(names)
            or type(self) is not Reader
        ):
            return self
        only_these = frozenset(names)
        if (narrow := self._narrowed.get(only_these)) is None:
            from .shard_fields import narrowed

            shards = [narrowed(shard, only_these) for shard in self.shards]
            narrow = Reader(
                shards, verify=self.verify, incomplete=self.incomplete, remaining=self.remaining
            )
            narrow._narrowed, narrow.whole_clips = None, self.whole_clips
            self._narrowed[only_these] = narrow
        return narrow

    def direct(self) -> Reader:
        """Return a reader of the same samples that opens local files for direct reads, past the page cache."""
        from copy import copy

        copied = copy(self)
        copied.pool = self.direct_pool
        return copied

    def close(self) -> None:
        """Close all files. The next read opens them again."""
        self.pool.close()
        self.direct_pool.close()
        for narrowed in list((self._narrowed or {}).values()):
            narrowed.close()

    def file(self, shard: int, number: int) -> File:
        """Return an open file or block file of a shard, given the numbers of both."""
        file = self.pool.files.get((shard, number))
        if file is None:
            file = self.pool.get(
                (shard, number), partial(self.shards[shard].open, number, partial(self.file, shard))
            )
        return file

    def sample(
        self, position: int, wanted: Mapping[str, Elements], home: tuple[int, int] | None = None
    ) -> Sample:
        """Read and decode one sample; with `home`, the number of a shard and a row there, fields that are in it.

        Plain fields of a local shard are read value by value, without the arrays of a batch.
        Everything else is a batch of one sample, which also names the error of a value that cannot
        be read.
        """
        number, row = self.row_of(position) if home is None else home
        shard = self.shards[number]
        index = shard.index
        shard.check_readable(row, position)
        listed = index.columns and wanted.keys() <= index.columns.keys()
        if (
            listed
            and (from_index := self._known.sample(number, index, row, position, wanted)) is not None
        ):
            return from_index
        sample: Sample = {KEY: str(position) if index.keys is None else index.keys[row]}
        plain = isinstance(shard.shard.root, Path)
        checked = self.verify or (self.verify is None and shard.container in self._promising)
        files = self.pool.files
        for name, elements in wanted.items() if plain else ():
            if (extents := index.fields.get(name)) is None:
                continue
            if not (plain := elements is None and extents.starts is None):
                break
            try:
                if (length := extents.length.item(row)) == MISSING:
                    continue
                if (file := files.get((number, extents.file))) is None:
                    file = self.pool.get(
                        (number, extents.file),
                        partial(shard.open, extents.file, partial(self.file, number)),
                    )
                stored = file.read(extents.offset.item(row), length)
                if checked and (sums := extents.crc32) is not None and crc32(stored) != sums[row]:
                    plain = False
                    break
                sample[name] = get_codec(extents.codec).decode(stored)
            except (ExtentError, CodecError, ValueError, TypeError):
                plain = False
                break
        if plain:
            return sample
        return self.read(np.array([position], np.int64), wanted, decode=True)[0]

    def read(
        self,
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool | None = None,
        held: Held | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read samples with one call to the storage for the whole batch.

        With `parts` (by default, if `decode` is set), only the packets that the wanted frames of
        clips need are read, and no field whose values the index has. Without `decode`, the value of
        such a clip is a `ClipPart`, and a value from the index is decoded, for `decode_samples`.
        Bytes of remote files that are `held` are not read again. With `room`, and without `decode`,
        stored values may be views of memory that is taken from there.
        """
        from bushel._index.read_plan import plan_kernel

        from .decoding import decode_in_place, read_by_kernel, samples_of

        groups = self.readable(positions, wanted)
        if parts is None:
            parts = decode
        columns, rest = dict[str, list[Any]](), wanted
        if parts and len(unknown := self.unknown(groups, wanted)) < len(wanted):
            from .known_values import known_values, merged

            columns = known_values(
                groups, len(positions), [name for name in wanted if name not in unknown]
            )
            rest = {name: elements for name, elements in wanted.items() if name not in columns}
            if not rest:
                return merged([{KEY: key} for key in self.keys(positions, groups)], columns, wanted)
        samples: list[Sample] | None = None
        if groups and all(self.shards[group.number].local for group in groups):
            kernel_plan = plan_kernel(groups, len(positions), rest, self._checked(groups))
            keys = partial(self.keys, positions, groups)
            samples = self.pool.attempt(
                lambda: read_by_kernel(kernel_plan, groups, self.file, keys, room)
            )
        if samples is None:
            plan = self.plan(groups, len(positions), rest, parts=parts)
            stored = self.stored(plan, positions, held)
            samples = samples_of(plan, stored, self.keys(positions, groups))
        if decode:
            decode_in_place(self, samples, groups, positions, rest)
        if columns:
            return merged(samples, columns, wanted)
        return samples

    def asked(self, positions: I64, wanted: Mapping[str, Elements]) -> Mapping[str, Elements]:
        """Return the elements to read of samples, given those that are wanted of them, or of their windows."""
        return wanted

    def sizes(self, positions: I64, name: str) -> I64 | None:
        """Return the number of elements that windows have of a field; None if they have what samples have."""
        return None

    def whole_value(self, position: int, name: str, elements: Elements) -> Any:
        """Return elements of a sample or of a window as `asked` returns them, and read the whole value for that."""
        at = np.array([position], np.int64)
        return Reader.read(self, at, {name: elements}, decode=True, parts=False)[0][name]

    def unknown(
        self, groups: Sequence[Group], wanted: Mapping[str, Elements]
    ) -> Mapping[str, Elements]:
        """Return the fields of a batch that have to be read, as its indexes do not have them."""
        looked_at = groups[:1] if self.counted is self.shards else groups
        listed = any(name in group.index.columns for group in looked_at for name in wanted)
        if listed:
            return self._known.unknown(groups, wanted)
        return wanted

    @cached_property
    def _known(self) -> KnownFields:
        from .known_values import KnownFields

        return KnownFields(self)

    def plan(
        self, groups: Sequence[Group], total: int, wanted: Mapping[str, Elements], *, parts: bool
    ) -> ReadPlan:
        """Plan the read of a batch, divided by shard. With `parts`, values are read in part where that suffices."""
        from bushel._index.read_plan import plan_read

        parts, forms = parts and not self.verify, None
        if parts and any(elements is not None for elements in wanted.values()):
            from .row_forms import forms_and_outlines

            forms = forms_and_outlines(self, groups, wanted, total)
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

    def prefetch(
        self, positions: I64, wanted: Mapping[str, Elements], *, decode: bool = True
    ) -> None:
        """Ask for readahead of a batch that will be read soon, decoded or not. Direct reads have no use for it."""
        if self.pool.direct:
            return
        groups = self.groups(positions, wanted)
        if decode and not (wanted := self.unknown(groups, wanted)):
            return
        plan = self.plan(groups, len(positions), wanted, parts=True)
        for batch in plan.batches:
            # if too many files would be open, it is read later
            self._call(storage.prefetch, plan, batch, positions)

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
