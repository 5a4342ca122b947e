"""The compact protocol of Thrift, in which Parquet writes its footer and the headers of pages.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md. Structs become
dicts by the numbers of their fields, since Parquet's definition gives the numbers their meaning.
Lengths and depths are checked before use, so a forged struct costs no more memory than a few times
its bytes.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

ThriftStruct: TypeAlias = dict[int, Any]
"""The values of a struct by the numbers of their fields: bool, int, float, bytes, list or another struct."""

_DEEPEST = 32
_MOST_NUMBER = 1000  # of a field: Parquet has some 20 in a struct
_ENOUGH_PARTS, _BYTES_PER_PART = 1 << 20, 3
"""Structs and elements of lists that some bytes may have in any case, and the least bytes for each of more. A footer
has 5 to 8 for each; an empty struct takes 1 byte there, and 70 in memory."""
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)


class ThriftError(ValueError):
    """The bytes are not a struct of the compact protocol.

    Attributes:
        offset: Offset in the bytes at which they are not.
    """

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


def read_struct(data: bytes | memoryview) -> tuple[ThriftStruct, int]:
    """Read the struct at the beginning of some bytes.

    Returns:
        The struct, and the offset after it.

    Raises:
        ThriftError: The bytes are damaged or end too early.
    """
    reader = _Reader(data)
    return reader.struct(0), reader.at


class _Reader:
    """Reads values one after another."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self.at = data, 0
        self._left = max(_ENOUGH_PARTS, len(data) // _BYTES_PER_PART)

    def struct(self, depth: int) -> ThriftStruct:
        """Read a struct."""
        if depth > _DEEPEST:
            raise ThriftError(f"structs are nested more than {_DEEPEST} deep", self.at)
        self._count(1)
        members: ThriftStruct = {}
        number = 0
        while (head := self._byte()) & 0x0F != _STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number > _MOST_NUMBER:
                raise ThriftError(
                    f"a field has number {number}, which Parquet does not use", self.at
                )
            members[number] = self._value(head & 0x0F, depth)
        return members

    def _count(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            message = (
                f"more structs and elements of lists than {len(self._data)} bytes of Parquet have"
            )
            raise ThriftError(message, self.at)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == _BINARY:
            return bytes(self._take(self._varint()))
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ThriftError(f"a field has type {kind}, which Parquet does not use", self.at)

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._varint()
        if size > len(self._data) - self.at:  # each element has one byte or more
            raise ThriftError(
                f"a list of {size} elements in {len(self._data) - self.at} bytes", self.at
            )
        self._count(size)
        if kind in (_TRUE, _FALSE):
            return [byte == _TRUE for byte in self._take(size)]
        if depth >= _DEEPEST:
            raise ThriftError(f"lists are nested more than {_DEEPEST} deep", self.at)
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ThriftError("the bytes end inside a struct", self.at)
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _take(self, size: int) -> bytes | memoryview:
        if size > len(self._data) - self.at:
            raise ThriftError(
                f"{size} bytes are announced where {len(self._data) - self.at} are left", self.at
            )
        taken = self._data[self.at : self.at + size]
        self.at += size
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ThriftError("a number has more than 64 bits", self.at)

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
