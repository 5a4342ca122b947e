"""ArrayRecord files, written by hand. Their hashes are zeros."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cramjam
from tests.containers.tfrecords import varint

__all__ = ["BLOCK", "COMPRESS", "ROOM", "array_record", "chunk"]

BLOCK, ROOM = 1 << 16, (1 << 16) - 24
COMPRESS = {
    "z": lambda data: bytes(cramjam.zstd.compress(data)),
    "b": lambda data: bytes(cramjam.brotli.compress(data)),
    "s": lambda data: bytes(cramjam.snappy.compress_raw(data)),
}


def chunk(records: Sequence[bytes], kind: str = "", *, type: str = "r", expanded: int | None = None) -> bytes:
    """Return a chunk: its header and its data, in which nothing is interrupted."""
    sizes, values = b"".join(varint(len(record)) for record in records), b"".join(records)
    total = len(values) if expanded is None else expanded
    if kind:
        sizes = varint(len(sizes)) + COMPRESS[kind](sizes)
        values = varint(len(values)) + COMPRESS[kind](values)
    data = (kind or "\0").encode() + varint(len(sizes)) + sizes + values
    header = struct.pack("<QQQQQ", 0, len(data), 0, ord(type) | len(records) << 8, total)
    return header + data + bytes(max(0, len(records) - len(data)))


def array_record(chunks: Sequence[bytes], *, magic: int = 0x71930E704FDAE05E, footer: int | None = None) -> bytes:
    """Return a file of these chunks."""
    body = struct.pack("<QQQQQ", 0, 0, 0, ord("s"), 0) + b"".join(chunks)
    block, inside = divmod(len(body), ROOM)
    at = block * BLOCK + (24 + inside if inside else 0) if footer is None else footer
    body += chunk([b"footer"])
    body += bytes(-len(body) % ROOM)
    mark = b"\x08" + varint(at) + b"\x10" + varint(magic)
    body += chunk([mark] * 3)
    body += bytes(-len(body) % ROOM)
    return b"".join(bytes(24) + body[start : start + ROOM] for start in range(0, len(body), ROOM))
