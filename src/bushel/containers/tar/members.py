"""Tar members with their data, read forward: for programs that stream shards, and streams of unknown size.

The format is POSIX ustar with the two common extensions for longer names and sizes: PAX records and
GNU `L` members. A kernel reads the headers, here as of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import I64, batches_of
from bushel.errors import FormatError
from bushel.kernels import MappedFile, prefetch, read_many
from bushel.storage import ExtentError, is_compressed, path_of_stream
from bushel.storage.forward import Readable, decompressed

from .names import extensions
from .samples import Members
from .scan import (
    REGULAR,
    damage,
    only_regular,
    regular,
    scan,
    shrunk,
    sparse_file,
)

BLOCK = 512
_NO_END = 1 << 62  # stands for the size of a stream, which is not known
_CHUNK = 1 << 20


class Member(Struct, frozen=True):
    """A file in an archive."""

    name: str  # its path as stored, UTF-8 with surrogate escapes for other bytes
    header: int  # offset of its header (of the first header if a long name precedes it)
    offset: int  # offset of its data
    size: int  # size of its data in bytes
    regular: bool  # whether it is a file, not a folder, link or device


class ForwardReader:
    """Reads a handle from its current position to its end and counts its position."""

    __slots__ = ("_handle", "name", "position")

    def __init__(self, handle: Readable, name: str) -> None:
        self._handle, self.name, self.position = handle, name, 0

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes, or fewer at the end of the stream. Never allocates more than the stream holds."""
        parts, missing = [], size
        while missing and (part := self._handle.read(min(missing, _CHUNK))):
            parts.append(part)
            missing -= len(part)
        self.position += size - missing
        return b"".join(parts)

    def skip_to(self, position: int) -> bool:
        """Skip forward to a position. Return False if the stream ends before it."""
        while self.position < position:
            if not (part := self._handle.read(min(position - self.position, _CHUNK))):
                return False
            self.position += len(part)
        return True


def members(
    reader: ForwardReader, commented: Callable[[bytes], None] | None = None
) -> Iterator[Member]:
    """Yield the members of an archive, in order.

    Before taking the next member the caller may read the data of the last one from `reader`, or
    leave it. After the last member, the reader is at the end of the stream, and the archive is
    known to be complete. `commented` is called with each comment for the whole archive, before the
    members after it.

    Raises:
        FormatError: The archive is damaged, truncated, or continues after its end.
    """
    scanner, comment, start, block = kernels.TarScanner(_NO_END), b"", 0, b""
    while True:
        need = scanner.need
        block += reader.read(need - len(block))
        if len(block) < need:
            raise _cut(reader, start, len(block))
        scanner.feed(block)
        parsed = scanner.take()
        if len(parsed):
            yield _member(parsed, reader)
            following = parsed.end
        else:
            if parsed.problem is not None:
                what = "" if start else "not a tar archive: "
                raise _bad(reader, parsed.problem_offset, what + parsed.problem)
            if parsed.zero_blocks:
                return _finish(reader, start, parsed.zero_blocks)
            if commented is not None and parsed.comment != comment:
                comment = parsed.comment
                commented(comment)
            following, _ = scanner.next_window() or (start, 0)
            if following == start:  # the name or the records after a header have to be read, too
                continue
        if not reader.skip_to(following):
            raise _bad(reader, start, f"the archive ends inside the {following - start} bytes here")
        start, block = following, b""


def _member(found: kernels.TarMembers, reader: ForwardReader) -> Member:
    kind = int(found.type[0])
    if kind not in REGULAR and (error := sparse_file(found, reader.name)) is not None:
        raise error
    name = found.names.tobytes().decode("utf-8", "surrogateescape")
    place = int(found.header[0]), int(found.offset[0]), int(found.size[0])
    return Member(name, *place, kind in REGULAR)


def _finish(reader: ForwardReader, start: int, zero_blocks: int) -> None:
    if zero_blocks < 2:
        raise _bad(reader, start, "the end mark is one empty block instead of two")
    while chunk := reader.read(_CHUNK):
        if any(chunk):
            where = reader.position - len(chunk.lstrip(b"\0"))
            raise _bad(reader, where, "bytes after the end of the archive")


def _cut(reader: ForwardReader, start: int, size: int) -> FormatError:
    if start == 0:
        message = f"{size} bytes are not a tar archive: an empty one has two blocks of zeros"
    elif size == 0:
        message = "the archive ends without its end mark: members may be missing"
    else:
        message = f"the archive ends inside a header or its end mark, after {size} bytes of it"
    return _bad(reader, start, message)


def _bad(reader: ForwardReader, offset: int, message: str) -> FormatError:
    return FormatError(message, reader.name, offset, "run `bushel verify` on it")


Keep = Callable[[str], str | None]
"""Maps the name of a member to the name to return it under, or None to skip it."""

_HEAD_BYTES = 6  # number of bytes that show whether a file is compressed
_CHUNK_BYTES = 8 << 20
_CHUNK_MEMBERS = 1024


def member_contents(stream: Any, name: str, keep: Keep) -> Iterator[tuple[str, bytes]]:
    """Iterate over the files of an open archive: names and contents.

    A plain local file that stands at its start is mapped and read many members at a time.
    Everything else, also a compressed archive, is read forward.

    Args:
        stream: The archive, open for reading bytes.
        name: The name of the archive for error messages.
        keep: Which members to read, and under which names.

    Raises:
        FormatError: The archive is damaged, truncated, or has no end mark. The members before were
            complete.
    """
    path = path_of_stream(stream)
    if path is not None and stream.tell() == 0:
        compressed = is_compressed(stream.read(_HEAD_BYTES))
        stream.seek(0)
        if not compressed:
            return file_contents(MappedFile(path), keep)
    return stream_contents(ForwardReader(decompressed(stream, name), name), keep)


def member_extensions(path: str) -> frozenset[str]:
    """Return the extensions of the files in a local archive that is not compressed."""
    table = only_regular(scan(MappedFile(path)))
    return extensions(table.names.text, table.names.offsets)


def file_contents(file: MappedFile, keep: Keep) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive in a local file. Many are read at a time.

    `keep` gets the name of each member, in order, and returns the name to use, or None to skip it.

    Raises:
        FormatError: The archive is damaged or truncated, or has no end mark. All members yielded
            before were complete.
    """
    scanned = scan(file)
    problem = damage(scanned, file)
    if problem is not None and not len(scanned):
        raise problem
    table = regular(scanned, file.path)
    # at least 8 KiB for each, so that a chunk has 1024 members at most
    sizes = np.maximum(table.size, _CHUNK_BYTES // _CHUNK_MEMBERS)
    plans = _plans(table, batches_of(sizes, _CHUNK_BYTES), keep)
    plan = next(plans, None)
    while plan is not None:
        (rows, names, refusal), following = plan, next(plans, None)
        if following is not None:
            prefetch([file], 0, table.offset[following[0]], table.size[following[0]])
        try:
            datas = read_many([file], 0, table.offset[rows], table.size[rows])
        except ExtentError as error:
            raise shrunk(file, error) from error
        for name, data in zip(names, datas, strict=True):
            yield name, data or b""
        if refusal is not None:
            raise refusal
        plan = following
    if problem is not None:
        raise problem


def _plans(
    table: Members, batches: Iterable[slice], keep: Keep
) -> Iterator[tuple[I64, list[str], Exception | None]]:
    """Yield the members that are read at once, their names for the caller, and what `keep` raised for the next one."""
    refusal = None
    for batch in batches:
        chosen, names = list[int](), list[str]()
        for row in range(batch.start, batch.stop):
            try:
                name = keep(table.names[row])
            except Exception as error:  # raised after the members before it have been yielded
                refusal = error
                break
            if name is not None:
                chosen.append(row)
                names.append(name)
        yield np.array(chosen, np.int64), names, refusal
        if refusal is not None:
            return


def stream_contents(reader: ForwardReader, keep: Keep) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive that can only be read forward, as `file_contents` does."""
    for member in members(reader):
        if not member.regular or (name := keep(member.name)) is None:
            continue
        data = reader.read(member.size)
        if len(data) < member.size:
            raise _bad(
                reader,
                member.header,
                f"the archive ends inside the {member.size} bytes of {member.name!r}",
            )
        yield name, data
