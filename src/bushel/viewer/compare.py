"""The page that compares two fields, of one dataset or of two, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bushel._pictures.thumbnail import Picture, encoded
from bushel.viewer.comparison import SHOWN, Comparison, Pair, Side
from bushel.viewer.differences import difference_pixels
from bushel.viewer.pictures import side_for
from bushel.viewer.rows import keys_of
from bushel.viewer.shelf import Shelf, Shown
from bushel.viewer.site import Pages, Site, at, bytes_answer, number_in

if TYPE_CHECKING:
    from bushel.integrity import Diff

_PAGE = 24
_LOOK_AT = 5000  # largest number of samples that are compared to fill a page
_SECONDS = 2.0  # seconds after which a page that needs decoding is shown, even if it is not full
_AT_ONCE = 256
_KEYS = 64  # number of keys by which the other dataset is chosen


@dataclass(frozen=True, slots=True)
class FieldCount:
    """A line of the summary: a field that both datasets have."""

    name: str  # the field
    same: int  # number of samples with the same bytes
    changed: int  # number of samples with another length, checksum or presence
    # number of samples whose values the index does not decide: they are compared when they are
    # shown
    unknown: int


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
            counts=_counts(comparison.diff),
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
    for pair in islice(comparison.found(_numbers(numbers, first)), _LOOK_AT):
        after += 1
        if comparison.shows(show, pair):
            pairs.append(pair)
        if len(pairs) == _PAGE or time.monotonic() > until:
            break
    return _Found(pairs, first, after, len(numbers))


def _numbers(numbers: Any, first: int) -> Iterator[int]:
    for start in range(first, len(numbers), _AT_ONCE):
        yield from numbers[start : start + _AT_ONCE].tolist()


def _counts(diff: Diff | None) -> list[FieldCount]:
    if diff is None:
        return []
    total = len(diff.pairs[0])
    counts = [
        FieldCount(
            name,
            total - len(count.changed) - len(count.unknown),
            len(count.changed),
            len(count.unknown),
        )
        for name, count in diff.fields.items()
    ]
    return sorted(counts, key=lambda each: not each.changed)


def _url(left: Side, right: Side, show: str) -> Any:
    def url(**changed: Any) -> str:
        values = {"left": left.value, "right": right.value, "show": show, **changed}
        return "?" + urlencode(
            {name: value for name, value in values.items() if value not in ("all", 0)}
        )

    return url
