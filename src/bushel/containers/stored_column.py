"""Columns of stored bytes: the values or keys of many samples in one buffer, as writers take many samples at once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, U32
from bushel.errors import SpecError
from bushel.kernels import crc32_rows

LARGE = 1 << 14
"""A value of this many bytes or more is written as a piece of its own, which costs less than a copy."""

_HARMLESS = np.zeros(256, np.bool_)
_HARMLESS[
    np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/", np.uint8)
] = True


class StoredColumn(Struct, frozen=True):
    """Stored bytes of one plain field of many samples, or their keys in UTF-8, one after another."""

    data: U8  # uint8[total]
    # int64[n + 1], ascending; the value of sample `i` is `data[offsets[i]:offsets[i + 1]]`
    offsets: I64
    sums: U32 | None = None  # uint32[n], the CRC-32 of each value, or None if they are not known

    @classmethod
    def checked(cls, name: str, data: Any, offsets: Any) -> StoredColumn:
        """Return the column of a field that is given as bytes and offsets.

        Raises:
            SpecError: The offsets are not integers, do not ascend, or are outside the bytes.
        """
        content = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
        try:
            ends = np.ascontiguousarray(offsets)
        except ValueError:  # lists of different lengths
            ends = np.zeros(0)
        if ends.ndim != 1 or not len(ends) or ends.dtype.kind not in "iu":
            raise SpecError(
                f"field {name!r}: offsets must be integers, one more than there are samples"
            )
        ends = ends.astype(np.int64)
        if ends[0] < 0 or ends[-1] > len(content) or bool((ends[1:] < ends[:-1]).any()):
            raise SpecError(
                f"field {name!r}: offsets must ascend from 0 to "
                f"at most {len(content)}, the number of bytes"
            )
        return cls(content, ends)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        return bytes(self.data[self.offsets[row] : self.offsets[row + 1]])

    def rows(self, first: int, last: int) -> StoredColumn:
        """Return the values of samples `first` to `last`, without a copy."""
        sums = self.sums
        if sums is not None:
            sums = sums[first:last]
        return StoredColumn(self.data, self.offsets[first : last + 1], sums)

    @property
    def lengths(self) -> I64:
        """Bytes of each value: int64[n]."""
        return np.diff(self.offsets)

    @property
    def is_large(self) -> bool:
        """Whether the values are large on average."""
        return len(self.content) >= LARGE * max(len(self), 1)

    @property
    def crc32(self) -> U32:
        """The CRC-32 of each value: uint32[n]."""
        if self.sums is None:
            return crc32_rows(self.data, self.offsets)
        return self.sums

    @property
    def pieces(self) -> list[memoryview]:
        """The bytes of each value. Nothing is copied."""
        content, starts = self.data.data, self.offsets.tolist()
        return [content[first:last] for first, last in pairwise(starts)]

    @property
    def values(self) -> list[bytes]:
        """The values as objects of their own."""
        content, ends = self.content.tobytes(), [0, *self.ends.tolist()]
        return [content[first:last] for first, last in pairwise(ends)]

    @property
    def texts(self) -> list[str]:
        """The values as text, as keys are stored."""
        return [value.decode("utf-8", "surrogateescape") for value in self.values]

    def starting_with(self, head: bytes) -> I64:
        """Return the rows of the values that start with these bytes: int64[rows]."""
        rows = np.flatnonzero(self.lengths >= len(head))
        for place, byte in enumerate(head):
            rows = rows[self.data[self.offsets[rows] + place] == byte]
        return rows

    @property
    def ends(self) -> I64:
        """The end of each value, counted from the start of the first one: int64[n]."""
        ends: I64 = self.offsets[1:] - self.offsets[0]
        return ends

    @property
    def harmless(self) -> bool:
        """Whether any container can hold all of these keys.

        They consist of ASCII letters, digits, `-`, `_` but first, and `/` but first or last.
        """
        if not len(self) or int(self.lengths.min()) == 0:
            return not len(self)
        first, last = self.data[self.offsets[:-1]], self.data[self.offsets[1:] - 1]
        refused = np.isin(first, list(b"_/")) | (last == ord("/"))
        return bool(_HARMLESS[self.content].all() and not refused.any())

    @property
    def content(self) -> U8:
        """The bytes of all values."""
        return self.data[self.offsets[0] : self.offsets[-1]]


StoredColumns: TypeAlias = Mapping[str, StoredColumn]
"""The fields of many samples, which all have them."""


class ColumnLimits(Struct, frozen=True):
    """The samples that `ShardWriter.extend` takes in any case: they have all fields, and such keys and values."""

    # bytes of the longest key, which is `StoredColumn.harmless`
    longest_key: int = 4096
    refused_start: bytes = b""  # values that start with it are not among them, unless it is empty


def fitting(ends: I64, room: int | None) -> int:
    """Return the number of samples until a shard is full: those before `room` is filled, and the one that fills it.

    Args:
        ends: int64[n], bytes of the shard after each sample, counted from where it ends now.
        room: Bytes until the shard is full, or None for no limit.
    """
    if room is None:
        return len(ends)
    return min(len(ends), int(np.searchsorted(ends, room)) + 1)
