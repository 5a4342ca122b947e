"""Extents and numbers of files of lines as arrays, which are kept in blocks of few bytes (docs/index.md).

A sidecar has the arrays of `Lines` as `__lines__.data`, `__lines__.at` and `__lines__.first`, and
in its header the numbers of the fields and columns that these hold. Elements and slices of a
`LineArray` are computed when they are asked for. Anything else makes the whole array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel.errors import FormatError
from bushel.kernels import LineBlocks, LineColumn

Part = Literal["offset", "length", "kind", "number", "real"]
"""A property of each value: offset and length in bytes, its kind, and an integer or a float64."""

EXTENT: tuple[Part, Part] = ("offset", "length")
LINE_ARRAYS: dict[str, type[np.generic]] = {"data": np.uint8, "at": np.int64, "first": np.int64}
_HINT = "delete it: the index will be built again"


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """The values of all fields of a file of lines.

    Raises:
        FormatError: The arrays do not fit each other.
    """

    data: U8  # the blocks, one after another
    at: I64  # int64[blocks + 1], where each begins in `data`, and the end
    first: I64  # int64[blocks + 1], the first sample of each, and the number of samples
    path: str  # the file that has them, for errors
    blocks: LineBlocks = field(init=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "blocks", LineBlocks(self.data, self.at, self.first))
        except ValueError as error:
            raise self.damaged(error) from error

    def extents(self, number: int, *, quotes: bool) -> tuple[I64, I64]:
        """Return the offsets and lengths of a field, given its number."""
        offset, length = (LineArray(self, number, part, quotes=quotes) for part in EXTENT)
        return cast("I64", offset), cast("I64", length)

    def numbers(self, number: int, kind: str) -> np.ndarray:
        """Return the values of a column of the kind `int` or `float`, given the number of its field."""
        array = LineArray(self, number, "real" if kind == "float" else "number", quotes=False)
        return cast("np.ndarray", array)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lines, (self.data, self.at, self.first, self.path)

    def damaged(self, error: ValueError | str) -> FormatError:
        """Return the error of blocks that contradict each other."""
        return FormatError(f"the index is damaged: {error}", self.path, hint=_HINT)


class LineArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A part of the values of one field: int64[samples], or float64[samples] for real numbers.

    Args:
        lines: The values of all fields.
        field: Number of the field.
        part: The part.
        quotes: Whether the quotes around texts belong to them.
    """

    __slots__ = ("_own", "field", "item", "lines", "part", "quotes")
    ndim = 1

    def __init__(self, lines: Lines, field: int, part: Part, quotes: bool) -> None:
        self.lines, self.field, self.part, self.quotes = lines, field, part, quotes
        self._own = LineColumn(lines.blocks, field, part, quotes)
        # one element as a number of Python; ValueError for a damaged block
        self.item = self._own.item

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(np.float64 if self.part == "real" else np.int64)

    @property
    def shape(self) -> tuple[int]:
        """The number of elements, as of any array."""
        return (len(self),)

    def __len__(self) -> int:
        return self.lines.blocks.samples

    def __getitem__(self, key: Any) -> Any:
        computed = self._own
        try:
            if (
                isinstance(key, np.ndarray)
                and key.dtype == np.int64
                and key.ndim == 1
                and key.flags.c_contiguous
            ):
                return computed.take(key)
            if isinstance(key, int | np.integer):
                return computed.item(int(key))
            if isinstance(key, slice):
                start, stop, step = key.indices(len(self))
                if step == 1:
                    return computed.read(start, max(stop - start, 0))
                key = np.arange(start, stop, step)
            key = np.asarray(key)
            if key.dtype == np.bool_ and len(key) == len(self):
                key = np.flatnonzero(key)
            if key.dtype.kind in "iu" or not key.size:
                return computed.take(np.ascontiguousarray(key.reshape(-1), np.int64)).reshape(
                    key.shape
                )
        except ValueError as error:
            raise self.lines.damaged(error) from error
        return np.asarray(self)[key]

    def write(self, rows: I64, out: np.ndarray) -> None:
        """Write the elements of some samples to an array of the same type."""
        try:
            self._own.write(rows, out.view(np.int64))
        except ValueError as error:
            raise self.lines.damaged(error) from error

    def extents(self, rows: I64) -> tuple[I64, I64]:
        """Return offset and length of the values of some samples."""
        try:
            return self._own.extents(np.ascontiguousarray(rows, np.int64))
        except ValueError as error:
            raise self.lines.damaged(error) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole: np.ndarray = self[:]
        if dtype is None:
            return whole
        return whole.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (
            np.asarray(operand) if isinstance(operand, LineArray) else operand for operand in inputs
        )
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineArray, (self.lines, self.field, self.part, self.quotes)


def lines_of(path: str, samples: int, get: Callable[[str, type[np.generic]], np.ndarray]) -> Lines:
    """Return the blocks of lines of a sidecar.

    Args:
        path: The sidecar, for errors.
        samples: Its number of samples.
        get: Returns an array of the sidecar, given its name and type.

    Raises:
        FormatError: The arrays do not fit each other.
    """
    data, at, first = (get(f"__lines__.{part}", dtype) for part, dtype in LINE_ARRAYS.items())
    lines = Lines(data, at, first, path)
    if lines.blocks.samples != samples:
        raise lines.damaged(f"it has blocks of {lines.blocks.samples} lines for {samples} samples")
    return lines
