"""Tables of FlatBuffers (https://flatbuffers.dev/internals/), as far as the metadata of Arrow needs them.

Every position is checked against the bytes, so forged metadata ends in a `ValueError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table in a buffer."""

    data: memoryview
    at: int

    def _place(self, field: int) -> int:
        """Return where the value of a field lies, or 0 for a field that is not stored."""
        vtable = self.at - _number(self.data, self.at, "<i")
        size = _number(self.data, vtable, "<H")
        slot = 4 + 2 * field
        if slot + 2 > size:
            return 0
        offset = _number(self.data, vtable + slot, "<H")
        return self.at + offset if offset else 0

    def number(self, field: int, layout: str, default: int = 0) -> int:
        """Return a number; `layout` is its format in `struct`."""
        place = self._place(field)
        return _number(self.data, place, layout) if place else default

    def table(self, field: int) -> FlatTable | None:
        """Return a table, or None if it is not stored."""
        place = self._place(field)
        if place:
            return FlatTable(self.data, place + _number(self.data, place, "<I"))
        return None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        place = self._place(field)
        if not place:
            return 0, 0
        start = place + _number(self.data, place, "<I")
        count = _number(self.data, start, "<I")
        if start + 4 + count * width > len(self.data):
            raise ValueError(
                f"a vector of {count} elements does not fit into {len(self.data)} bytes"
            )
        return start + 4, count

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables."""
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * count, 4)
        return [FlatTable(self.data, place + _number(self.data, place, "<I")) for place in places]

    def structs(self, field: int, layout: str) -> list[tuple[int, ...]]:
        """Return a vector of structs; `layout` is the format of one for `struct`."""
        width = struct.calcsize(layout)
        start, count = self._vector(field, width)
        if count:
            return list(struct.iter_unpack(layout, self.data[start : start + count * width]))
        return []

    def text(self, field: int) -> str | None:
        """Return a string, or None if it is not stored. Raise UnicodeDecodeError if it is not UTF-8."""
        if not self._place(field):
            return None
        start, count = self._vector(field, 1)
        return str(self.data[start : start + count], "utf-8")


def root_of(data: memoryview) -> FlatTable:
    """Return the root table of a buffer."""
    return FlatTable(data, _number(data, 0, "<I"))


def _number(data: memoryview, at: int, layout: str) -> int:
    if at < 0 or at + struct.calcsize(layout) > len(data):
        raise ValueError(f"position {at} is outside {len(data)} bytes of metadata")
    number: int = struct.unpack_from(layout, data, at)[0]
    return number
