"""The values of a column: a number, a truth value or a short text for each sample of a shard, or nothing.

docs/columns.md specifies the arrays. `column_scan` makes them; a sidecar keeps them. Nothing here does I/O, and what
comes from a sidecar is checked when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bushel.kernels import number_texts

__all__ = [
    "KNOWN_TYPES",
    "LONGEST_TEXT",
    "NUMBERS",
    "Kind",
    "Values",
    "join_parts",
    "numbers",
    "of_objects",
    "of_texts",
]

KNOWN_TYPES = (int, float, str)
"""Types of known values. No stored value has one of them, so decoding tells known values by their type."""

LONGEST_TEXT = 256
"""The longest text in bytes that a column keeps. A longer one is missing."""

Kind = Literal["bool", "int", "uint", "float", "text"]
"""The kind of values. `uint` has numbers beyond int64, and is rare."""

NUMBERS: dict[str, type[np.generic]] = {
    "bool": np.bool_,
    "int": np.int64,
    "uint": np.uint64,
    "float": np.float64,
}
"""The dtype of the values of each kind but text."""

Array = npt.NDArray[Any]
Part = tuple[Array, npt.NDArray[np.bool_] | None]
"""Values of some samples, and which of them are missing; None if none is. Missing ones hold 0, False or no text."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one column in one shard.

    Attributes:
        kind: What they are.
        values: The numbers or truth values, of the dtype in `NUMBERS`; None for texts.
        missing: bool[samples], or None if every sample has a value.
        codes: uint32[samples], numbers of the texts of a dictionary; None if there is a text for each sample.
        text: uint8[bytes], the texts in UTF-8, one after another; None for numbers.
        offsets: int64[texts + 1], where each of them begins; None for numbers.
    """

    kind: Kind
    values: Array | None = None
    missing: npt.NDArray[np.bool_] | None = None
    codes: npt.NDArray[np.uint32] | None = None
    text: npt.NDArray[np.uint8] | None = None
    offsets: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(next(each for each in self._per_sample() if each is not None))

    def _per_sample(self) -> tuple[Array | None, ...]:
        return self.values, self.codes, None if self.offsets is None else self.offsets[1:]

    def part(self, rows: slice | npt.NDArray[np.int64]) -> Part:
        """Return the values of some samples: numbers as they are kept, a view of them for a slice; texts as str.

        Raises:
            ValueError: The arrays contradict each other.
        """
        missing = None if self.missing is None else self.missing.view(np.uint8)[rows] != 0
        if self.kind == "bool" and self.values is not None:
            return self.values.view(np.uint8)[rows] != 0, missing  # any other byte could upset NumPy
        return (self.values[rows] if self.values is not None else self._texts(rows)), missing

    def few_texts(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return the texts of some samples. For a few of them this takes less time than `part`.

        Raises:
            ValueError: The arrays contradict each other.
        """
        assert self.text is not None
        assert self.offsets is not None
        offsets, view, found = self.offsets, self.text.data, dict[int, str]()
        numbers = (rows if self.codes is None else self.codes[rows]).tolist()
        for number in numbers:
            if number not in found:
                if number + 1 >= len(offsets):
                    raise ValueError(f"a text has the number {number}, but there are {len(offsets) - 1} texts")
                first, last = offsets.item(number), offsets.item(number + 1)
                if not 0 <= first <= last <= len(view):
                    raise ValueError("the offsets of its texts are not ascending inside the text")
                found[number] = str(view[first:last], "utf-8")
        return [found[number] for number in numbers]

    def _texts(self, rows: slice | npt.NDArray[np.int64]) -> Array:
        if self.codes is None:
            assert self.offsets is not None  # of this kind, as the sidecar was checked
            return self._decoded(np.arange(len(self.offsets) - 1)[rows] if isinstance(rows, slice) else rows)
        count = 0 if self.offsets is None else len(self.offsets) - 1
        codes = self.codes[rows]
        if len(codes) and int(codes.max()) >= count:
            raise ValueError(f"a text has the number {int(codes.max())}, but there are {count} texts")
        if len(codes) < count:  # of a few samples: only their own texts
            own, places = np.unique(codes, return_inverse=True)
            return self._decoded(own.astype(np.int64))[places.reshape(-1)]
        return self.dictionary()[codes]

    def dictionary(self) -> Array:
        """Return the texts that `codes` numbers, as an array of str."""
        return self._decoded(np.arange(0 if self.offsets is None else len(self.offsets) - 1))

    def _decoded(self, numbers: npt.NDArray[np.int64]) -> Array:
        assert self.text is not None
        assert self.offsets is not None
        out = np.empty(len(numbers), object)
        first, last = self.offsets[numbers], self.offsets[numbers + 1]
        if len(numbers) and (int(first.min()) < 0 or (last < first).any() or int(last.max()) > len(self.text)):
            raise ValueError("the offsets of its texts are not ascending inside the text")
        view = self.text.data
        out[:] = [str(view[a:b], "utf-8") for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return out


def numbers(kind: Kind, values: Array, missing: npt.NDArray[np.bool_] | None = None) -> Values:
    """Return a column of numbers or truth values. The values of missing samples become 0."""
    own = np.ascontiguousarray(values, NUMBERS[kind])
    if missing is None or not missing.any():
        return Values(kind, own)
    own = own.copy()
    own[missing] = 0
    return Values(kind, own, np.ascontiguousarray(missing))


def of_texts(
    text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_] | None
) -> Values:
    """Return a column of texts, as numbers of a dictionary if there are at most half as many texts as samples.

    Args:
        text: uint8[bytes], valid UTF-8 that is cut at `offsets`. Missing ones are empty.
        offsets: int64[samples + 1].
        missing: bool[samples], or None.
    """
    missing = missing if missing is not None and missing.any() else None
    if (numbered := number_texts(text, offsets, (len(offsets) - 1) // 2)) is None:
        return Values("text", missing=missing, text=text, offsets=offsets)
    codes, rows = numbered
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(offsets[rows + 1] - offsets[rows], out=ends[1:])
    view = text.data
    pairs = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
    own = np.frombuffer(b"".join(view[a:b] for a, b in pairs), np.uint8)
    return Values("text", missing=missing, codes=codes, text=own, offsets=ends)


def of_objects(found: Sequence[object]) -> Values:
    """Return a column of Python values. None, too long texts, and anything but numbers, bools and texts are missing.

    Integers among which are real numbers become real; numbers among which are texts become text, as JSON writes them.
    """
    kept = [value if isinstance(value, bool | int | float | str) else None for value in found]
    kinds = {type(value) for value in kept if value is not None}
    if str in kinds:
        return _of_mixed(kept)
    missing = np.array([value is None for value in kept], np.bool_)
    whole: list[Any] = [0 if value is None else value for value in kept]
    if kinds and kinds <= {bool}:
        return numbers("bool", np.array(whole, np.bool_), missing)
    if float not in kinds:
        low, high = (min(whole), max(whole)) if whole else (0, 0)
        if low >= -(1 << 63) and high < 1 << 63:
            return numbers("int", np.array(whole, np.int64), missing)
        if low >= 0 and high < 1 << 64:
            return numbers("uint", np.array(whole, np.uint64), missing)
    return numbers("float", np.array([_as_float(value) for value in whole], np.float64), missing)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of real numbers
        return float("inf") if value > 0 else float("-inf")


def _of_mixed(values: Sequence[Any]) -> Values:
    stored = [b"" if value is None else _as_text(value) for value in values]
    missing = np.array([value is None for value in values], np.bool_)
    for row, each in enumerate(stored):
        if each is None or len(each) > LONGEST_TEXT:
            stored[row], missing[row] = b"", True
    whole = [each or b"" for each in stored]
    offsets = np.zeros(len(whole) + 1, np.int64)
    np.cumsum([len(each) for each in whole], out=offsets[1:])
    return of_texts(np.frombuffer(b"".join(whole), np.uint8), offsets, missing)


def _as_text(value: Any) -> bytes | None:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    try:
        return str(value).encode()
    except (UnicodeEncodeError, ValueError):  # a lone surrogate, or more digits than Python prints
        return None


def join_parts(parts: Sequence[Part]) -> Part:
    """Return the values of several shards as one array, of the kind that holds all of them."""
    if len(parts) == 1:
        return parts[0]
    arrays = [array for array, _ in parts]
    kinds = {array.dtype.kind for array in arrays}
    if "O" in kinds and len(kinds) > 1:
        arrays = [array if array.dtype.kind == "O" else _as_objects(array) for array in arrays]
    elif kinds == {"i", "u"}:
        arrays = [array.astype(np.float64) for array in arrays]
    elif "b" in kinds and len(kinds) > 1:
        arrays = [array.astype(np.int64) if array.dtype.kind == "b" else array for array in arrays]
    if not any(mask is not None for _, mask in parts):
        return np.concatenate(arrays), None
    masks = [np.zeros(len(array), np.bool_) if mask is None else mask for array, mask in parts]
    return np.concatenate(arrays), np.concatenate(masks)


def _as_objects(array: Array) -> Array:
    out = np.empty(len(array), object)
    out[:] = [(_as_text(value) or b"").decode() for value in array.tolist()]
    return out
