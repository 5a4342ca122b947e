"""Two fields side by side, of one dataset or of two: the pairs of samples, the result for each, and their page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np

from bushel._dataset.views.same_values import same_value
from bushel._pictures.thumbnail import Picture, encoded
from bushel._runtime.arrays import I64
from bushel.errors import BushelError
from bushel.spec import KEY

from .differences import Difference, difference_of, difference_pixels
from .extents import Stored, stored_values
from .pictures import side_for
from .rows import keys_of, line_of
from .shelf import Shelf, Shown, plain_text
from .site import Pages, Site, at, bytes_answer, number_in

if TYPE_CHECKING:
    from bushel.integrity import Diff

SHOWN: Mapping[str, str] = {
    "all": "all samples",
    "differences": "all differences",
    "differs": "other values",
    "value": "same value, other bytes",
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
            BushelError, OSError: It cannot be read or decoded.
        """
        sample = self.shown.dataset[position, [self.field]]
        return next(value for name, value in sample.items() if name != KEY)

    def text(self, position: int | None) -> str:
        """Return the value of a sample as a line of text; empty for pictures and missing values."""
        if position is None or self.picture:
            return ""
        try:
            return line_of(self.shown, self.field, self.decoded(position))
        except StopIteration:
            return ""
        except (BushelError, OSError, ValueError) as error:
            return plain_text(str(error))


@dataclass(frozen=True, slots=True)
class Pair:
    """A sample of the left dataset and its counterpart on the right. One of them may be missing."""

    key: str
    left: int | None  # position on the left; None if only the right side has the sample
    right: int | None  # position on the right; None if only the left side has it
    # `same`, `value` (the same value, other bytes), `differs`, `large` (other bytes, too many to
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
        checksums = stored.extent.crc32, other.extent.crc32
        if None not in checksums and checksums[0] != checksums[1]:
            return "differs"
        if stored.extent != other.extent and stored.read() != other.read():
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
            return np.arange(samples, dtype=np.int64)
        partners = np.full(samples, -1, np.int64)
        partners[self.diff.pairs[0]] = self.diff.pairs[1]
        return partners

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self._partners) + (0 if self.diff is None else len(self.diff.added))

    def candidates(self, show: str) -> I64:
        """Return the numbers of the pairs that may belong to a choice of `SHOWN`, ascending."""
        samples = len(self._partners)
        left = np.zeros(0, np.int64) if self.diff is None else self.diff.removed
        right = np.arange(samples, self.pairs, dtype=np.int64)
        if show in ("left", "right"):
            return left if show == "left" else right
        if show == "all":
            return np.arange(self.pairs, dtype=np.int64)
        unequal = self._unequal()
        if show == "differences":
            return np.sort(np.concatenate([left, unequal, right]))
        return unequal

    def _unequal(self) -> I64:
        """Return the pairs of two samples whose values are not the same by the index."""
        if self.diff is None:
            return np.arange(len(self._partners), dtype=np.int64)
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
        return (
            show == "all" or pair.state == show or (show == "differences" and pair.state != "same")
        )

    def found(self, numbers: Iterator[int]) -> Iterator[Pair]:
        """Yield the pairs with these numbers, compared."""
        samples = len(self._partners)
        for number in numbers:
            if number >= samples and self.diff is not None:
                yield self._pair(None, int(self.diff.added[number - samples]))
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
            if left is None or right is None:
                state = "right" if left is None else "left"
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


_PAGE = 24
_LOOK_AT = 5000  # largest number of samples that are compared to fill a page
_SECONDS = 2.0  # seconds after which a page that needs decoding is shown, even if it is not full
_KEYS = 64  # number of keys by which the other dataset is chosen


class ComparePages(Pages):
    """The handlers of the page that compares."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        # of two datasets: finding it again takes a while
        self._last: tuple[tuple[int, int], Diff] | None = None

    @at("/d/{d:int}/compare")
    def compare(self, request: Any) -> Any:
        """Pairs of samples with the same key, or the same position if samples have no keys, after a summary."""
        shown, parameters, shelf = self._site.shown(request), request.query_params, self._site.shelf
        left = _side(shelf, parameters.get("left"), shown, 0)
        right = _side(shelf, parameters.get("right"), shown, 1)
        show = parameters.get("show") or "all"
        if show not in SHOWN:
            raise ValueError(f"show={show}: expected {', '.join(SHOWN)}")
        comparison = Comparison(left, right, self._diff(left.shown, right.shown))
        first = number_in(parameters, "from", 0, 1 << 60)
        page = _page(comparison, show, first)
        return self._site.page(
            request,
            "compare.html",
            shown,
            here="compare",
            left=left,
            right=right,
            choices=[
                Side(dataset, field.name) for dataset in shelf.datasets for field in dataset.fields
            ],
            shows=SHOWN,
            show=show,
            diff=comparison.diff,
            fields=sorted(
                comparison.diff.fields.items() if comparison.diff else (),
                key=lambda field: not len(field[1].changed),
            ),
            found=page,
            url=_url(left, right, show),
        )

    @at("/d/{d:int}/difference")
    def difference(self, request: Any) -> Any:
        """A picture of the difference of two values."""
        parameters, shelf = request.query_params, self._site.shelf
        shown = self._site.shown(request)
        left, right = (_side(shelf, parameters.get(name), shown, 0) for name in ("left", "right"))
        positions = number_in(parameters, "i"), number_in(parameters, "j")
        key = (left.value, positions[0], right.value, positions[1], "difference")

        def make() -> Picture:
            values = left.decoded(positions[0]), right.decoded(positions[1])
            return encoded(difference_pixels(*values, side_for(256)))

        with self._site.decoding:
            picture = shelf.pictures.get(key, make)
        return bytes_answer(picture.data, picture.media_type, cache="private, max-age=86400")

    def _diff(self, left: Shown, right: Shown) -> Diff | None:
        if left is right:
            return None
        from bushel.integrity import diff  # which imports much that other pages do not need

        names = (left.number, right.number)
        last = self._last
        if last is None or last[0] != names:
            last = self._last = (names, diff(left.dataset, right.dataset))
        return last[1]


def _side(shelf: Shelf, text: str | None, shown: Shown, place: int) -> Side:
    if text:
        number, _, name = text.partition(":")
        if not (number.isascii() and number.isdecimal() and len(number) < 6):
            raise ValueError(
                f"{text!r}: expected the number of a dataset and a field, such as 0:image"
            )
        chosen = shelf.shown(int(number))
        return Side(chosen, chosen.field(name).name)
    if len(shelf.datasets) > 1:
        chosen = _counterpart(shelf, shown) if place else shown
        main = chosen.main
        if shown.main is not None and shown.main.name in chosen.dataset.spec:
            main = shown.main
        if main is not None:
            return Side(chosen, main.name)
    fields = sorted(shown.fields, key=lambda field: not field.visual)
    if not fields:
        raise KeyError("this dataset has no fields to compare")
    return Side(shown, fields[min(place, len(fields) - 1)].name)


def _counterpart(shelf: Shelf, shown: Shown) -> Shown:
    """Return the other dataset that shares the most of some keys, then of the fields."""
    step = max(1, len(shown.dataset) // _KEYS)
    keys = keys_of(shown.dataset, range(0, len(shown.dataset), step))

    def shared(other: Shown) -> tuple[int, int]:
        keyed = shown.dataset.info.keyed and other.dataset.info.keyed
        of_keys = sum(key in other.dataset for key in keys) if keyed else 0
        return of_keys, len(shown.dataset.spec.keys() & other.dataset.spec.keys())

    return max((other for other in shelf.datasets if other is not shown), key=shared)


@dataclass(frozen=True, slots=True)
class _Found:
    """The pairs of a page."""

    pairs: list[Pair]
    first: int
    after: int
    total: int


def _page(comparison: Comparison, show: str, first: int) -> _Found:
    """Return the next pairs of a choice, until the page is full or the limit of comparisons is reached."""
    numbers = comparison.candidates(show)
    first = after = min(first, len(numbers))
    pairs: list[Pair] = []
    until = time.monotonic() + _SECONDS
    for pair in islice(comparison.found(map(int, numbers[first:])), _LOOK_AT):
        after += 1
        if comparison.shows(show, pair):
            pairs.append(pair)
        if len(pairs) == _PAGE or time.monotonic() > until:
            break
    return _Found(pairs, first, after, len(numbers))


def _url(left: Side, right: Side, show: str) -> Any:
    def url(**changed: Any) -> str:
        values = {"left": left.value, "right": right.value, "show": show, **changed}
        return "?" + urlencode(
            {name: value for name, value in values.items() if value not in ("all", 0)}
        )

    return url
