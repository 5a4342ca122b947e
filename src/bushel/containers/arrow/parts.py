"""The parts of columns in record batches: which buffers belong to which column, their contents and their types."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Bools, truths_of
from bushel.containers.features import Tensor
from bushel.filters import expand
from bushel.storage import File
from bushel.storage.blocks import BlockList

from .messages import Batch, Column, Type

_LARGE = (Type.LARGE_BINARY, Type.LARGE_UTF8, Type.LARGE_LIST)
_SHORT = 12  # bytes of the longest value that is in its view
_FLOATS = ("<f2", "<f4", "<f8")
_WHOLE = (Type.INT, Type.DATE, Type.TIME, Type.TIMESTAMP, Type.INTERVAL, Type.DURATION)


class Part(Struct, frozen=True):
    """The part of a column, or of a child of one, in a record batch."""

    file: File
    column: Column
    rows: int  # number of its values
    nulls: int  # number of nulls among them
    buffers: tuple[tuple[int, int], ...]  # where its own buffers are, and their lengths
    codec: str | None  # the filter that they are compressed with, or None
    children: tuple[Part, ...]

    def raw(self, number: int) -> bytes:
        """Return the bytes of a buffer.

        Raises:
            FilterError, ValueError: It is damaged.
        """
        offset, length, size, codec = self._stored(number)
        stored = self.file.read(offset, length)
        if codec == "stored":
            return stored
        return expand(codec, stored, size).tobytes()

    def place(self, number: int, made: BlockList | None) -> tuple[int, int]:
        """Return where the bytes of a buffer begin, in the file or in a block file that gets them, and how many.

        Raises:
            ValueError: It is damaged.
        """
        offset, length, size, codec = self._stored(number)
        if made is not None:
            return made.add(offset, length, size, codec), size
        if codec != "stored":
            raise ValueError("a dictionary is compressed, and the batches are not")
        return offset, size

    def _stored(self, number: int) -> tuple[int, int, int, str]:
        """Return where the stored bytes of a buffer are, how many, how many they expand to, and the filter."""
        offset, length = self.buffers[number]
        if self.codec is None or not length:
            return offset, length, length, "stored"
        if length < 8:
            raise ValueError(f"a compressed buffer has {length} bytes")
        size = int.from_bytes(self.file.read(offset, 8), "little", signed=True)
        if size < -1:
            raise ValueError(f"a compressed buffer expands to {size} bytes")
        if size < 0:  # it is not compressed
            return offset + 8, length - 8, length - 8, "stored"
        return offset + 8, length - 8, size, self.codec

    def valid(self) -> Bools:
        """Return bool[rows], which values are there.

        Raises:
            FilterError, ValueError: The buffer is damaged.
        """
        bits = self.raw(0) if self.nulls else b""
        if not bits:
            return np.ones(self.rows, np.bool_)
        return truths_of(bits, self.rows)

    def offsets(self) -> I64:
        """Return int64[rows + 1], where each value begins in what follows.

        Raises:
            FilterError, ValueError: They do not ascend.
        """
        dtype = np.dtype("<i8" if self.column.type in _LARGE else "<i4")
        offsets = array_of(self.raw(1), self.rows + 1 if self.rows else 0, dtype).astype(np.int64)
        if not self.rows:
            return np.zeros(1, np.int64)
        if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
            raise ValueError("offsets do not ascend from 0")
        return offsets


def array_of(data: bytes, count: int, dtype: np.dtype[np.generic]) -> np.ndarray:
    """Return the numbers of a buffer, which may be padded. Raise ValueError if it is too short."""
    if count * dtype.itemsize > len(data):
        raise ValueError(
            f"{count} numbers of {dtype.itemsize} bytes are announced in {len(data)} bytes"
        )
    return np.frombuffer(data, dtype, count)


def parts_of(file: File, columns: tuple[Column, ...], batch: Batch) -> list[Part]:
    """Return the parts of the columns in a batch. Raise ValueError if the batch has too few buffers."""
    nodes, buffers, views = iter(batch.nodes), iter(batch.buffers), iter(batch.views)
    return [_part(file, column, batch.codec, nodes, buffers, views) for column in columns]


def _part(
    file: File,
    column: Column,
    codec: str | None,
    nodes: Iterator[tuple[int, ...]],
    buffers: Iterator[tuple[int, int]],
    views: Iterator[int],
) -> Part:
    node = next(nodes, None)
    count = column.buffers
    if count is None:
        more = next(views, -1)
        if not 0 <= more <= 1 << 20:
            raise ValueError("a column of views has no number of buffers")
        count = 2 + more
    part_buffers = tuple(islice(buffers, count))
    if node is None or len(part_buffers) < count:
        raise ValueError("a batch has too few nodes or buffers for its schema")
    inner = tuple(_part(file, child, codec, nodes, buffers, views) for child in column.children)
    rows, nulls = node
    return Part(file, column, rows, nulls, part_buffers, codec, inner)


def bytes_of(part: Part, made: BlockList | None) -> tuple[I64, I64]:
    """Return offset and length of the values of a column of binaries or texts; -1 is the length of a null.

    A struct of bytes and path has the values of its bytes.

    Raises:
        FilterError, ValueError: The part is damaged.
    """
    if part.column.type == Type.STRUCT:
        inner = next(child for child in part.children if child.column.name == "bytes")
        if inner.rows != part.rows:
            raise ValueError(f"a struct of {part.rows} rows has {inner.rows} values")
        offset, length = bytes_of(inner, made)
        length[~part.valid()] = -1
        return offset, length
    valid = part.valid()
    if part.column.type in (Type.BINARY_VIEW, Type.UTF8_VIEW):
        return _of_views(part, made, valid)
    if part.column.type == Type.FIXED_BINARY:
        width = part.column.width
        base, size = part.place(1, made)
        starts = np.arange(part.rows + 1) * width
        if width < 0 or part.rows * width > size:
            raise ValueError(f"{part.rows} values of {width} bytes are announced in {size} bytes")
    else:
        starts = part.offsets()
        base, size = part.place(2, made)
        if int(starts[-1]) > size:
            raise ValueError(f"values end at {int(starts[-1])} of a buffer of {size} bytes")
    length = np.diff(starts)
    length[~valid] = -1
    return base + starts[:-1], length


def _of_views(part: Part, blocks: BlockList | None, valid: Bools) -> tuple[I64, I64]:
    """Return where the values of views are: short ones in the views themselves, the others in further buffers."""
    views = array_of(part.raw(1), part.rows * 4, np.dtype("<i4")).astype(np.int64).reshape(-1, 4)
    places = [part.place(number, blocks) for number in range(1, len(part.buffers))]
    base, size = np.array(places, np.int64).T
    length = np.where(valid, views[:, 0], 0)
    short = length <= _SHORT
    buffer = np.where(short, 0, views[:, 2] + 1)
    start = np.where(short, np.arange(part.rows) * 16 + 4, views[:, 3])
    inside = (length >= 0) & (start >= 0) & (short | (buffer > 0)) & (buffer < len(places))
    buffer[~inside] = 0
    inside &= (start + length <= size[buffer]) | (length == 0)
    if not inside.all():
        row = int((~inside).argmax())
        raise ValueError(
            f"the view of value {row} is of {length[row]} "
            f"bytes that its {len(places) - 1} buffers lack"
        )
    length[~valid] = -1
    return base[buffer] + start, length


def lists_of(part: Part) -> tuple[I64, I64, Bools]:
    """Return the first element of each list, as its number in the child, how many it has, and which lists are there.

    Raises:
        FilterError, ValueError: The part is damaged.
    """
    valid, rows = part.valid(), part.rows
    if part.column.type == Type.FIXED_LIST:
        starts = np.arange(rows + 1) * part.column.width
    else:
        starts = part.offsets()
    if part.column.width < 0 or int(starts[-1]) > part.children[0].rows:
        raise ValueError(f"lists end at {int(starts[-1])} of {part.children[0].rows} elements")
    counts = np.where(valid, np.diff(starts), 0)
    return starts[:-1], counts, valid


def dtype_of(column: Column) -> np.dtype[np.generic] | None:
    """Return the dtype of a column of numbers, or None for other columns."""
    if column.type == Type.FLOAT and 0 <= column.width < len(_FLOATS):
        return np.dtype(_FLOATS[column.width])
    if column.type in _WHOLE and column.width in (8, 16, 32, 64):
        sign = "i" if column.signed or column.type != Type.INT else "u"
        return np.dtype(f"<{sign}{column.width // 8}")
    return None


def numbers_of(part: Part) -> np.ndarray:
    """Return the numbers or truth values of a column; the values of nulls are meaningless.

    Raises:
        FilterError, ValueError: The part is damaged.
    """
    if part.column.type == Type.BOOL:
        return truths_of(part.raw(1), part.rows)
    dtype = dtype_of(part.column)
    if dtype is None:
        raise ValueError(f"a column of type {part.column.type} has no numbers")
    return array_of(part.raw(1), part.rows, dtype)


_NAME, _METADATA = "ARROW:extension:name", "ARROW:extension:metadata"
_DURATIONS = (Type.TIME, Type.DURATION, Type.INTERVAL)


def time_codec(column: Column) -> str | None:
    """Return the codec of a column of times, such as `datetime64(us)`; None for other columns."""
    if not column.unit:
        return None
    if column.type in _DURATIONS:
        return f"timedelta64({column.unit})"
    return f"datetime64({column.unit})"


def holds_json(column: Column) -> bool:
    """Return whether the texts of a column are JSON."""
    return column.metadata.get(_NAME) == "arrow.json"


def tensor_of(column: Column) -> Tensor | None:
    """Return the shape of the tensors of a column; None for other columns.

    Raises:
        ValueError: It contradicts the size of the lists.
    """
    if column.metadata.get(_NAME) != "arrow.fixed_shape_tensor" or column.type != Type.FIXED_LIST:
        return None
    described = json.loads(column.metadata.get(_METADATA, ""))
    shape = described.get("shape") if isinstance(described, dict) else None
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"column {column.name!r} has tensors of the shape {shape!r:.100}")
    axes = described.get("permutation") or list(range(len(shape)))
    if (
        math.prod(shape) != column.width
        or not shape
        or sorted(map(str, axes)) != sorted(map(str, range(len(shape))))
    ):
        raise ValueError(
            f"column {column.name!r} has tensors of the shape {shape}, in lists of {column.width}"
        )
    return Tensor(tuple(shape), tuple(map(int, axes)))
