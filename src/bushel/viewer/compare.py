"""Comparing two fields, of one dataset or of two, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from bushel.errors import BushelError
from bushel.spec import KEY
from bushel.viewer.extents import Stored, stored_values
from bushel.viewer.rows import line_of
from bushel.viewer.shelf import Shelf, Shown, plain_text
from bushel.viewer.site import Handler, Site, number_in

__all__ = ["ComparePages", "Pair", "compare_values"]

_PAGE = 24
_LOOK_AT = 5000
"""Largest number of samples that are compared to fill a page of differences."""
_SECONDS = 2.0
"""Time after which a page of differences is shown, full or not."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two fields.

    Attributes:
        shown: The dataset.
        field: Name of the field.
    """

    shown: Shown
    field: str

    @property
    def value(self) -> str:
        """Its name in the form."""
        return f"{self.shown.number}:{self.field}"

    @property
    def picture(self) -> bool:
        """Whether its values are shown as pictures."""
        found = self.shown.field(self.field)
        return found.visual or found.kind == "bytes"


@dataclass(frozen=True, slots=True)
class Pair:
    """A sample of the left dataset and its counterpart.

    Attributes:
        key: The key.
        left: Position on the left.
        right: Position on the right; None if there is no such sample.
        state: `same`, `differs`, `missing` or `unreadable`.
        sizes: Bytes of both values; -1 for a missing one.
        texts: Both values as a line of text, where they are not shown as pictures.
    """

    key: str
    left: int
    right: int | None
    state: str
    sizes: tuple[int, int]
    texts: tuple[str, str]


def compare_values(left: list[Stored] | None, right: list[Stored] | None) -> str:
    """Return whether two stored values have the same bytes: `same`, `differs` or `missing`."""
    if left is None or right is None:
        return "same" if left is right else "missing"
    if [value.size for value in left] != [value.size for value in right]:
        return "differs"
    for one, other in zip(left, right, strict=True):
        known = one.extent.crc32, other.extent.crc32
        if None not in known and known[0] != known[1]:
            return "differs"
        if one.extent != other.extent and one.read() != other.read():
            return "differs"
    return "same"


class ComparePages:
    """The handler of the page that compares.

    Args:
        site: Renders pages.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {"/d/{d:int}/compare": self.compare}

    def compare(self, request: Any) -> Any:
        """Pairs of samples with the same key, or the same position if samples have no keys."""
        shown, parameters, shelf = self._site.shown(request), request.query_params, self._site.shelf
        left = _side(shelf, parameters.get("left"), shown, 0)
        right = _side(shelf, parameters.get("right"), shown, 1)
        page, only = number_in(parameters, "page", 0, 1 << 40), bool(parameters.get("only"))
        total, after = len(left.shown.dataset), 0
        first = min(number_in(parameters, "from", 0, 1 << 60) if only else page * _PAGE, total)
        if only:
            pairs, after = _differences(left, right, first)
        else:
            pairs = [_pair(left, right, position) for position in range(first, min(first + _PAGE, total))]
        choices = [Side(each, field.name) for each in shelf.datasets for field in each.fields]
        return self._site.page(
            request,
            "compare.html",
            shown,
            here="compare",
            left=left,
            right=right,
            choices=choices,
            pairs=pairs,
            page=page,
            pages_total=-(-total // _PAGE),
            only=only,
            first=first,
            after=after,
            total=total,
        )


def _side(shelf: Shelf, text: str | None, shown: Shown, place: int) -> Side:
    if text:
        number, _, name = text.partition(":")
        if not (number.isascii() and number.isdecimal() and len(number) < 6):
            raise ValueError(f"{text!r}: expected the number of a dataset and a field, such as 0:image")
        chosen = shelf.shown(int(number))
        return Side(chosen, chosen.field(name).name)
    if len(shelf.datasets) > 1 and place:
        other = next(each for each in shelf.datasets if each.number != shown.number)
        if shown.main is not None and shown.main.name in other.dataset.spec:
            return Side(other, shown.main.name)
        if other.main is not None:
            return Side(other, other.main.name)
    fields = sorted(shown.fields, key=lambda field: not field.visual)
    if not fields:
        raise KeyError("this dataset has no fields to compare")
    return Side(shown, fields[min(place, len(fields) - 1)].name)


def _differences(left: Side, right: Side, first: int) -> tuple[list[Pair], int]:
    """Return the next pairs from a position on that are not the same, and the position to continue from."""
    found: list[Pair] = []
    until = time.monotonic() + _SECONDS
    for position in range(first, min(first + _LOOK_AT, len(left.shown.dataset))):
        if len(found) == _PAGE or (position > first and time.monotonic() > until):
            return found, position
        pair = _pair(left, right, position)
        if pair.state != "same":
            found.append(pair)
    return found, min(first + _LOOK_AT, len(left.shown.dataset))


def _pair(left: Side, right: Side, position: int) -> Pair:
    key = left.shown.key(position)
    other: int | None = position
    if right.shown is not left.shown:
        keyed = left.shown.dataset.info.keyed and right.shown.dataset.info.keyed
        if keyed:
            other = right.shown.dataset.position(key) if key in right.shown.dataset else None
        elif position >= len(right.shown.dataset):
            other = None
    if other is None:
        return Pair(plain_text(key), position, None, "missing", (-1, -1), (_text(left, position), ""))
    sizes = (-1, -1)
    try:
        first = stored_values(left.shown.dataset, position, left.field)
        second = stored_values(right.shown.dataset, other, right.field)
        sizes = (_size(first), _size(second))
        state = compare_values(first, second)
    except (BushelError, OSError):
        state = "unreadable"
    return Pair(plain_text(key), position, other, state, sizes, (_text(left, position), _text(right, other)))


def _size(values: list[Stored] | None) -> int:
    return -1 if values is None else sum(value.size for value in values)


def _text(side: Side, position: int) -> str:
    if side.picture:
        return ""
    try:
        sample = side.shown.dataset[position, [side.field]]
    except (BushelError, OSError) as error:
        return plain_text(str(error))
    values = [value for name, value in sample.items() if name != KEY]
    return line_of(side.shown, side.field, values[0]) if values else "missing"
