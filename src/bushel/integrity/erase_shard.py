"""Overwriting the values of removed samples in the local files of one shard.

Everything is planned first: the pieces of files, their new bytes, and the shard's new table. That
table is written beside the present one before the first byte is overwritten, and takes its place after the last. So the
work of a killed process can be finished.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

from bushel import kernels
from bushel._dataset.open.tables import StoredTable, build_table, stamp_of, stamps_of, stored_table
from bushel._index.blanking import without_values
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel._index.table import FileStamp, Shard, ShardIndex
from bushel._runtime.arrays import I64, Bools
from bushel.containers import Container, ReadOptions
from bushel.containers.erasing import Eraser
from bushel.errors import FormatError, naming
from bushel.integrity.erase_plan import EraseTargets, erase_targets
from bushel.storage import File, open_file, remove, sync_folder
from bushel.storage.whole import write_all


@dataclass(frozen=True, slots=True)
class ErasedShard:
    """The values that were overwritten in a shard."""

    shard: Shard
    index: ShardIndex  # its table now
    whole: Bools  # bool[samples that were asked for], whether every value of each is overwritten
    bytes: int  # number of bytes that were overwritten
    left: Counter[str]  # the reasons why values could not be overwritten, with the number of values


def erase_in_shard(
    container: Container, eraser: Eraser, shard: Shard, samples: I64, check: Callable[[int], None]
) -> ErasedShard:
    """Overwrite the values of some samples of a shard, or finish that.

    Args:
        container: The container.
        eraser: How its values are overwritten.
        shard: A shard in local files.
        samples: int64[n], numbers of the samples, ascending.
        check: Called with the number of samples of the shard before anything is changed.

    Raises:
        FormatError: The files do not fit the index.
        OSError: A file cannot be written.
    """
    place = shard.sidecar.parent / "erasing" / f"{kernels.crc32(samples.tobytes()):08x}-{shard.sidecar.name}"
    table = stored_table(shard, check=True)
    begun = load_index(place, check=True) if place.exists() else None
    index = _table(container, shard, table) if begun is None else begun
    check(index.samples)
    targets = erase_targets(index, samples, _linked(shard, index))
    after, files = _planned(eraser, shard, index, targets, samples)
    if begun is not None and [each.crc32 for each in begun.files] != [each.crc32 for each in files]:
        raise FormatError(
            "the file has changed since erasing it was interrupted",
            file=str(shard.path(0)),
            hint="run `bushel verify` on the dataset; `bushel index --force` accepts the file as it is",
        )
    if begun is None:
        save_index(replace(after, files=files), place)
    _write(shard, eraser, index, targets, samples)
    now = tuple(replace(new, mtime_ns=is_now.mtime_ns) for new, is_now in zip(files, stamps_of(shard), strict=True))
    after = replace(after, files=now)
    if table is not None:
        save_index(after, shard.sidecar)
    remove(place)
    if isinstance(place, Path):
        sync_folder(place.parent)  # or else a power cut brings it back, when nothing looks for it any more
    return ErasedShard(shard, after, targets.whole(len(samples)), int(targets.size.sum()), targets.left)


def _table(container: Container, shard: Shard, table: StoredTable | None) -> ShardIndex:
    if table is None:
        return build_table(container.name, shard, ReadOptions(), None)
    if not table.fits:
        raise FormatError(
            "the file has changed since it was indexed, so that other bytes might be overwritten",
            file=str(shard.path(0)),
            hint="run `bushel verify` on the dataset, and `bushel index`",
        )
    return table.index


def _linked(shard: Shard, index: ShardIndex) -> dict[int, str]:
    """Return the files whose bytes are not overwritten, by number, and why."""
    found = {}
    for number in range(len(index.files)):
        if number >= len(shard.files):
            found[number] = "the values lie in files that the dataset only names"
            continue
        path = Path(str(shard.path(number)))
        real = os.path.relpath(os.path.realpath(path), os.path.realpath(str(shard.root)))
        if real != os.path.normpath(shard.files[number]):
            found[number] = f"{path} is a symbolic link"
        elif path.stat().st_nlink > 1:
            found[number] = f"{path} has other names (hard links), whose datasets would lose the values, too"
    return found


def _planned(
    eraser: Eraser, shard: Shard, index: ShardIndex, targets: EraseTargets, samples: I64
) -> tuple[ShardIndex, tuple[FileStamp, ...]]:
    """Return the table of the shard afterwards, and its files with the stamps that they will have."""
    crc32 = {name: None if own.crc32 is None else own.crc32.copy() for name, own in index.fields.items()}
    names = list(index.fields)
    files = [open_file(shard.path(number)) for number in range(len(index.files))]
    patched = [_Patched(file) for file in files]
    for number, _, new in overwritten(files, eraser, index, targets):
        sums = crc32[names[targets.field[number]]]
        if sums is not None:
            sums[targets.row[number]] = kernels.crc32(new)
        for file, offset, part in targets.parts(number, new):
            patched[file].keep(offset, part)
    whole = samples[targets.whole(len(samples))]
    for file, offset, part in eraser.seal(shard, index, whole):
        patched[file].keep(offset, part)
    fields = {name: replace(own, crc32=crc32[name]) for name, own in index.fields.items()}
    stamps = [replace(own, crc32=stamp_of(new)) for own, new in zip(index.files, patched, strict=True)]
    return without_values(replace(index, fields=fields), samples), tuple(stamps)


def overwritten(
    files: Sequence[File], eraser: Eraser, index: ShardIndex, targets: EraseTargets
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of each value that is overwritten, its bytes, and the bytes that take their place."""
    names = list(index.fields)
    for number in range(len(targets)):
        stored = b"".join(files[file].read(offset, size) for file, offset, size in targets.places(number))
        new = bytearray(eraser.erased(index, names[targets.field[number]], stored))
        if eraser.kept_word:
            at = 0
            for file, offset, size in targets.places(number):
                _keep_words(files[file], offset, new, slice(at, at + size), eraser.kept_word)
                at += size
        yield number, stored, bytes(new)


def _keep_words(file: File, offset: int, new: bytearray, part: slice, word: bytes) -> None:
    """Put the words of a file that belong to its structure back into what takes the place of a piece of it."""
    first, last = offset & ~3, min(offset + part.stop - part.start + 3 & ~3, file.size)
    around = file.read(first, last - first)
    at = around.find(word)
    while at >= 0:
        if at % 4 == 0:
            begin, end = max(first + at, offset), min(first + at + 4, offset + part.stop - part.start)
            new[part.start + begin - offset : part.start + end - offset] = around[begin - first : end - first]
        at = around.find(word, at + 1)


def _write(shard: Shard, eraser: Eraser, index: ShardIndex, targets: EraseTargets, samples: I64) -> None:
    """Overwrite the values in the files, and wait until that is on disk."""
    files = [open_file(shard.path(number)) for number in range(len(index.files))]
    with ExitStack() as stack:
        opened: dict[int, FileIO] = {}

        def write(file: int, offset: int, part: bytes) -> None:
            if file not in opened:
                opened[file] = stack.enter_context(open(str(shard.path(file)), "r+b", buffering=0))
            with naming(shard.path(file)):
                write_all(opened[file], part, offset)

        for number, _, new in overwritten(files, eraser, index, targets):
            for file, offset, part in targets.parts(number, new):
                write(file, offset, part)
        for file, offset, part in eraser.seal(shard, index, samples[targets.whole(len(samples))]):
            write(file, offset, part)
        for number, each in opened.items():
            with naming(shard.path(number)):
                os.fsync(each.fileno())


class _Patched:
    """A file as it will be; of the overwritten bytes, only the ones in the blocks of its stamp are kept."""

    def __init__(self, file: File) -> None:
        self.path, self.size, self.mtime_ns = file.path, file.size, file.mtime_ns
        self._file = file
        self._parts: list[tuple[int, bytes]] = []
        self._blocks: list[tuple[int, int]] = []
        self._noting = True
        stamp_of(self)
        self._noting = False

    def read(self, offset: int, length: int, /) -> bytes:
        """Read one extent."""
        if self._noting:
            self._blocks.append((offset, offset + length))
        found = bytearray(self._file.read(offset, length))
        for at, part in self._parts:
            first, last = max(at, offset), min(at + len(part), offset + length)
            if first < last:
                found[first - offset : last - offset] = part[first - at : last - at]
        return bytes(found)

    def keep(self, offset: int, part: bytes) -> None:
        """Note the bytes that are overwritten."""
        if any(first < offset + len(part) and offset < last for first, last in self._blocks):
            self._parts.append((offset, part))
