"""The pages that compare: two fields side by side, and labels with predictions in a confusion matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from msgspec import Struct

from bushel._pictures.thumbnail import Picture, encoded
from bushel._runtime.arrays import I64, Bools

from .differences import SHOWN, Comparison, Pair, Side, difference_pixels
from .histograms import condition_name
from .kinds import label_name, predicted_name
from .rows import keys_of, line_of
from .shelf import ByteCache, Shelf, Shown
from .site import Pages, Site, at, number_in
from .stored import side_for

if TYPE_CHECKING:
    from bushel.integrity import Diff

_PAGE = 24
_LOOK_AT = 5000  # largest number of samples that are compared to fill a page
_SECONDS = 2.0  # seconds after which a page that needs decoding is shown, even if it is not full
_KEYS = 64  # number of keys by which the other dataset is chosen


class ComparePages(Pages):
    """The handlers of the page that compares."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        # of two datasets: finding it again takes a while
        self._last: ByteCache[Diff] = ByteCache()

    @at("/d/{d:int}/compare")
    def compare(self, shown: Shown, request: Any) -> Any:
        """Pairs of samples with the same key, or the same position if samples have no keys, after a summary."""
        parameters, shelf = request.query_params, self._shelf
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
    def difference(self, shown: Shown, request: Any) -> Any:
        """A picture of the difference of two values."""
        parameters = request.query_params
        left, right = (
            _side(self._shelf, parameters.get(name), shown, 0) for name in ("left", "right")
        )
        positions = number_in(parameters, "i"), number_in(parameters, "j")
        key = (left.value, positions[0], right.value, positions[1], "difference")

        def make() -> Picture:
            values = left.decoded(positions[0]), right.decoded(positions[1])
            return encoded(difference_pixels(*values, side_for(256)))

        return self._site.picture(key, make)

    def _diff(self, left: Shown, right: Shown) -> Diff | None:
        if left is right:
            return None
        from bushel.integrity import diff  # which imports much that other pages do not need

        names = left.number, right.number
        return self._last.get(names, lambda: diff(left.dataset, right.dataset))


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


class _Found(Struct, frozen=True):
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


# largest number of classes of a matrix; of more, the classes with the most disagreements
_CLASSES = 60
_WORST = 20


class Confusion(Struct, frozen=True):
    """How often two columns have each pair of classes."""

    classes: Sequence[Any]  # the classes of the matrix, ascending
    # int64[classes, classes]: by the class of the first column, then of the second
    counts: I64
    samples: int  # samples that have both values, in all classes
    equal: int  # samples of these whose values are equal
    hidden: int  # number of classes that the matrix leaves out


def confusion_of(labels: np.ndarray, predictions: np.ndarray, known: Bools) -> Confusion:
    """Return the confusion matrix of two columns. `known` is bool[samples], whether a sample has both values."""
    labels, predictions = labels[known], predictions[known]
    classes, which = np.unique(np.concatenate([labels, predictions]), return_inverse=True)
    first, second = which[: len(labels)], which[len(labels) :]
    wrong = first != second
    chosen = np.arange(len(classes))
    if len(classes) > _CLASSES:
        confused = np.concatenate([first[wrong], second[wrong]])
        errors = np.bincount(confused, minlength=len(classes))
        chosen = np.sort(np.argsort(-errors, kind="stable")[:_CLASSES])
    place = np.full(len(classes), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    inside = (place[first] >= 0) & (place[second] >= 0)
    cells = place[first[inside]] * len(chosen) + place[second[inside]]
    counts = np.bincount(cells, minlength=len(chosen) ** 2).reshape(len(chosen), len(chosen))
    equal = len(labels) - int(np.count_nonzero(wrong))
    return Confusion(
        classes[chosen].tolist(), counts, len(labels), equal, len(classes) - len(chosen)
    )


class ConfusionPages(Pages):
    """The handler of the confusion matrix."""

    @at("/d/{d:int}/confusion")
    def page(self, shown: Shown, request: Any) -> Any:
        """The matrix of two columns, whose cells list their samples."""
        parameters = request.query_params
        names = [name for name in shown.columns if name in shown.dataset.spec]
        second = parameters.get("second") or predicted_name(names) or next(iter(names), "")
        first = parameters.get("first") or _labels_of(shown, names, second)
        for name in (first, second):
            if name not in names:
                listed = ", ".join(names) or "none; `bushel index --columns auto` makes columns"
                raise KeyError(f"unknown column of classes {name!r}: the columns are {listed}")
        (labels, lost), (predictions, gone) = (shown.column(name) for name in (first, second))
        if _is_text(shown, first) != _is_text(shown, second):
            kinds = (
                f"{name} has {'texts' if _is_text(shown, name) else 'numbers'}"
                for name in (first, second)
            )
            raise ValueError(f"choose two columns of one kind: {' and '.join(kinds)}")
        present = np.ones(len(shown.dataset), np.bool_)
        for missing in (lost, gone):
            if missing is not None:
                present &= ~np.asarray(missing)
        confusion = confusion_of(np.ma.getdata(labels), np.ma.getdata(predictions), present)
        return self._site.page(
            request,
            "confusion.html",
            shown,
            names=names,
            first=first,
            second=second,
            found=confusion,
            classes=[line_of(shown, first, value) for value in confusion.classes],
            counts=confusion.counts.tolist(),
            conditions=[
                [f"{condition_name(name)} == {value!r}" for value in confusion.classes]
                for name in (first, second)
            ],
            worst=_worst(confusion.counts),
        )


def _is_text(shown: Shown, name: str) -> bool:
    return shown.field(name).kind != "number"


def _labels_of(shown: Shown, names: Sequence[str], predicted: str) -> str:
    """Return the column whose classes are predicted: of the same kind, and named as labels are if there are several."""
    candidates = [
        name
        for name in names
        if name != predicted and _is_text(shown, name) == _is_text(shown, predicted)
    ]
    return label_name(candidates) or next(iter(candidates), predicted)


def _worst(counts: I64) -> list[tuple[int, int]]:
    """Return the rows and columns of the pairs of different classes with the most samples."""
    wrong = counts * (1 - np.eye(len(counts), dtype=np.int64))
    rows, columns = np.nonzero(wrong)
    order = np.argsort(-wrong[rows, columns], kind="stable")[:_WORST]
    return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))
