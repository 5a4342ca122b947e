"""Histograms and class counts of columns. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bushel._index.columns import drawable
from bushel._pictures.texts import class_name, plain_text
from bushel._runtime.arrays import I64, Bools

from .selection import Query, select
from .shelf import Shown
from .site import Pages, at

# largest number of different whole numbers that count as classes without names and with gaps
_CLASSES = 100
# largest number of different whole numbers that count as classes if they have names or few gaps
_MANY_CLASSES = 50_000
_LISTED = 100  # number of classes that are listed at once
_TEXTS = 60  # number of texts that are listed at once; the most frequent ones
_BINS = 28
# shares of the values on each side that may be ignored to find the usual range
_TAILS = (0.01, 0.05, 0.1)
# outliers share one interval if the range of all values is this many times the usual range
_FAR = 4
_SAMPLED = 200_000
_COUNTED = 1 << 18  # number of values that are counted at a time


@dataclass(frozen=True, slots=True)
class Bin:
    """A class, or an interval of numbers."""

    label: str  # its text on the page
    condition: str  # a condition that its samples fulfil, as `Dataset.where` takes it
    count: int  # number of selected samples
    all: int  # number of samples of the whole dataset
    value: str = ""  # its value as conditions write it; empty for an interval
    low: str = ""  # the least number of an interval as conditions write it
    high: str = ""  # the number at which an interval ends, which is inside the last interval only


@dataclass(frozen=True, slots=True)
class Histogram:
    """The values of a column."""

    kind: str  # `classes` or `numbers`
    bins: Sequence[Bin]  # the classes, or the intervals in ascending order
    missing: int  # number of selected samples without a value
    more: int = 0  # number of classes that are not shown; of texts that are all different, none is


def condition_name(column: str) -> str:
    """Return the name of a column in a condition."""
    if (
        all(part.isidentifier() or part.isdecimal() for part in column.split("."))
        and column[:1].isidentifier()
    ):
        return column
    return f"column({_text(column)})"


def _text(value: str) -> str:
    """Return any text as a literal of Python."""
    return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'


def histogram_of(
    column: str,
    values: np.ndarray,
    missing: Bools | None,
    selected: Any,
    *,
    labels: Sequence[str] = (),
    size: bool = False,
    logarithmic: bool = False,
    find: str = "",
) -> Histogram:
    """Return the histogram of a column.

    Args:
        column: Its name.
        values: Its value of each sample: bool, int, float, or an object array of str or of numbers.
        missing: Which samples have no value; None if all have one.
        selected: The selected samples: an index array, or None for all.
        labels: Names of classes by number.
        size: Whether the column holds sizes, lengths or counts: whole numbers, but never classes.
        logarithmic: Whether the intervals of numbers grow by a factor; negative numbers have none
            such.
        find: A text that the listed classes contain, in upper or lower case; empty for all.
    """
    values = drawable(values)
    present = _there(values, missing)
    every = values if present is None else values[present]
    chosen, lost = every, len(values) - len(every)
    if selected is not None:
        if present is None:
            chosen = values[selected]
        else:
            chosen = values[selected[present[selected]]]
        lost = len(selected) - len(chosen)
    name = condition_name(column)
    if values.dtype.kind == "O":
        return _of_texts(name, Counter(every.tolist()), Counter(chosen.tolist()), lost, find)
    if values.dtype.kind in ("b" if size else "biu") and len(every):
        classes = _classes(every, labels)
        if classes is not None:
            return _of_classes(name, classes, chosen, lost, labels, find)
    return Histogram("numbers", bins_of(name, every, chosen, logarithmic=logarithmic), lost)


def _there(values: np.ndarray, missing: Bools | None) -> Bools | None:
    """Return which samples have a value that can be drawn; None if all have, so that no copies are needed."""
    present = None if missing is None else ~missing
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        present = finite if present is None else present & finite
    return None if present is None or bool(present.all()) else present


def _of_texts(
    name: str, total: Counter[str], counted: Counter[str], lost: int, find: str
) -> Histogram:
    texts = [text for text, _ in total.most_common() if find.lower() in text.lower()]
    # such as captions: nothing to choose from
    if not find and len(total) > _TEXTS and total.most_common(1)[0][1] == 1:
        return Histogram("classes", [], lost, len(total))
    bins = [
        Bin(text or "(empty)", f"{name} == {_text(text)}", counted[text], total[text], _text(text))
        for text in texts[:_TEXTS]
    ]
    return Histogram("classes", bins, lost, len(texts) - len(bins))


def _of_classes(
    name: str,
    known: tuple[np.ndarray, I64],
    own: np.ndarray,
    lost: int,
    labels: Sequence[str],
    find: str,
) -> Histogram:
    counted = dict(zip(*(part.tolist() for part in _counted(own)), strict=True))
    unique = Counter(labels)
    bins: list[Bin] = []
    more = 0
    for number, total in zip(known[0].tolist(), known[1].tolist(), strict=True):
        label = f"{number} {class_name(number, labels)}".rstrip()
        if find.lower() not in label.lower():
            continue
        if len(bins) == _LISTED:
            more += 1
            continue
        named = label != str(number) and unique[labels[number]] == 1
        value = _text(labels[number]) if named else str(number)
        bins.append(Bin(label, f"{name} == {value}", counted.get(number, 0), total, value))
    return Histogram("classes", bins, lost, more)


def _classes(values: np.ndarray, labels: Sequence[str]) -> tuple[np.ndarray, I64] | None:
    """Return the different values and their counts; None if they are numbers rather than classes."""
    least, greatest = int(values.min()), int(values.max())
    named = bool(labels) and least >= 0 and greatest < len(labels)
    dense = least >= 0 and greatest < min(_MANY_CLASSES, len(values))
    # the usual case, without sorting all
    if not named and not dense and len(np.unique(values[:10_000])) > _CLASSES:
        return None
    classes, counts = _counted(values)
    few_gaps = dense and 2 * len(classes) > greatest - least and 2 * len(classes) <= len(values)
    # counts of objects thin out, classes do not
    few_gaps = few_gaps and int(counts.min()) * 50 > int(counts.mean())
    if named or len(classes) <= _CLASSES or few_gaps:
        return (classes, counts)
    return None


def _counted(values: np.ndarray) -> tuple[np.ndarray, I64]:
    """Return the different values, ascending, and how many there are of each."""
    if len(values):
        least, greatest = int(values.min()), int(values.max())
    else:
        least, greatest = 0, -1
    if values.dtype.kind == "b" or not 0 <= greatest - least < _MANY_CLASSES:
        return np.unique(values, return_counts=True)
    total = np.zeros(greatest - least + 1, np.int64)
    for first in range(0, len(values), _COUNTED):  # without a sorted copy of all
        numbers = (values[first : first + _COUNTED] - least).astype(np.int64, copy=False)
        total += np.bincount(numbers, minlength=len(total))
    classes = np.flatnonzero(total)
    return classes.astype(values.dtype) + values.dtype.type(least), total[classes]


def bins_of(
    name: str, every: np.ndarray, own: np.ndarray, *, logarithmic: bool = False
) -> list[Bin]:
    """Return the intervals between the least and the greatest value.

    Outliers do not make the intervals of the others too wide: they have an interval of their own at
    each end.
    """
    if not len(every):
        return []
    least, greatest = every.min().item(), every.max().item()
    if least == greatest:
        return [Bin(_spelled(least), f"{name} == {least!r}", len(own), len(every), repr(least))]
    edges = _edges(every, least, greatest, logarithmic=logarithmic and least >= 0)
    bounds = np.array(edges, np.float64)
    total, counted = np.histogram(every, bounds)[0].tolist(), np.histogram(own, bounds)[0].tolist()
    bins = []
    for number, (low, high) in enumerate(pairwise(edges)):
        # the last interval has the greatest value, too
        last = number == len(edges) - 2
        if last:
            high = max(high, greatest)
        condition = f"{name} >= {low!r} and {name} {'<=' if last else '<'} {high!r}"
        label = f"{_spelled(low)} to {_spelled(high)}"
        bins.append(
            Bin(label, condition, counted[number], total[number], "", repr(low), repr(high))
        )
    return bins


def _spelled(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"


def _edges(values: np.ndarray, least: Any, greatest: Any, *, logarithmic: bool) -> list[Any]:
    """Return the edges of the intervals, ascending, with the first and the last one."""
    whole = values.dtype.kind in "biu"
    if logarithmic:
        positive = values[values > 0]
        first = max(positive.min().item(), 1e-300)
        edges_of_bins = np.geomspace(first, greatest, _BINS + 1)
        inner = np.unique(np.ceil(edges_of_bins) if whole else edges_of_bins).tolist()
    else:
        low, high = _middle(values)
        if whole:
            low, high = int(low), -int(-high // 1)
        far = high > low and greatest - least > _FAR * (high - low)
        begin, end = (low, high) if far else (least, greatest)
        inner = _even(begin, end, whole=whole)
    edges = [least, *(edge for edge in inner if least < edge < greatest), greatest]
    return [int(edge) if whole else float(edge) for edge in edges]


def _middle(values: np.ndarray) -> tuple[float, float]:
    """Return the range of most values, without outliers."""
    some = values[:: max(1, len(values) // _SAMPLED)]
    ends = np.quantile(
        some, [quantile for tail in _TAILS for quantile in (tail, 1 - tail)]
    ).reshape(-1, 2)
    spans = ends[:, 1] - ends[:, 0]
    chosen = 0
    if spans[-1] > 0:
        chosen = int(np.argmax(spans <= _FAR * spans[-1]))
    low, high = ends[chosen].tolist()
    return low, high


def _even(begin: Any, end: Any, *, whole: bool) -> list[Any]:
    if whole:
        width = -(-(end - begin + 1) // _BINS)
        return [begin + width * number for number in range(-(-(end - begin + 1) // width) + 1)]
    edges: list[Any] = np.unique(np.linspace(begin, end, _BINS + 1)).tolist()
    return edges


_SIZES = frozenset(("bytes", "width", "height", "length", "frames", "duration", "channels", "hash"))
"""Last parts of the names of columns that hold sizes or hashes: they are never classes."""
_LARGEST = 20_000_000  # number of samples up to which histograms are made


class ColumnPages(Pages):
    """The handler of histograms."""

    @at("/api/{d:int}/histogram")
    def histogram(self, shown: Shown, request: Any) -> Any:
        """The histogram of a column, of the selected samples and of all."""
        parameters = request.query_params
        name = parameters.get("column", "")
        if len(shown.dataset) > _LARGEST:
            raise ValueError(f"histograms are made of up to {_LARGEST:,} samples")
        selection = select(shown, Query.of(parameters))
        values, missing = shown.column(name)
        histogram = histogram_of(
            name,
            values,
            missing,
            selection.positions,
            labels=shown.labels.get(name, ()),
            size=name not in shown.dataset.spec and name.rpartition(".")[2] in _SIZES,
            logarithmic=parameters.get("scale") == "log",
            find=parameters.get("find", ""),
        )
        answer = {"column": name, "name": condition_name(name), **asdict(histogram)}
        for entry in answer["bins"]:
            entry["label"] = plain_text(entry["label"])
        return answer
