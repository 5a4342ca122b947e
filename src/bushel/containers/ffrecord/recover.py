"""Recovering a damaged FFRecord file: the records that match their CRC-32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from bushel import kernels
from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U32, Bools
from bushel.containers.base import ReadOptions
from bushel.containers.packed_map import Record, index_records, is_packed_map
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.storage import File, open_file

from .container import folder_keys, only_field
from .packed_folder import MAGIC, parse_folder

_LARGEST_TABLE = 1 << 26
_Tables = tuple[U32, I64, I64]


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the records that match their CRC-32.

    Raises:
        FormatError: The tables of the file cannot be located.
    """
    file = open_file(shard.path(0))
    for tables in _possible_tables(file):
        good = _matching(file, tables)
        if good.any():
            break
    else:
        raise FormatError(
            "the tables in its header are damaged, so its records cannot be located", file.path
        )
    crc32, offset, length = tables
    last = len(offset) - 1
    lost = 0
    for row in np.flatnonzero(~good).tolist():
        at = min(int(offset[row]), file.size)
        lost += not _is_folder(file, at)
        fault(FormatError(f"record {row} is lost: it does not match its CRC-32", file.path, at))
    paths: list[str] | None = None
    if good[last] and (record := file.read(int(offset[last]), int(length[last]))).startswith(MAGIC):
        good[last] = False
        with suppress(FormatError):
            paths = parse_folder(record)[0]
        if paths is None or len(paths) != last:
            fault(FormatError("the keys are lost: samples get their positions as keys", file.path))
            paths = None
    good_rows = np.flatnonzero(good)
    folder = paths is not None or (
        len(good) > 0 and not good[last] and _is_folder(file, int(offset[last]))
    )
    gaps = tuple(
        (int(np.searchsorted(good_rows, row)), f"at-{offset[row]}" if paths is None else paths[row])
        for row in np.flatnonzero(~good).tolist()
        if not (folder and row == last)
    )
    crc32, offset, length = crc32[good_rows], offset[good_rows], length[good_rows]
    if len(good_rows) and is_packed_map(file.read(int(offset[0]), min(16, int(length[0])))):
        packed = index_records(
            _records(file, offset, length), options.spec, file=file.path, checksums=True
        )
        columns, keys = packed.fields, packed.keys
    else:
        field = only_field(options.spec, file)
        columns = {field.name: FieldExtents(field, field.codec, 0, offset, length, crc32)}
        if paths is None:
            keys = None
        else:
            keys = folder_keys([paths[row] for row in good_rows.tolist()], file)
    index = ShardIndex(len(good_rows), stamps(shard, [file]), columns, "ffrecord", keys).check(
        file.path
    )
    return Recovered(index, np.ones(len(good_rows), np.bool_), lost, gaps)


def _is_folder(file: File, offset: int) -> bool:
    """Return whether the table of a packed folder, which does not count as a sample, starts here."""
    return offset <= file.size and file.read(offset, min(len(MAGIC), file.size - offset)) == MAGIC


def _possible_tables(file: File) -> Iterator[_Tables]:
    """Yield CRC-32, offset and length of the records: for the stated number of records, then for others that fit."""
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
            yield (
                np.frombuffer(raw, "<u4", records).astype(np.uint32),
                np.where(inside, offset, np.clip(offset, 0, file.size)),
                np.where(inside, ends - offset, -1),
            )


def _matching(file: File, tables: _Tables) -> Bools:
    """Return which records match their CRC-32.

    The last record ends with the file. If nothing is left of it, and its CRC-32 is 0, as of no
    bytes, only a whole header shows that it was empty before.
    """
    crc32, offset, length = tables
    good = np.zeros(len(crc32), np.bool_)
    for row in np.flatnonzero(length >= 0).tolist():
        good[row] = kernels.crc32(file.read(int(offset[row]), int(length[row]))) == crc32[row]
    if good[-1] and length[-1] == 0:  # the header has its CRC-32, or 0 of the first releases
        expected = kernels.crc32(file.read(4, 8 + 12 * len(crc32)))
        good[-1] = int.from_bytes(file.read(0, 4), "little") in (0, expected)
    return good


def _records(file: File, offset: I64, length: I64) -> Iterator[Record]:
    for start, size in zip(offset.tolist(), length.tolist(), strict=True):
        yield Record(file.read(start, size), start)
