"""Histograms and class counts of columns. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.columns import drawable

__all__ = ["Bin", "Histogram", "bins_of", "condition_name", "histogram_of"]

_CLASSES = 100
"""Largest number of different whole numbers that are shown as classes."""
_TEXTS = 60
"""Number of texts that are shown; the most frequent ones."""
_BINS = 28

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bin:
    """A class, or an interval of numbers.

    Attributes:
        label: Its text on the page.
        condition: A condition that is true of its samples, as `Dataset.where` takes it.
        count: Number of selected samples.
        all: Number of samples of the whole dataset.
    """

    label: str
    condition: str
    count: int
    all: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """The values of a column.

    Attributes:
        kind: `classes` or `numbers`.
        bins: The classes, or the intervals in ascending order.
        missing: Number of selected samples without a value.
        more: Number of classes that are not shown; of texts that are all different, none is.
    """

    kind: str
    bins: Sequence[Bin]
    missing: int
    more: int = 0


def condition_name(column: str) -> str:
    """Return how a condition names a column."""
    if all(part.isidentifier() or part.isdecimal() for part in column.split(".")) and column[:1].isidentifier():
        return column
    return f"column({_text(column)})"


def _text(value: str) -> str:
    """Return a text as a literal of Python, whatever it contains."""
    return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'


def histogram_of(
    column: str, values: npt.NDArray[Any], missing: Bools | None, selected: Any, labels: Sequence[str] = ()
) -> Histogram:
    """Return the histogram of a column.

    Args:
        column: Its name.
        values: Its value of each sample: bool, int, float, or an object array of str or of numbers.
        missing: Which samples have no value; None if all have one.
        selected: The selected samples: an index array, or None for all.
        labels: Names of classes by number.
    """
    values = drawable(values)
    there = np.ones(len(values), np.bool_) if missing is None else ~missing
    if values.dtype.kind == "f":
        there &= np.isfinite(values)
    chosen = there if selected is None else there[selected]
    every, own = values[there], values[there] if selected is None else values[selected][chosen]
    lost = int(len(chosen) - np.count_nonzero(chosen))
    name = condition_name(column)
    if values.dtype.kind == "O":
        counted, total = Counter(own.tolist()), Counter(every.tolist())
        if len(total) > _TEXTS and total.most_common(1)[0][1] == 1:  # such as captions: there is nothing to choose
            return Histogram("classes", [], lost, len(total))
        texts = [text for text, _ in total.most_common(_TEXTS)]
        bins = [Bin(text or "(empty)", f"{name} == {_text(text)}", counted[text], total[text]) for text in texts]
        return Histogram("classes", bins, lost, max(0, len(total) - _TEXTS))
    if values.dtype.kind in "biu" and len(every):
        classes, counts = _few(every)
        if classes is not None:
            numbers = dict(zip(*(part.tolist() for part in np.unique(own, return_counts=True)), strict=True))
            rows = zip(classes.tolist(), counts.tolist(), strict=True)
            bins = [
                Bin(_named(value, labels), f"{name} == {value}", numbers.get(value, 0), total) for value, total in rows
            ]
            return Histogram("classes", bins, lost)
    return Histogram("numbers", bins_of(name, every, own), lost)


def _few(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any] | None, npt.NDArray[np.int64]]:
    """Return the different values and their counts; None if there are too many."""
    if len(np.unique(values[:10_000])) > _CLASSES:  # the usual case, without sorting all
        return None, np.zeros(0, np.int64)
    classes, counts = np.unique(values, return_counts=True)
    return (classes if len(classes) <= _CLASSES else None), counts


def _named(value: Any, labels: Sequence[str]) -> str:
    named = not isinstance(value, bool) and 0 <= value < len(labels) and labels[int(value)]
    return f"{value} {labels[int(value)]}" if named else str(value)


def bins_of(name: str, every: npt.NDArray[Any], own: npt.NDArray[Any]) -> list[Bin]:
    """Return the intervals between the least and the greatest value.

    Args:
        name: The name of the column in conditions.
        every: The values of all samples, finite.
        own: The values of the selected samples.
    """
    if not len(every):
        return []
    least, greatest = every.min().item(), every.max().item()
    if least == greatest:
        return [Bin(f"{least:,.6g}", f"{name} == {least!r}", len(own), len(every))]
    if every.dtype.kind in "iu":
        width = -(-(greatest - least + 1) // _BINS)
        edges = [least + width * number for number in range(-(-(greatest - least + 1) // width) + 1)]
    else:
        edges = np.unique(np.linspace(least, greatest, _BINS + 1)).tolist()
    bounds = np.array(edges, np.float64)
    total, counted = np.histogram(every, bounds)[0].tolist(), np.histogram(own, bounds)[0].tolist()
    bins = []
    for number, (low, high) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        # the last interval has the greatest value, too
        last = number == len(edges) - 2
        end = f"{name} <= {max(high, greatest)!r}" if last else f"{name} < {high!r}"
        label = f"{low:,.6g} to {high:,.6g}"
        bins.append(Bin(label, f"{name} >= {low!r} and {end}", counted[number], total[number]))
    return bins
