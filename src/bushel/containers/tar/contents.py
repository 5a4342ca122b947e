"""The files of an archive with their data, from front to back, for programs that stream shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel.containers.tar.members import ForwardReader, members
from bushel.containers.tar.names import extensions
from bushel.containers.tar.samples import Members
from bushel.containers.tar.scan import damage, only_regular, regular, scan
from bushel.errors import FormatError
from bushel.kernels import MappedFile, prefetch, read_many
from bushel.storage import ExtentError, is_compressed, path_of_stream
from bushel.storage.forward import decompressed

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
