"""New checksums of ffrecord files whose records are erased: of the records, and of the header."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel._index.table import Shard, ShardIndex
from bushel.containers.erasing import Eraser
from bushel.errors import FormatError
from bushel.storage import open_file


def _seal(shard: Shard, index: ShardIndex, samples: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, bytes]]:
    """Do what `Eraser.seal` says. The checksum of the header is not trusted: a killed process may not have written it.

    Raises:
        FormatError: The header does not fit the file.
    """
    file = open_file(shard.path(0))
    count = int.from_bytes(file.read(4, 8), "little", signed=True)
    if not index.samples <= count <= (file.size - 12) // 12:
        raise FormatError(f"the header counts {count} records for {index.samples} samples", file=file.path, offset=4)
    start = file.read(0, 12 + 12 * count)
    known = int.from_bytes(start[:4], "little")
    crc32 = np.frombuffer(start, "<u4", count, 12).copy()
    offset = np.frombuffer(start, "<i8", count, 12 + 4 * count).astype(np.int64)
    length = np.diff(offset, append=np.int64(file.size))
    fields = [(own, own.rows_of(samples)) for own in index.fields.values()]
    ends = [np.cumsum(counts) for _, (_, counts) in fields]
    for number, sample in enumerate(samples.tolist()):
        first = int(offset[sample])
        record = bytearray(file.read(first, int(length[sample])))
        for (column, (rows, counts)), end in zip(fields, ends, strict=True):
            for row in rows[end[number] - counts[number] : end[number]].tolist():
                at, size = int(column.offset[row]) - first, int(column.length[row])
                if size > 0:
                    if not 0 <= at <= len(record) - size:
                        raise FormatError("a value is not inside its record", file=file.path, offset=first + at)
                    record[at : at + size] = bytes(size)
        crc32[sample] = kernels.crc32(record)
    table = crc32.tobytes()
    yield 0, 12, table
    if known:  # the first releases of FFRecord wrote 0
        yield 0, 0, kernels.crc32(start[4:12] + table + start[12 + 4 * count :]).to_bytes(4, "little")


ERASER = Eraser(seal=_seal)
