"""Differences of two decoded values: words of texts, elements of pictures and arrays. Nothing here does I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._dataset.views.stored_values import same_value
from bushel._pictures.pixels import array_pixels, colours, is_picture
from bushel._pictures.texts import plain_text
from bushel._pictures.thumbnail import shrunk
from bushel._runtime.arrays import F64, I64, NO_NUMBERS, U8
from bushel.codecs.base import describe
from bushel.errors import BushelError, CodecError

from .rows import line_of
from .shelf import Shown
from .stored import Stored, stored_values

if TYPE_CHECKING:
    from bushel.integrity import Diff

_TEXT = 4000  # number of characters of a text that are compared
_CONTEXT = 40  # number of characters that are shown on each side of a change
Run = tuple[bool, str]
"""A piece of a text, and whether it is only on this side."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two values."""

    note: str = ""  # a few words; may be empty
    # for texts and trees, the pieces of the left and of the right one; None for others
    runs: tuple[Sequence[Run], Sequence[Run]] | None = None
    drawn: bool = False  # whether `difference_pixels` draws the difference


def difference_of(left: Any, right: Any) -> Difference:
    """Describe the difference of two decoded values."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return _of_arrays(left, right)
    before, after = _as_text(left), _as_text(right)
    if before is None or after is None:
        return Difference()
    cut = ""
    if max(len(before), len(after)) > _TEXT:
        cut = " (of the first 4,000 characters)"
    runs = _runs(before[:_TEXT], after[:_TEXT])
    changed = sum(len(text) for side in runs for only, text in side if only)
    return Difference(f"{changed:,} characters differ{cut}", runs)


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return plain_text(value)
    if not isinstance(value, dict | list | tuple):
        return None
    try:
        return plain_text(json.dumps(value, ensure_ascii=False, indent=1, default=describe))
    except (TypeError, ValueError, RecursionError):
        return None


def _of_arrays(left: np.ndarray, right: np.ndarray) -> Difference:
    shapes = [" × ".join(map(str, array.shape)) or "scalar" for array in (left, right)]
    if left.shape != right.shape:
        return Difference(f"{shapes[0]} and {shapes[1]}")
    if left.dtype.kind != right.dtype.kind:
        return Difference(f"{left.dtype} and {right.dtype}")
    if left.dtype.kind not in "biuf" or not left.size:
        return Difference()
    apart = _apart(left, right)
    share = 100 * np.count_nonzero(apart) / apart.size
    note = (
        f"{share:.3g} % of elements differ, by {np.nanmax(apart):.4g} "
        f"at most and {np.nanmean(apart):.4g} on average"
    )
    return Difference(note, drawn=apart.size > 1)


def _apart(left: np.ndarray, right: np.ndarray) -> F64:
    with np.errstate(all="ignore"):
        apart = np.abs(left.astype(np.float64) - right.astype(np.float64))
    equal = (left == right) | ((left != left) & (right != right))  # NaN is equal to NaN
    return np.where(equal, 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.finfo(np.float64).max))


def difference_pixels(left: Any, right: Any, side: int) -> U8:
    """Draw the absolute difference of two arrays of one shape: dark where they are equal.

    `side` is the largest width and height in pixels.

    Returns:
        HxWx3, uint8.

    Raises:
        CodecError: They are not arrays of one shape, or there is nothing to draw.
    """
    if (
        not isinstance(left, np.ndarray)
        or not isinstance(right, np.ndarray)
        or left.shape != right.shape
    ):
        raise CodecError("only arrays and images of one shape have a picture of their difference")
    if left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf":
        raise CodecError("only arrays of numbers have a picture of their difference")
    apart = _apart(left, right)
    if is_picture(left) and apart.ndim == 3:
        return shrunk(colours(apart.max(axis=2)), side)
    drawn = array_pixels(apart, side)
    if drawn is None:
        raise CodecError("there is nothing to draw")
    return shrunk(drawn[0], side)


def _runs(left: str, right: str) -> tuple[list[Run], list[Run]]:
    before, after = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (left, right))
    runs_before: list[Run] = []
    runs_after: list[Run] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for runs, words in ((runs_before, before[a:b]), (runs_after, after[c:d])):
            if words:
                runs.append((kind != "equal", "".join(words)))
    return _shortened(runs_before), _shortened(runs_after)


def _shortened(runs: list[Run]) -> list[Run]:
    """Cut long equal pieces to the characters beside the changes."""
    short = []
    for number, (only, text) in enumerate(runs):
        if not only and len(text) > 2 * _CONTEXT + 3:
            head = text[:_CONTEXT] if number else ""
            tail = text[-_CONTEXT:] if number < len(runs) - 1 else ""
            text = f"{head} … {tail}"
        short.append((only, text))
    return short


SHOWN: Mapping[str, str] = {
    "all": "all samples",
    "differences": "all differences",
    "differs": "different values",
    "value": "same value, different bytes",
    "left": "on the left only",
    "right": "on the right only",
}
"""The choices of listed pairs, with their labels."""

_DECODED = 32 << 20  # size in bytes up to which values are decoded to compare them


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two fields."""

    shown: Shown
    field: str

    @property
    def value(self) -> str:
        """Its name in the form."""
        return f"{self.shown.number}:{self.field}"

    @property
    def picture(self) -> bool:
        """Whether its values are shown as pictures."""
        field = self.shown.field(self.field)
        return field.visual or field.kind == "bytes"

    def decoded(self, position: int) -> Any:
        """Return the decoded value of a sample.

        Raises:
            KeyError: The sample lacks the field.
            BushelError, OSError: It cannot be read or decoded.
        """
        sample = self.shown.dataset[position, [self.field]]
        if self.field not in sample:
            raise KeyError(f"this sample lacks the field {self.field!r}")
        return sample[self.field]

    def text(self, position: int | None) -> str:
        """Return the value of a sample as a line of text; empty for pictures and missing values."""
        if position is None or self.picture:
            return ""
        try:
            return line_of(self.shown, self.field, self.decoded(position))
        except KeyError:
            return ""
        except (BushelError, OSError, ValueError) as error:
            return plain_text(str(error))


@dataclass(frozen=True, slots=True)
class Pair:
    """A sample of the left dataset and its counterpart on the right. One of them may be missing."""

    key: str
    left: int | None  # position on the left; None if only the right side has the sample
    right: int | None  # position on the right; None if only the left side has it
    # `same`, `value` (the same value, different bytes), `differs`, `large` (other bytes, too many to
    # decode), `left`, `right` (only that side has the sample), `missing` (one of two values is
    # missing) or `unreadable`
    state: str
    sizes: tuple[int, int]  # bytes of both values; -1 for a missing one
    texts: tuple[str, str]  # both values as a line of text, where they are not shown as pictures
    difference: Difference  # the difference, if both values were decoded


def compare_values(left: list[Stored] | None, right: list[Stored] | None) -> str:
    """Return whether two stored values have the same bytes: `same`, `differs` or `missing`."""
    if left is None or right is None:
        return "same" if left is right else "missing"
    if [value.size for value in left] != [value.size for value in right]:
        return "differs"
    for stored, other in zip(left, right, strict=True):
        checksums = stored.crc32, other.crc32
        if None not in checksums and checksums[0] != checksums[1]:
            return "differs"
        if stored != other and stored.read() != other.read():
            return "differs"
    return "same"


@dataclass(frozen=True)
class Comparison:
    """Two fields of one dataset or of two, and the pairs of their samples.

    The pairs are numbered: first the samples of the left side, in order, then those that only the
    right side has.
    """

    left: Side  # the left field
    right: Side  # the right field
    diff: Diff | None  # the result of `bushel.diff` for two datasets; None for two fields of one

    @cached_property
    def _partners(self) -> I64:
        """int64[samples on the left]: position on the right; -1 if it is missing there."""
        samples = len(self.left.shown.dataset)
        if self.diff is None:
            return np.arange(samples)
        partners = np.full(samples, -1, np.int64)
        partners[self.diff.pairs[0]] = self.diff.pairs[1]
        return partners

    @property
    def _lone(self) -> tuple[I64, I64]:
        """The samples that only the left side and only the right side has."""
        if self.diff is None:
            return NO_NUMBERS, NO_NUMBERS
        return self.diff.removed, self.diff.added

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self._partners) + len(self._lone[1])

    def candidates(self, show: str) -> I64:
        """Return the numbers of the pairs that may belong to a choice of `SHOWN`, ascending."""
        samples = len(self._partners)
        left, _ = self._lone
        right = np.arange(samples, self.pairs)
        if show == "left":
            return left
        if show == "right":
            return right
        if show == "all":
            return np.arange(self.pairs)
        unequal = self._unequal()
        if show == "differences":
            return np.sort(np.concatenate([left, unequal, right]))
        return unequal

    def _unequal(self) -> I64:
        """Return the pairs of two samples whose values are not the same by the index."""
        if self.diff is None:
            return np.arange(len(self._partners))
        difference = None
        if self.left.field == self.right.field:
            difference = self.diff.fields.get(self.left.field)
        if difference is None:
            return self.diff.pairs[0]
        return np.sort(np.concatenate([difference.changed, difference.unknown]))

    def shows(self, show: str, pair: Pair) -> bool:
        """Return whether a pair belongs to a choice of `SHOWN`."""
        if show == "differs":
            return pair.state in ("differs", "large", "missing", "unreadable")
        if show == "differences":
            return pair.state != "same"
        return show in ("all", pair.state)

    def found(self, numbers: Iterator[int]) -> Iterator[Pair]:
        """Yield the pairs with these numbers, compared."""
        samples = len(self._partners)
        for number in numbers:
            if number >= samples:
                yield self._pair(None, int(self._lone[1][number - samples]))
            else:
                other = int(self._partners[number])
                yield self._pair(number, None if other < 0 else other)

    def _pair(self, left: int | None, right: int | None) -> Pair:
        key = plain_text(
            self.left.shown.key(left) if left is not None else self.right.shown.key(right or 0)
        )
        sizes, difference = (-1, -1), Difference()
        try:
            values = (_stored(self.left, left), _stored(self.right, right))
            sizes = (_size(values[0]), _size(values[1]))
            if left is None:
                state = "right"
            elif right is None:
                state = "left"
            else:
                state = compare_values(*values)
                if state == "differs":
                    state, difference = self._by_value(left, right, max(sizes))
        except (BushelError, OSError, ValueError, MemoryError, RecursionError):
            state = "unreadable"
        texts = self.left.text(left), self.right.text(right)
        return Pair(key, left, right, state, sizes, texts, difference)

    def _by_value(self, left: int, right: int, size: int) -> tuple[str, Difference]:
        kinds = {side.shown.field(side.field).kind for side in (self.left, self.right)}
        # bytes are their own value, and clips are too long to decode
        if "bytes" in kinds or "clip" in kinds:
            return "differs", Difference()
        if size > _DECODED:
            return "large", Difference()
        values = self.left.decoded(left), self.right.decoded(right)
        if same_value(*values):
            return ("value", Difference())
        return ("differs", difference_of(*values))


def _stored(side: Side, position: int | None) -> list[Stored] | None:
    if position is None:
        return None
    return stored_values(side.shown.dataset, position, side.field)


def _size(values: list[Stored] | None) -> int:
    if values is None:
        return -1
    return sum(value.size for value in values)
