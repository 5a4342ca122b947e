"""Read the pieces of a batch that are not in mapped files: request them, or expand their blocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Protocol, cast

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel import kernels
from bushel._runtime.arrays import I32, I64, NO_NUMBERS, U8, Bools, offsets_of, total_of
from bushel._runtime.parallel import map_all
from bushel._runtime.system import keep_freed_memory, room_for
from bushel._runtime.threads import cpu_count
from bushel.filters import FilterError
from bushel.kernels import MappedFile

from .base import ExtentError, Extents, File, StoredObject
from .block_file import PackedBlock, Pieces, pieces_of
from .blocks import IN_TABLE
from .expansion_cache import Claim, expansion_cache
from .fileobject import SmallFile

_WORTH_THREADS = 1 << 20
"""From this number of bytes on, several threads expand: starting them takes as long as expanding some 100 KB."""


class Held(Protocol):
    """Bytes of remote files that were requested before they are needed."""

    def covers(self, files: Sequence[File], extents: Extents) -> Bools | None:
        """Return bool[n], which of these extents it has, or None if it has none."""

    def take(self, files: Sequence[File], extents: Extents) -> list[bytes | None]:
        """Wait for the extents that it has, and return them: bytes or None for each of the n extents."""


class NeededRanges(Struct, frozen=True):
    """The ranges of real files that a batch needs apart from the pieces that are copied from mapped files."""

    # the extents: of pieces in other files, and then of the stored bytes of blocks
    extents: Extents
    row: I64  # int64[n], number of the extent of the batch that each is for
    pieces: I64  # int64[k], the numbers of these pieces
    blocks: list[int]  # the numbers in `Pieces.packed` of these blocks


_NOTHING = NeededRanges(
    Extents(NO_NUMBERS.astype(np.int32), NO_NUMBERS, NO_NUMBERS), NO_NUMBERS, NO_NUMBERS, []
)


def needed_ranges(pieces: Pieces) -> NeededRanges:
    """Return the extents of real files for these pieces. Pure: no I/O."""
    far_files = np.array(
        [not isinstance(file, MappedFile) for file in pieces.files] + [False], np.bool_
    )
    far = np.flatnonzero(far_files[np.minimum(pieces.source, len(pieces.files))])
    if not (pieces.packed or len(far)):
        return _NOTHING
    blocks = [number for number, block in enumerate(pieces.packed) if block.home != IN_TABLE]
    stored = [pieces.packed[number] for number in blocks]
    facts = [(block.home, block.offset, block.length, block.row) for block in stored]
    file, offset, length, row = np.array(facts, np.int64).reshape(-1, 4).T
    extents = Extents(
        np.concatenate([pieces.source[far], file]).astype(np.int32),
        np.concatenate([pieces.offset[far], offset]),
        np.concatenate([pieces.size[far], length]),
    )
    return NeededRanges(extents, np.concatenate([pieces.row[far], row]), far, blocks)


def mapped_extents(files: Sequence[File], extents: Extents) -> tuple[list[File], Extents]:
    """Return the extents of mapped files that a batch will read: pieces, and stored bytes of blocks not in the cache.

    Raises:
        ExtentError: An extent is not in its file.
    """
    pieces = pieces_of(files, extents)
    ranges = needed_ranges(pieces)
    after = len(ranges.pieces)  # where the stored bytes of blocks begin
    source = np.concatenate([pieces.source, ranges.extents.numbers()[after:]])
    offset = np.concatenate([pieces.offset, ranges.extents.offset[after:]])
    length = np.concatenate([pieces.size, ranges.extents.length[after:]])
    cached = expansion_cache().kept([block.name for block in pieces.packed])
    needed = source < len(pieces.files)
    needed[len(pieces.source) :] = [not cached[number] for number in ranges.blocks]
    near = np.array([isinstance(file, MappedFile) for file in pieces.files], np.bool_)
    needed[needed] = near[source[needed]]
    return pieces.files, Extents(source[needed], offset[needed], length[needed])


def ranges_to_prefetch(
    files: Sequence[File], extents: Extents, seen: set[Hashable]
) -> tuple[list[File], Extents, Bools] | None:
    """Return the real files and extents that reading a batch takes from a `Held`.

    `seen` has the names of the blocks that earlier batches need; the blocks of this one are added.

    Returns:
        The files, the extents, and bool[n], which of these have to be read: not the extents in
        blocks that are kept, or that a batch before expands. None if the batch cannot be read:
        reading it finds out why.
    """
    try:
        pieces = pieces_of(files, extents)
    except (ExtentError, OSError, ValueError):
        return None
    ranges = needed_ranges(pieces)
    names = [pieces.packed[number].name for number in ranges.blocks]
    needed = np.ones(len(ranges.extents), np.bool_)
    cached = expansion_cache().kept(names)
    needed[len(ranges.pieces) :] = [
        not (is_cached or name in seen) for is_cached, name in zip(cached, names, strict=True)
    ]
    seen.update(names)
    return pieces.files, ranges.extents, needed


def fetch(pieces: Pieces, held: Held | None = None) -> tuple[dict[int, bytes], list[U8]]:
    """Return the bytes of the pieces that are not in mapped files.

    Returns:
        The bytes of the pieces in files that are not mapped, by their number; and the expanded
        blocks of `pieces.packed`.

    Raises:
        ExtentError: A file has shrunk, or a block cannot be expanded; `row` is the number of the
            first such extent of the batch.
    """
    ranges = needed_ranges(pieces)
    if not (pieces.packed or len(ranges.pieces)):
        return {}, []
    cache = expansion_cache()
    names = [block.name for block in pieces.packed]
    claim = Claim()
    try:
        cache.claim(names, claim)
        claimed = set(claim.to_expand)
        needed = np.ones(len(ranges.extents), np.bool_)
        needed[len(ranges.pieces) :] = [names[number] in claimed for number in ranges.blocks]
        stored = _read(pieces.files, ranges, needed, held)
        expanded = _expand(
            pieces.packed,
            names,
            claim,
            dict(zip(ranges.blocks, stored[len(ranges.pieces) :], strict=True)),
        )
    finally:
        for name in claim.to_expand:
            cache.give_up(name, claim, None)
    return dict(zip(ranges.pieces.tolist(), cast("list[bytes]", stored), strict=False)), expanded


def gather_objects(files: Sequence[File], extents: Extents) -> tuple[U8, I64]:
    """Read extents of objects into one buffer, each as its request ends. Result and errors: see `reading.gather`."""
    from bushel.storage.objects.ranges import RangeFile, read_into

    pieces, offsets = pieces_of(files, extents), offsets_of(np.maximum(extents.length, 0))
    buffer, objects = room_for(int(offsets[-1])), cast("list[RangeFile]", pieces.files)
    read_into(buffer, offsets[pieces.row], objects, pieces.source, pieces.offset, pieces.size)
    return buffer, offsets


def _read(
    files: Sequence[File], ranges: NeededRanges, needed: Bools, held: Held | None
) -> list[Buffer | None]:
    """Read the needed extents: of mapped files by a kernel, of objects by many requests, of others one by one."""
    keep_freed_memory()
    reading = _Reading(files, ranges.extents, [None] * len(ranges.extents))
    covered = None if held is None else held.covers(files, ranges.extents)
    with _numbered(ranges.row):
        if held is None or covered is None:
            reading.read(np.flatnonzero(needed))
            return reading.out
        reading.read(np.flatnonzero(needed & ~covered))
        taken, late = held.take(files, ranges.extents), []
        for row in np.flatnonzero(needed & covered).tolist():
            reading.out[row] = taken[row]
            if taken[row] is None:
                late.append(row)
        reading.read(np.array(late, np.int64))
    return reading.out


@contextmanager
def _numbered(rows: Sequence[int] | I64) -> Iterator[None]:
    """Let the error of an extent have the number that `rows` has for it."""
    try:
        yield
    except ExtentError as error:
        error.row = int(rows[error.row])
        raise


class _Reading(Struct, frozen=True):
    """Reads extents of real files of any kind."""

    files: Sequence[File]
    extents: Extents
    out: list[Buffer | None]  # gets the bytes of each extent

    def read(self, rows: I64) -> None:
        """Read some extents."""
        if not len(rows):
            return
        readers = np.array([_reader_of(type(file)) for file in self.files])[self._numbers(rows)]
        for reader in set(readers.tolist()):
            getattr(self, reader)(rows[readers == reader])

    def _numbers(self, rows: I64) -> I32:
        return self.extents.numbers()[rows]

    def _small(self, rows: I64) -> None:
        """Read files that are opened for each read."""
        files = cast("Sequence[SmallFile]", self.files)
        chosen = [files[number] for number in self._numbers(rows).tolist()]
        paths = [file.path for file in chosen]
        size = np.array([file.size for file in chosen], np.int64)
        mtime = np.array([file.mtime_ns for file in chosen], np.int64)
        offset, length = self.extents.offset[rows], self.extents.length[rows]
        read = kernels.read_small_files(paths, size, mtime, offset, length)
        for number, (row, data) in enumerate(zip(rows.tolist(), read, strict=True)):
            if data is None:
                with _numbered([row]):
                    data = chosen[number].read(int(offset[number]), int(length[number]))
            self.out[row] = data

    def _mapped(self, rows: I64) -> None:
        """Read stored bytes of blocks, which are not needed after the expansion: into memory that is used again."""
        maps, numbers = cast("list[MappedFile]", self.files), self._numbers(rows)
        offset, length = self.extents.offset[rows], self.extents.length[rows]
        size = total_of(length)
        with _numbered(rows):
            if size < _WORTH_THREADS:
                values: Sequence[Buffer | None] = kernels.read_many(maps, numbers, offset, length)
            else:
                whole = room_for(size)
                ends = kernels.gather_into(maps, numbers, offset, length, None, whole).tolist()
                values = [whole[start:end].data for start, end in pairwise(ends)]
        for row, value in zip(rows.tolist(), values, strict=True):
            self.out[row] = value

    def _objects(self, rows: I64) -> None:
        from bushel.storage.objects.ranges import RangeFile, read_rows

        objects, length = cast("Sequence[RangeFile]", self.files), self.extents.length[rows]
        row_of, length_of = rows.tolist(), length.tolist()
        long: dict[int, bytearray] = {}

        def put(number: int, at: int, data: memoryview) -> None:
            row, size = row_of[number], length_of[number]
            if len(data) < size:
                # several threads may come here
                whole = long.get(row) or long.setdefault(row, bytearray(size))
                whole[at : at + len(data)] = data
            elif type(data.obj) is bytes and len(data.obj) == size:
                self.out[row] = data.obj
            else:
                self.out[row] = bytes(data)

        read_rows(objects, self._numbers(rows), self.extents.offset[rows], length, put)
        for row, data in long.items():
            self.out[row] = bytes(data)
        self._put_empty(rows)

    def _others(self, rows: I64) -> None:
        from bushel.storage.objects.ranges import coalesce

        numbers = self._numbers(rows)
        for number in sorted(set(numbers.tolist())):
            chosen = rows[numbers == number]
            offset, length = self.extents.offset[chosen], self.extents.length[chosen]
            for span in coalesce(offset, length):
                with _numbered(chosen[span.rows[0] :]):
                    data = self.files[number].read(span.start, span.stop - span.start)
                for at in span.rows:
                    first = int(offset[at]) - span.start
                    self.out[int(chosen[at])] = data[first : first + int(length[at])]
        self._put_empty(rows)

    def _put_empty(self, rows: I64) -> None:
        for row in rows[self.extents.length[rows] == 0].tolist():
            self.out[row] = b""


@cache
def _reader_of(kind: type[File]) -> str:
    """Return the method of `_Reading` that reads a file of this type."""
    return next((reader for base, reader in _READERS.items() if issubclass(kind, base)), "_others")


_READERS: Mapping[type, str] = {
    MappedFile: "_mapped",
    StoredObject: "_objects",
    SmallFile: "_small",
}


def _expand(
    packed: Sequence[PackedBlock],
    names: Sequence[Hashable],
    claim: Claim,
    stored: dict[int, Buffer | None],
) -> list[U8]:
    """Return the expanded blocks. Blocks that another thread is expanding are awaited."""
    claimed = set(claim.to_expand)
    mine = [number for number, name in enumerate(names) if name in claimed]
    size = sum(packed[number].size for number in mine)

    def expand_one(number: int) -> None:
        block, data = packed[number], stored.get(number)
        if data is None:
            data = block.file.held[block.offset : block.offset + block.length].data
        try:
            expansion_cache().give(names[number], block.file.expand(block.block, data))
        except FilterError as error:
            expansion_cache().give_up(names[number], claim, error)

    threads = min(cpu_count(), len(mine)) if size >= _WORTH_THREADS else 1
    map_all(expand_one, mine, threads=threads, name="bushel-expand")
    blocks: list[U8] = []
    failed: ExtentError | None = None
    for packed_block, name in zip(packed, names, strict=True):
        try:
            block = claim.results[name].get()
        except FilterError as error:
            failure = packed_block.file.failure(packed_block.row, packed_block.block, error)
            if failed is None or failure.row < failed.row:
                failed = failure
            continue
        if block is None:  # another reader has failed for another reason
            block = packed_block.file.expanded(packed_block.block, packed_block.row)
        blocks.append(block)
    if failed is not None:
        raise failed
    return blocks
