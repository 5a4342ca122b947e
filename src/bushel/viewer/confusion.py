"""The confusion matrix of two columns of classes: the number of samples of each label with each predicted class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, Bools

from .histograms import condition_name
from .kinds import label_name, predicted_name
from .rows import line_of
from .shelf import Shown
from .site import Pages, at

# largest number of classes of a matrix; of more, the classes with the most disagreements
_CLASSES = 60
_WORST = 20


@dataclass(frozen=True, slots=True)
class Confusion:
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
        errors = np.bincount(first[wrong], minlength=len(classes)) + np.bincount(
            second[wrong], minlength=len(classes)
        )
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
    def page(self, request: Any) -> Any:
        """The matrix of two columns, whose cells list their samples."""
        shown, parameters = self._site.shown(request), request.query_params
        names = [name for name in shown.columns if name in shown.dataset.spec]
        second = parameters.get("second") or predicted_name(names) or next(iter(names), "")
        first = parameters.get("first") or _labels_of(shown, names, second)
        for name in (first, second):
            if name not in names:
                listed = ", ".join(names) or "none; `bushel index --columns auto` makes columns"
                raise KeyError(f"unknown column of classes {name!r}: the columns are {listed}")
        (labels, lost), (predictions, gone) = (
            self._site.shelf.column(shown, name) for name in (first, second)
        )
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
            here="confusion",
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
