"""Recovering a damaged FFRecord file: the records that match their CRC-32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from bushel import kernels
from bushel._index.shard import Shard
from bushel._runtime.arrays import Bools
from bushel.containers.base import ReadOptions
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.storage import Extents, File, checksums_of, open_file

from .container import Header, index_of, with_form
from .packed_folder import MAGIC, parse_folder

_LARGEST_TABLE = 1 << 26


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the records that match their CRC-32.

    Raises:
        FormatError: The tables of the file cannot be located.
    """
    file = open_file(shard.path(0))
    for header in _possible_headers(file):
        good = _matching(file, header)
        if good.any():
            break
    else:
        raise FormatError(
            "the tables in its header are damaged, so its records cannot be located", file.path
        )
    offset, last = header.offset.tolist(), len(header.offset) - 1
    for row in np.flatnonzero(~good).tolist():
        message = f"record {row} is lost: it does not match its CRC-32"
        fault(FormatError(message, file.path, offset[row]))
    # the table of a packed folder does not count as a sample
    is_folder = file.read(offset[last], min(len(MAGIC), file.size - offset[last])) == MAGIC
    paths: list[str] | None = None
    if good[last] and is_folder:
        good[last] = False
        with suppress(FormatError):
            paths = parse_folder(file.read(offset[last], int(header.length[last])))[0]
        if paths is None or len(paths) != last:
            fault(FormatError("the keys are lost: samples get their positions as keys", file.path))
            paths = None
    rows = np.flatnonzero(good)
    gaps = tuple(
        (int(np.searchsorted(rows, row)), f"at-{offset[row]}" if paths is None else paths[row])
        for row in np.flatnonzero(~good[: last + (not is_folder)]).tolist()
    )
    if paths is not None:
        paths = [paths[row] for row in rows.tolist()]
    index = index_of(shard, file, with_form(header.chosen(rows), file), options, paths)
    return Recovered(index, np.ones(len(rows), np.bool_), len(gaps), gaps)


def _possible_headers(file: File) -> Iterator[Header]:
    """Yield the records: for the stated number of records, then for others that fit."""
    if file.size < 12:
        return
    stated = int.from_bytes(file.read(4, 8), "little", signed=True)
    words = np.frombuffer(
        file.read(12, min(file.size - 12, _LARGEST_TABLE) // 4 * 4), "<u4"
    ).astype(np.int64)
    # N checksums are followed by the offset of the first record, which is the end of the tables: 12
    # + 12 * N
    first = words[:-1] | words[1:] << 32
    fitting = np.flatnonzero(first == 12 + 12 * np.arange(len(first)))
    for records in dict.fromkeys([stated, *fitting.tolist()]):
        if 0 < records <= (file.size - 12) // 12:
            raw = file.read(12, 12 * records)
            offset = np.frombuffer(raw, "<i8", records, 4 * records).astype(np.int64)
            ends = np.append(offset[1:], file.size)
            inside = (offset >= 12 + 12 * records) & (ends >= offset) & (ends <= file.size)
            yield Header(
                np.where(inside, offset, np.clip(offset, 0, file.size)),
                np.where(inside, ends - offset, -1),
                np.frombuffer(raw, "<u4", records).astype(np.uint32),
            )


def _matching(file: File, header: Header) -> Bools:
    """Return which records match their CRC-32.

    The last record ends with the file. If nothing is left of it, and its CRC-32 is 0, as of no
    bytes, only a whole header shows that it was empty before.
    """
    good = header.length >= 0
    rows = np.flatnonzero(good)
    extents = Extents(0, header.offset[rows], header.length[rows])
    good[rows] = checksums_of([file], extents) == header.crc32[rows]
    if good[-1] and header.length[-1] == 0:  # the header has its CRC-32, or 0 of the first releases
        expected = kernels.crc32(file.read(4, 8 + 12 * len(good)))
        good[-1] = int.from_bytes(file.read(0, 4), "little") in (0, expected)
    return good
