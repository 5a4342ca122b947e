"""Samples of several fields in containers whose records are plain bytes (ffrecord, recordio).

A record is one msgpack map: `__key__` first (str, or nil in a dataset without keys), then a bin per
field, or an array of bins for a sequence field. A field that a sample lacks has no entry. Any
msgpack library reads such records; Bushel only needs the extents of the values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from bushel._runtime.structs import Struct
from bushel.containers.base import Stored
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY, Field

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY_ENTRY = bytes([0xA0 | len(KEY)]) + KEY.encode()
_NIL = b"\xc0"
_LIMIT = 2**32 - 1


class Packed(Struct, frozen=True):
    """A sample encoded as a record."""

    pieces: list[Buffer]  # the record's bytes, in pieces so that values are not copied
    size: int  # size of the record in bytes
    # for each value: field name, offset in the record, bytes; elements of a list follow each other
    values: list[tuple[str, int, Buffer]]


def encode(key: str | None, fields: Iterable[Field], values: Mapping[str, Stored]) -> Packed:
    """Encode one sample as a record.

    Args:
        key: The sample's key, or None in a dataset without keys.
        fields: All fields of the dataset, in order.
        values: Stored bytes of the fields that the sample has.

    Raises:
        SpecError: A value is longer than 4 GiB, the limit of msgpack.
    """
    present = [field for field in fields if field.name in values]
    head = _head(0x80, 16, b"", b"\xde", b"\xdf", len(present) + 1) + _KEY_ENTRY
    head += _NIL if key is None else _text(key)
    pieces: list[Buffer] = []
    placed: list[tuple[str, int, Buffer]] = []
    at = 0
    for field in present:
        stored = values[field.name]
        head += _name(field.name)
        elements: Sequence[Buffer] = [cast("Buffer", stored)]
        if field.sequence:
            elements = list(cast("Iterable[Buffer]", stored))
            head += _head(0x90, 16, b"", b"\xdc", b"\xdd", len(elements))
        for element in elements:
            if type(element) is bytes:
                size = len(element)
            else:
                size = memoryview(element).nbytes
            if size > _LIMIT:
                raise SpecError(
                    f"field {field.name!r}: {size} bytes exceed the limit of msgpack, {_LIMIT}"
                )
            head += _head(0, 0, b"\xc4", b"\xc5", b"\xc6", size)
            placed.append((field.name, at + len(head), element))
            pieces += [head, element]
            at += len(head) + size
            head = b""
    if head:
        pieces.append(head)
    return Packed(pieces, at + len(head), placed)


def is_packed_map(record: Buffer) -> bool:
    """Return whether a record starts like one of `encode`. The first 16 bytes suffice."""
    view = memoryview(record)
    width = {0xDE: 3, 0xDF: 5}.get(view[0], 1) if len(view) else 0
    is_map = len(view) > width and (view[0] & 0xF0 == 0x80 or width > 1)
    return is_map and bytes(view[width : width + len(_KEY_ENTRY)]) == _KEY_ENTRY


def locate(record: Buffer) -> tuple[str | None, dict[str, tuple[int, int] | list[tuple[int, int]]]]:
    """Find the values of a record without decoding them.

    Returns:
        The key, and for each field (offset, length) in the record; for a sequence field, a list of
        these.

    Raises:
        FormatError: The record was not made by `encode`. The offset in the error counts from the
            start of the record.
    """
    cursor = _Cursor(memoryview(record).cast("B"))
    entries = cursor.count(0x80, 16, 0xDE, "a map")
    if entries == 0 or cursor.text() != KEY:
        raise FormatError(f"expected a packed sample to start with {KEY!r}", offset=0)
    key = None if cursor.skip_nil() else cursor.text()
    values: dict[str, tuple[int, int] | list[tuple[int, int]]] = {}
    for _ in range(entries - 1):
        name = cursor.name()
        if name in values or name == KEY:
            raise FormatError(f"the field {name!r} appears twice in one sample", offset=cursor.at)
        if cursor.peek() in (0xC4, 0xC5, 0xC6):
            values[name] = cursor.extent()
        else:
            elements = cursor.count(0x90, 16, 0xDC, "bytes or an array of bytes")
            values[name] = [cursor.extent() for _ in range(elements)]
    if cursor.at != len(cursor.view):
        raise FormatError(
            f"{len(cursor.view) - cursor.at} bytes after the end of a packed sample",
            offset=cursor.at,
        )
    return key, values


class _Cursor:
    """Reads the few msgpack types that packed samples consist of."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.at = view, 0

    def peek(self) -> int:
        if self.at >= len(self.view):
            raise FormatError("a packed sample is truncated", offset=self.at)
        return self.view[self.at]

    def skip_nil(self) -> bool:
        if self.peek() != _NIL[0]:
            return False
        self.at += 1
        return True

    def number(self, width: int) -> int:
        self.at += 1
        raw = self.view[self.at : self.at + width]
        self.at += width
        if len(raw) != width:
            raise FormatError("a packed sample is truncated", offset=len(self.view))
        return int.from_bytes(raw, "big")

    def count(self, fixed: int, below: int, wide: int, what: str) -> int:
        """Return the number of entries of a map or an array. Each entry needs at least one byte."""
        kind = self.peek()
        if fixed <= kind < fixed + below:
            self.at += 1
            entries = kind - fixed
        elif kind in (wide, wide + 1):
            entries = self.number(2 if kind == wide else 4)
        else:
            raise FormatError(
                f"expected {what}, found the msgpack type 0x{kind:02x}", offset=self.at
            )
        if entries > len(self.view) - self.at:
            raise FormatError("a packed sample is truncated", offset=len(self.view))
        return entries

    def extent(self) -> tuple[int, int]:
        kind = self.peek()
        if not 0xC4 <= kind <= 0xC6:
            raise FormatError(
                f"expected bytes, found the msgpack type 0x{kind:02x}", offset=self.at
            )
        return self.take(self.number(1 << (kind - 0xC4)))

    def text(self) -> str:
        kind = self.peek()
        if 0xA0 <= kind < 0xC0:
            self.at += 1
            start, length = self.take(kind - 0xA0)
        elif 0xD9 <= kind <= 0xDB:
            start, length = self.take(self.number(1 << (kind - 0xD9)))
        else:
            raise FormatError(f"expected text, found the msgpack type 0x{kind:02x}", offset=self.at)
        return bytes(self.view[start : start + length]).decode("utf-8", "surrogateescape")

    def name(self) -> str:
        """Return the name of a field. It must be UTF-8, unlike a key: no writer makes another."""
        start = self.at
        text = self.text()
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise FormatError(
                    f"the name of a field is not UTF-8: {text!r}", offset=start
                ) from error
        return text

    def take(self, length: int) -> tuple[int, int]:
        start = self.at
        if length > len(self.view) - start:
            raise FormatError(
                f"the end of a packed sample truncates a value of {length} bytes", offset=start
            )
        self.at += length
        return start, length


def _head(fixed: int, below: int, byte: bytes, short: bytes, long: bytes, count: int) -> bytes:
    """Return the head of a msgpack object: the count in the type byte itself, or after it in 1, 2 or 4 bytes."""
    if count < below:
        return bytes([fixed | count])
    if byte and count < 1 << 8:
        return byte + bytes([count])
    if count < 1 << 16:
        return short + struct.pack(">H", count)
    return long + struct.pack(">I", count)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return _head(0xA0, 32, b"\xd9", b"\xda", b"\xdb", len(raw)) + raw


@lru_cache(256)
def _name(name: str) -> bytes:
    """Return the name of a field as `_text` does, which every sample has."""
    return _text(name)
