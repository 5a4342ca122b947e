"""The records of chunks of ArrayRecord: where each lies in a block file of all records."""

from __future__ import annotations

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel.containers.arrayrecord.chunks import ROOM, Chunks, Reader, damaged, place_of
from bushel.containers.growing import GrowingArrays
from bushel.filters import FilterError, expand
from bushel.filters.riegeli import KINDS, SIDE, read_number, sides_of
from bushel.kernels import decode_varints
from bushel.storage import Blocks, Side


class Records:
    """The records and the blocks of the chunks so far."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._arrays = reader, GrowingArrays()
        self._position = self._record = self._side = 0
        for name in ("length", "record", "start", "offset", "stored"):
            self._arrays.append(name, np.empty(0, np.int64))
        for name in ("filter", "side"):
            self._arrays.append(name, np.empty(0, np.uint8))
        self._arrays.append("file", np.empty(0, np.int32))
        self._arrays.append("side_end", np.zeros(1, np.int64))

    def add(self, chunks: Chunks) -> None:
        """Add the records of some chunks. Raise FormatError if the lengths of the records of a chunk are damaged."""
        length = self._lengths(chunks)
        ends = self._record + np.cumsum(length)
        self._arrays.append("length", length)
        self._arrays.append("record", ends - length)
        self._record = int(ends[-1])
        last, compressed = chunks.start + chunks.length, chunks.compression > 0
        pieces = np.where(compressed, 1, -(-(chunks.values % ROOM + last - chunks.values) // ROOM))
        pieces[~compressed & (last == chunks.values)] = 0
        if not (total := int(pieces.sum())):
            return
        chunk = np.repeat(np.arange(len(pieces)), pieces)
        # of the piece in its chunk
        number = np.arange(total) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        block = chunks.values[chunk] // ROOM + number
        begin = np.where(number == 0, chunks.values[chunk], block * ROOM)
        end = np.where(compressed[chunk], last[chunk], np.minimum(last[chunk], (block + 1) * ROOM))
        self._add_blocks(begin, end, chunks.compression[chunk], chunks.expanded[chunk])
        self._arrays.share = int(last[-1]) / self._reader.size

    def _add_blocks(self, begin: I64, end: I64, compression: U8, expanded: I64) -> None:
        """Add blocks that lie between these positions."""
        compressed = compression > 0
        offset = place_of(begin)
        stored = np.where(end > begin, place_of(end - 1) + 1 - offset, 0)
        ends = self._position + np.cumsum(np.where(compressed, expanded, stored))
        self._arrays.append("start", np.concatenate([[self._position], ends[:-1]]))
        self._position = int(ends[-1])
        self._arrays.append("file", np.zeros(len(begin), np.int32))
        self._arrays.append("offset", offset)
        self._arrays.append("stored", stored)
        self._arrays.append("filter", compressed.astype(np.uint8))
        self._arrays.append(
            "side", sides_of(compression[compressed], offset[compressed]).reshape(-1)
        )
        side_ends = self._side + np.cumsum(SIDE * compressed.astype(np.int64))
        self._arrays.append("side_end", side_ends)
        self._side = int(side_ends[-1])

    def _lengths(self, chunks: Chunks) -> I64:
        """Return the length of each record. Raise FormatError if they are damaged."""
        many = np.flatnonzero(chunks.records > 1).tolist()
        if not many:
            return chunks.expanded.copy()
        lengths = {}
        for row in many:
            start, records = int(chunks.start[row]), int(chunks.records[row])
            try:
                lengths[row] = self._lengths_of(chunks, row)
            except (ValueError, FilterError) as error:
                raise damaged(self._reader, start, records, error) from error
        return np.concatenate(
            [
                lengths[row] if row in lengths else chunks.expanded[row : row + 1]
                for row in range(len(chunks.records))
            ]
        )

    def _lengths_of(self, chunks: Chunks, row: int) -> I64:
        """Return the lengths of the records of one chunk.

        Raises:
            ValueError, FilterError: They are damaged.
        """
        size, records, expanded = (
            int(chunks.sizes[row]),
            int(chunks.records[row]),
            int(chunks.expanded[row]),
        )
        data, kind = (
            self._reader.read(int(chunks.values[row]) - size, size),
            int(chunks.compression[row]),
        )
        if kind:
            size, at = read_number(data)
            if size > 10 * records:
                raise ValueError(f"the lengths of {records} records are said to take {size} bytes")
            data = expand(KINDS[kind], data[at:], size).tobytes()
        lengths = decode_varints(data)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        if (
            len(lengths) != records
            or total != expanded
            or (lengths < 0).any()
            or (lengths > expanded).any()
        ):
            raise ValueError(f"its {len(lengths)} records have {total} bytes, expected {expanded}")
        if (ends < 0).any():  # their sum has more than 63 bits
            raise ValueError(f"its {len(lengths)} records have more than {expanded} bytes")
        return lengths

    def finish(self) -> tuple[Blocks, I64, I64]:
        """Return the block file of all records, and the offset and the length of each record in it."""
        self._arrays.append("start", np.array([self._position], np.int64))
        arrays = self._arrays.finish()
        side = Side(arrays["side_end"], arrays["side"]) if len(arrays["side"]) else None
        blocks = Blocks(
            arrays["start"],
            arrays["file"],
            arrays["offset"],
            arrays["stored"],
            arrays["filter"],
            ("stored", "riegeli"),
            side,
        )
        return blocks, arrays["record"], arrays["length"]
