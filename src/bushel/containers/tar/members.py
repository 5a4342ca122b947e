"""Tar members with their data, read forward: for programs that stream shards, and streams of unknown size.

`kernels.scan_tar` scans files and follows the same rules; tests compare the two. The format is
POSIX ustar with the two common extensions for longer names and sizes: PAX records and GNU `L`
members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct
from bushel.containers.tar.names import extensions
from bushel.containers.tar.samples import Members
from bushel.containers.tar.scan import damage, only_regular, regular, scan
from bushel.errors import FormatError
from bushel.kernels import MappedFile, prefetch, read_many
from bushel.storage import ExtentError, is_compressed, path_of_stream
from bushel.storage.forward import Readable, decompressed

BLOCK = 512
# limit in bytes of a long name or a set of PAX records; real ones have a few hundred
_RECORD_LIMIT = 1 << 20
_SIZE_LIMIT = (1 << 63) - 1
_CHUNK = 1 << 20
_WITHOUT_DATA = b"123456"
"""Types (links, devices, folders, pipes) that consist of a header only, for any value of their size field."""


class Member(Struct, frozen=True):
    """A file in an archive."""

    name: str  # its path as stored, UTF-8 with surrogate escapes for other bytes
    header: int  # offset of its header (of the first header if a long name precedes it)
    offset: int  # offset of its data
    size: int  # size of its data in bytes
    regular: bool  # whether it is a file, not a folder, link or device

    @property
    def end(self) -> int:
        """The offset of the next header."""
        return self.offset + (self.size + BLOCK - 1) // BLOCK * BLOCK


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
        if len(parts) == 1:
            return parts[0]
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
    everywhere: dict[bytes, bytes] = {}  # PAX records that apply to all later members
    records: dict[bytes, bytes] = {}
    long_name: bytes | None = None
    first: int | None = None  # offset of the long name or PAX records that precede the member
    while True:
        start = reader.position
        header = reader.read(BLOCK)
        if len(header) < BLOCK:
            raise _cut(reader, start, len(header))
        if not any(header):
            if first is not None:
                raise _bad(reader, first, "a long name or PAX records without a member after them")
            return _finish(reader, start)
        _verify_checksum(reader, start, header)
        kind, size = header[156:157], _number(header[124:136])
        if kind == b"g":
            _update(everywhere, reader, start, _read_records(reader, start, size))
            if commented is not None and (comment := everywhere.pop(b"comment", None)) is not None:
                commented(comment)
        elif kind in b"LKxX":
            if first is None:
                first = start
            data = _read_records(reader, start, size)
            if kind == b"L":
                long_name = data.split(b"\0", 1)[0]
            elif kind != b"K":
                _update(records, reader, start, data)
        else:
            name = (
                records.get(b"path") or long_name or everywhere.get(b"path") or _header_name(header)
            )
            size = _size(size, kind, records.get(b"size") or everywhere.get(b"size"))
            if size is None:
                raise _bad(reader, start, f"the size of {_text(name)!r} is not a valid number")
            if kind == b"S" or any(key.startswith(b"GNU.sparse.") for key in records):
                raise _bad(
                    reader,
                    start,
                    f"{_text(name)!r} is a sparse file: make the archive without --sparse",
                )
            if b"\0" in name:
                raise _bad(reader, start, f"the name {_text(name)!r} contains a zero byte")
            regular = kind in b"07" or (kind == b"\0" and not name.endswith(b"/"))
            member = Member(
                _text(name), start if first is None else first, start + BLOCK, size, regular
            )
            yield member
            if not reader.skip_to(member.end):
                raise _bad(
                    reader, start, f"the archive ends inside the {size} bytes of {member.name!r}"
                )
            records, long_name, first = {}, None, None


def _header_name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0]
    # GNU's own format ("ustar  ") stores other values in place of the prefix
    if prefix and header[257:263] == b"ustar\0":
        return prefix + b"/" + name
    return name


def _size(stated: int | None, kind: bytes, record: bytes | None) -> int | None:
    if record is not None:
        stated = int(record) if record.isdigit() and len(record) < 20 else None
    if stated is None or stated > _SIZE_LIMIT:
        return None
    return 0 if kind in _WITHOUT_DATA else stated


def _read_records(reader: ForwardReader, start: int, size: int | None) -> bytes:
    if size is None or size > _RECORD_LIMIT:
        raise _bad(
            reader,
            start,
            f"a long name or PAX records of {'unreadable size' if size is None else size} bytes",
        )
    data = reader.read(size)
    if len(data) < size or not reader.skip_to(start + BLOCK + (size + BLOCK - 1) // BLOCK * BLOCK):
        raise _bad(reader, start, "the archive ends inside a long name or PAX records")
    return data


def _update(records: dict[bytes, bytes], reader: ForwardReader, start: int, data: bytes) -> None:
    """Add PAX records: `LENGTH KEY=VALUE` and a line feed; the length counts the whole record."""
    at = 0
    while at < len(data) and data[at]:
        digits, space, _ = data[at : at + 20].partition(b" ")
        stop = at + int(digits) if space and digits.isdigit() else 0
        key, equals, value = data[at + len(digits) + 1 : max(stop - 1, 0)].partition(b"=")
        if not at < stop <= len(data) or not equals or data[stop - 1 : stop] != b"\n":
            raise _bad(reader, start, "malformed PAX records")
        records[key] = value
        at = stop


def _verify_checksum(reader: ForwardReader, start: int, header: bytes) -> None:
    stated = _number(header[148:156])
    summed = header[:148] + b"        " + header[156:]
    unsigned = sum(summed)
    if stated == unsigned:
        return
    if stated is not None and stated == unsigned - 256 * sum(byte >> 7 for byte in summed):
        return  # some old writers added up signed bytes
    if start == 0:
        raise _bad(reader, start, "not a tar archive: its first block is not a tar header")
    raise _bad(
        reader, start, "expected the header of a member, found a block with a wrong checksum"
    )


def _finish(reader: ForwardReader, start: int) -> None:
    if any(second := reader.read(BLOCK)) or len(second) < BLOCK:
        raise _bad(reader, start, "the end mark is one empty block instead of two")
    while chunk := reader.read(_CHUNK):
        if any(chunk):
            where = reader.position - len(chunk) + len(chunk) - len(chunk.lstrip(b"\0"))
            raise _bad(reader, where, "bytes after the end of the archive")


def _number(field: bytes) -> int | None:
    """Return a number in octal digits, or, with the highest bit set, in binary; None if it is invalid."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            return None
        return int.from_bytes(bytes([field[0] & 0x3F]) + field[1:], "big")
    text = field.strip(b" \0")
    if text.strip(b"01234567"):
        return None
    return int(text or b"0", 8)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _cut(reader: ForwardReader, start: int, size: int) -> FormatError:
    if start == 0:
        return _bad(
            reader,
            0,
            f"{size} bytes are not a tar archive: an empty one has two blocks of zeros",
        )
    if size == 0:
        return _bad(reader, start, "the archive ends without its end mark: members may be missing")
    return _bad(reader, start, f"the archive ends inside a header, after {size} of {BLOCK} bytes")


def _bad(reader: ForwardReader, offset: int, message: str) -> FormatError:
    return FormatError(message, file=reader.name, offset=offset, hint="run `bushel verify` on it")


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
    return extensions(table.names, table.name_offsets)


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
    plans = (_planned(table, range(*chunk), keep) for chunk in _chunks(table))
    plan = next(plans, None)
    while plan is not None:
        following = next(plans, None) if plan.refusal is None else None
        if following is not None:
            prefetch([file], 0, table.offset[following.rows], table.size[following.rows])
        try:
            datas = read_many([file], 0, table.offset[plan.rows], table.size[plan.rows])
        except ExtentError as error:
            message = "the file became shorter while it was read"
            raise FormatError(message, file=file.path, offset=error.found) from error
        for name, data in zip(plan.names, datas, strict=True):
            yield name, data or b""
        if plan.refusal is not None:
            raise plan.refusal
        plan = following
    if problem is not None:
        raise problem


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Members that are read at once."""

    rows: I64  # int64: numbers of the members
    names: list[str]  # their names for the caller
    refusal: Exception | None  # the exception that `keep` raised for the member after them, or None


def _planned(table: Members, rows: range, keep: Keep) -> _Plan:
    chosen: list[int] = []
    names: list[str] = []
    for row in rows:
        try:
            name = keep(table.name(row))
        except Exception as error:  # raised after the members before it have been yielded
            return _Plan(np.array(chosen, np.int64), names, error)
        if name is not None:
            chosen.append(row)
            names.append(name)
    return _Plan(np.array(chosen, np.int64), names, None)


def _chunks(table: Members) -> Iterator[tuple[int, int]]:
    """Yield runs of members to read at once: limited in bytes, or one large member."""
    ends = np.cumsum(table.size)
    first = 0
    while first < len(ends):
        read = int(ends[first] - table.size[first])
        last = int(np.searchsorted(ends, read + _CHUNK_BYTES, side="right"))
        last = max(first + 1, min(last, first + _CHUNK_MEMBERS))
        yield first, last
        first = last


def stream_contents(reader: ForwardReader, keep: Keep) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive that can only be read forward, as `file_contents` does."""
    for member in members(reader):
        if not member.regular or (name := keep(member.name)) is None:
            continue
        data = reader.read(member.size)
        if len(data) < member.size:
            message = f"the archive ends inside the {member.size} bytes of {member.name!r}"
            raise FormatError(
                message, file=reader.name, offset=member.header, hint="run `bushel verify` on it"
            )
        yield name, data
