"""Codec `tenbin`: the lists of arrays of WebDataset's `.ten` members.

A file is a sequence of chunks, each the magic word `~TenBin~`, an i64 length, and that many bytes padded to a multiple
of 64. An array is two chunks: a header of i64 words (dtype code, eight free bytes, rank, sizes) and the data in C
order. The format leaves the byte order to the machine; Bushel reads and writes little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bushel.codecs.arrays import Array, array_from, as_array
from bushel.codecs.base import Buffer, Factory, codec_error, describe, found_bytes, plain

__all__ = ["FACTORIES"]

_MAGIC = b"~TenBin~"
_ALIGNMENT = 64
_MAX_RANK = 9
_CODES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def _chunk(data: bytes) -> bytes:
    return _MAGIC + struct.pack("<q", len(data)) + data + bytes(-len(data) % _ALIGNMENT)


def _encode(value: Any) -> bytes:
    chunks = []
    for item in value if isinstance(value, list) else [value]:
        array = as_array("tenbin", item)
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        # The original cannot write or read u4, because of a misspelt name in its table.
        if code not in _CODES or code == "u4" or array.ndim > _MAX_RANK:
            raise codec_error("tenbin", "arrays of 16 to 64 bit numbers (no uint32, bool or complex)", describe(array))
        words = struct.pack(f"<8s8sq{array.ndim}q", code.encode(), b"", array.ndim, *array.shape)
        chunks += [_chunk(words), _chunk(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())]
    return b"".join(chunks)


def _chunks(view: memoryview) -> Iterator[memoryview]:
    offset = 0
    while offset < len(view):
        if view[offset : offset + 8] != _MAGIC or offset + 16 > len(view):
            raise codec_error("tenbin", f"a chunk at byte {offset}", found_bytes(view[offset : offset + 16]))
        length = struct.unpack_from("<q", view, offset + 8)[0]
        offset += 16
        if not 0 <= length <= len(view) - offset:
            raise codec_error("tenbin", f"a chunk of at most {len(view) - offset} bytes", f"a length of {length}")
        yield view[offset : offset + length]
        offset += length + -length % _ALIGNMENT


def _array(header: memoryview, data: memoryview) -> Array:
    if len(header) < 24 or len(header) % 8:
        raise codec_error("tenbin", "a header of at least three 8-byte words", found_bytes(header))
    code = bytes(header[:8]).rstrip(b"\0").decode("latin-1")
    rank, *shape = struct.unpack(f"<{len(header) // 8 - 2}q", header[16:])
    if code not in _CODES or rank != len(shape):
        raise codec_error("tenbin", "a header of dtype, info, rank and sizes", found_bytes(header))
    return array_from("tenbin", np.dtype(f"<{code}"), shape, data)


def _decode(data: Buffer) -> list[Array]:
    chunks = list(_chunks(memoryview(data)))
    if len(chunks) % 2:
        raise codec_error("tenbin", "header and data chunks in pairs", f"{len(chunks)} chunks")
    return [_array(header, content) for header, content in zip(chunks[::2], chunks[1::2], strict=True)]


FACTORIES: Mapping[str, Factory] = {"tenbin": plain(_encode, _decode)}
