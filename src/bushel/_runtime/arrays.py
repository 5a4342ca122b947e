"""Types of arrays, values that follow one another, arrays that grow, and tensors of other libraries.

Those libraries are not imported. Arrays that grow are in memory while they are small, then in a
temporary file.
"""

from __future__ import annotations

import operator
import os
import sys
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bools = npt.NDArray[np.bool_]
    F32 = npt.NDArray[np.float32]
    F64 = npt.NDArray[np.float64]
    I32 = npt.NDArray[np.int32]
    I64 = npt.NDArray[np.int64]
    U8 = npt.NDArray[np.uint8]
    U32 = npt.NDArray[np.uint32]
    U64 = npt.NDArray[np.uint64]
else:  # numpy.typing takes longer to import than most modules of Bushel
    Array = Bools = F32 = F64 = I32 = I64 = U8 = U32 = U64 = np.ndarray

T = TypeVar("T")
NO_NUMBERS: I64 = np.zeros(0, np.int64)


class LazySequence(Sequence[T]):
    """A sequence whose elements are made when they are asked for. A slice is a list of them."""

    __slots__ = ()

    @abstractmethod
    def _made(self, numbers: range) -> list[T]:
        """Return the elements of these numbers."""

    @overload
    def __getitem__(self, item: int) -> T: ...
    @overload
    def __getitem__(self, item: slice) -> list[T]: ...

    def __getitem__(self, item: int | slice) -> T | list[T]:
        count = len(self)
        if isinstance(item, slice):
            return self._made(range(*item.indices(count)))
        number = operator.index(item)
        if not -count <= number < count:
            raise IndexError(f"position {number} is out of range: the length is {count}")
        [element] = self._made(range(number % count, number % count + 1))
        return element


def python_numbers(value: Any) -> Any:
    """Return a number or bool of NumPy, also within dicts, tuples and lists, as Python's; others as they are."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(map(python_numbers, value))
    if isinstance(value, dict):
        return {python_numbers(name): python_numbers(number) for name, number in value.items()}
    return value


def offsets_of(lengths: Iterable[int] | npt.NDArray[np.generic]) -> I64:
    """Return the offset of each of some values that follow one another, and the end of the last one: int64[n + 1]."""
    if isinstance(lengths, np.ndarray):
        sizes = lengths
    else:
        sizes = np.fromiter(lengths, np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def total_of(lengths: I64) -> int:
    """Return the sum of lengths; -1, the length of a missing value, counts as 0."""
    return int(np.maximum(lengths, 0).sum())


def truths_of(bits: bytes | memoryview, count: int) -> Bools:
    """Return bool[count], the first of some bits, each byte from its lowest on. Raise ValueError if there are fewer."""
    if len(bits) * 8 < count:
        raise ValueError(f"{count} truth values are announced in {len(bits)} bytes")
    data = np.frombuffer(bits, np.uint8)
    return np.unpackbits(data, count=count, bitorder="little").view(np.bool_)


def ranges(first: I64, counts: I64) -> I64:
    """Return as many numbers as `counts` says from each of `first` on, one range after another: int64[total]."""
    ends = np.cumsum(counts)
    numbers = np.repeat(first - (ends - counts), counts)
    numbers += np.arange(len(numbers))
    return numbers


def concatenated(arrays: Iterable[Array], dtype: npt.DTypeLike) -> Array:
    """Return arrays as one of a type; an empty one without any."""
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def equal_places(ascending: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> tuple[I64, I64]:
    """Return the pairs of equal numbers: their places in ascending numbers, and in others, in the order of these."""
    first = np.searchsorted(ascending, numbers, side="left")
    counts = np.searchsorted(ascending, numbers, side="right") - first
    return ranges(first, counts), np.repeat(np.arange(len(numbers)), counts)


def selected(array: npt.NDArray[Any] | None, rows: Any) -> npt.NDArray[Any] | None:
    """Return some rows of an array; None without an array."""
    if array is None:
        return None
    chosen: npt.NDArray[Any] = array[rows]
    return chosen


def if_any(truths: Bools | None) -> Bools | None:
    """Return truth values, or None if none of them is true."""
    if truths is None or not truths.any():
        return None
    return truths


def batches_of(lengths: I64, most: int) -> Iterator[slice]:
    """Yield the rows of values that follow one another, about `most` bytes at a time."""
    batch = np.cumsum(lengths) // most
    borders = np.flatnonzero(np.diff(batch, prepend=-1, append=-1)).tolist()
    yield from map(slice, borders, borders[1:])


def chunks(numbers: range, size: int) -> Iterator[range]:
    """Yield the numbers of a range, some at a time."""
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


def joined(values: Sequence[bytes]) -> tuple[U8, I64]:
    """Return the bytes of values one after another, and their offsets: int64[n + 1]."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return np.frombuffer(b"".join(values), np.uint8), offsets_of(lengths)


def check_count(
    name: str, value: Any, *, least: int = 0, most: int | None = None, instead: str = ""
) -> int:
    """Return a whole number that a user gave.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is out of its range.
    """
    expected = f"a whole number from {least}{'' if most is None else f' to {most}'}{instead}"
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r}: expected {expected}")
    number = operator.index(value)
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name}={value!r}: expected {expected}")
    return number


def refuse_bools(**options: Any) -> None:
    """Raise a TypeError if an option that is a number, or contains numbers, is True or False."""
    for name, value in options.items():
        numbers = value if isinstance(value, list | tuple) else (value,)
        if {bool, np.bool_} & set(map(type, numbers)):
            raise TypeError(f"{name}={value!r}: expected numbers, not True or False")


NO_TENSORS = frozenset(
    {np.ndarray, str, bytes, memoryview, bool, int, float, complex, list, tuple, dict, type(None)}
)
"""Types of values that `as_array` returns as they are."""

_CPU = 1  # DLPack's number for memory of the host
_NAMED_ALIKE = frozenset(
    ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
    + ["float16", "float32", "float64", "complex64", "complex128"]
)


def as_array(value: Any) -> Any:
    """Return a tensor as an array that shares its memory, and every other value as it is.

    A tensor has a shape, a type and `__array__` or DLPack, as in torch (which are detached from
    their graph), JAX and TensorFlow have. Tensors in the memory of a device, and of types that
    NumPy lacks, such as torch's bfloat16, stay tensors.
    """
    if type(value) in NO_TENSORS or isinstance(value, np.ndarray | np.generic):
        return value
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    if is_torch(value):
        name = str(value.dtype).removeprefix("torch.")
        is_dense = value.device.type == "cpu" and str(value.layout) == "torch.strided"
        if not is_dense or name not in _NAMED_ALIKE:
            return value
        return value.detach().resolve_conj().resolve_neg().numpy()
    if hasattr(value, "__array__") and not hasattr(value, "__cuda_array_interface__"):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__") and value.__dlpack_device__()[0] == _CPU:
        array = np.from_dlpack(value)
    else:
        return value
    return value if array.dtype.kind in "OUS" else array


def is_torch(value: Any) -> bool:
    """Return whether a value is a tensor of torch, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


# bytes that are kept in memory before they are written to a file: a dataset may have a hundred of
# such tables
_IN_MEMORY = 256 << 10
# bytes that are reserved at a time, for an array and for all: finding room for each page takes
# longer than copying it
_RESERVED, _ALL_RESERVED = 2 << 20, 256 << 20
_SPARE = 1.1  # factor by which an array gets more room than its share so far suggests
_LEAST_SHARE = 1e-6
_COPY = 1 << 20
_ALIGNMENT = 64
_AT_A_TIME = 1000  # pieces that are written with one call: fewer than any system takes


class _Array(Struct):
    """One array."""

    dtype: np.dtype[Any]
    pieces: list[np.ndarray] = []  # those in memory
    # the offset and the number of bytes of each array in the file
    segments: list[tuple[int, int]] = []
    room: int = 0  # bytes that fit after the last segment
    reserved: int = 0  # where the bytes end that are reserved in the file


class GrowingArrays:
    """One-dimensional arrays by name, which grow independently.

    In the file, an array has room for as many elements as `share` lets expect, which is a hole
    until it is written to. So each element is written once, to where it stays, unless there are
    more of them than were expected.

    Args:
        limit: Bytes of pieces that are kept in memory. When there are more, they go to a temporary
            file.

    Attributes:
        share: The share of all elements that the arrays had, when it was set last; 0 if it is not
            known yet.
    """

    def __init__(self, limit: int = _IN_MEMORY) -> None:
        self.share = 0.0
        self._limit, self._size, self._end = limit, 0, 0
        self._arrays: dict[str, _Array] = {}
        self._file: IO[bytes] | None = None

    def append(self, name: str, piece: np.ndarray) -> None:
        """Add elements to an array, which may not change afterwards. All pieces of an array have one dtype.

        Raises:
            OSError: The temporary file cannot be written.
        """
        if name not in self._arrays:
            self._arrays[name] = _Array(piece.dtype)
        self._arrays[name].pieces.append(piece)
        self._size += piece.nbytes
        if self._size > self._limit:
            self._flush()

    def add(self, before: str = "", /, **pieces: np.ndarray) -> None:
        """Add elements to several arrays, whose names begin with the given text: see `append`."""
        for name, piece in pieces.items():
            self.append(before + name, piece)

    def extend(self, pieces: Mapping[str, np.ndarray], share: float) -> None:
        """Add elements to several arrays, which then have this share of all their elements: see `append`."""
        # while they are added, the share of the elements before them
        self.share = self.share or share
        self.add(**pieces)
        self.share = share

    def finish(self) -> dict[str, np.ndarray]:
        """Return the arrays, which can be written to. Arrays in a temporary file are mapped, and the file has no name.

        Raises:
            OSError: The temporary file cannot be written.
        """
        if self._file is None:
            return {name: np.concatenate(array.pieces) for name, array in self._arrays.items()}
        self._flush()
        with self._file as file:
            places = {name: self._place(array, file) for name, array in self._arrays.items()}
            file.truncate(self._end)
            # one map, since each has a descriptor: a table of a thousand columns has more arrays
            # than files may be open
            if self._end:
                whole = np.memmap(file, np.uint8, "r+").view(np.ndarray)
            else:
                whole = np.empty(0, np.uint8)
        arrays = {
            name: whole[start:end].view(self._arrays[name].dtype)
            for name, (start, end) in places.items()
        }
        self._arrays.clear()
        return arrays

    def close(self) -> None:
        """Drop all arrays, where `finish` is not called."""
        self._arrays.clear()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._file is None:
            import tempfile  # which small arrays do not need

            self._file = tempfile.TemporaryFile(prefix="bushel-", buffering=0)  # noqa: SIM115 - finish() closes it
            weakref.finalize(self, self._file.close)  # if an error comes before that
        reserved = min(_RESERVED, _ALL_RESERVED // max(len(self._arrays), 1))
        for array in self._arrays.values():
            if not (size := sum(piece.nbytes for piece in array.pieces)):
                continue
            if size > array.room:
                self._make_room(array, size)
            start, written = array.segments[-1]
            at = start + written
            if at + size > array.reserved:
                array.reserved = max(at + size, min(at + reserved, at + array.room))
                if sys.platform == "linux":  # else writing finds room, or fails
                    with suppress(OSError):
                        os.posix_fallocate(self._file.fileno(), at, array.reserved - at)
            _write(self._file, array.pieces, at)
            array.segments[-1] = start, written + size
            array.room -= size
            array.pieces.clear()
        self._size = 0

    def _make_room(self, array: _Array, size: int) -> None:
        """Begin a segment with room for some bytes, and for the bytes that are expected to follow."""
        before = sum(written for _, written in array.segments)
        expected = 0
        if self.share:
            expected = int(_SPARE * (before + size) / max(self.share, _LEAST_SHARE))
        array.room = max(size, before, expected - before)
        array.room += -array.room % _ALIGNMENT
        array.segments.append((self._end, 0))
        self._end += array.room

    def _place(self, array: _Array, file: IO[bytes]) -> tuple[int, int]:
        """Return where the bytes of an array begin and end in the file, after joining its segments."""
        size = sum(written for _, written in array.segments)
        if len(array.segments) <= 1:
            start = array.segments[0][0] if array.segments else 0
            return start, start + size
        start = self._end
        for offset, length in array.segments:
            _copy(file, offset, self._end, length)
            self._end += length
        self._end += -self._end % _ALIGNMENT
        return start, start + size


def _write(file: IO[bytes], pieces: Sequence[Any], offset: int) -> None:
    rest = [np.ascontiguousarray(piece).data.cast("B") for piece in pieces if len(piece)]
    while rest:
        written = os.pwritev(file.fileno(), rest[:_AT_A_TIME], offset)
        offset += written
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


def _copy(file: IO[bytes], source: int, target: int, size: int) -> None:
    while size:
        data = os.pread(file.fileno(), min(size, _COPY), source)
        _write(file, [np.frombuffer(data, np.uint8)], target)
        source, target, size = source + len(data), target + len(data), size - len(data)
