"""Columns in a few numbers: counts, ranges, frequent values, and small histograms. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.columns import drawable, objects_of

_BARS = "▁▂▃▄▅▆▇█"
_BINS = 20
_NAMED = 5  # values that are shown of a column with few different ones
_FEW = 10  # integers with up to this many different values are counted one by one, like texts


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The summary of a column."""

    name: str  # name of the column
    kind: str  # `int`, `float`, `bool` or `text`
    values: int  # number of samples with a value
    missing: int  # number of samples without one
    distinct: int  # number of different values
    min: float | None  # the smallest number; None for texts and without finite values
    max: float | None  # the largest number
    mean: float | None  # the mean of the numbers
    # the most frequent values with their counts, of texts, truth values and integers of few values
    top: tuple[tuple[Any, int], ...]
    # counts of numbers in bins of equal width from `min` to `max`; empty if `top` has all values
    histogram: tuple[int, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Its name, kind, counts of values, missing and different ones, mean, least and greatest number, as texts."""
        counts = (f"{count:,}" for count in (self.values, self.missing, self.distinct))
        numbers = (
            "" if number is None else f"{number:,.6g}" for number in (self.mean, self.min, self.max)
        )
        return self.name, self.kind, *counts, *numbers

    @property
    def frequent(self) -> str:
        """The most frequent values with their counts, as text; empty if they are not counted."""
        texts = ((str(value)[:40], many) for value, many in self.top)
        shown = ", ".join(
            f"{text if text.isprintable() else ascii(text)} ({many:,})" for text, many in texts
        )
        return shown + (", …" if self.top and len(self.top) < self.distinct else "")


def summary(name: str, column: npt.NDArray[Any]) -> ColumnSummary:
    """Summarise a column that `Dataset.column` returned."""
    masked = isinstance(column, np.ma.MaskedArray)
    present: npt.NDArray[Any] = (
        column.compressed() if isinstance(column, np.ma.MaskedArray) else column
    )
    missing = len(column) - len(present) if masked else 0
    if present.dtype.kind in "mM":
        present = objects_of(present.astype(str).tolist())
    else:
        present = drawable(present)
    kind = {"O": "text", "b": "bool", "f": "float"}.get(present.dtype.kind, "int")
    distinct, counts = np.unique(present, return_counts=True)
    top: tuple[tuple[Any, int], ...] = ()
    if kind in ("text", "bool") or (kind == "int" and len(distinct) <= _FEW):
        order = np.argsort(-counts, kind="stable")[: _FEW if kind == "int" else _NAMED]
        top = tuple(zip(distinct[order].tolist(), counts[order].tolist(), strict=True))
    numbers = present[np.isfinite(present)] if kind == "float" else present
    if kind in ("text", "bool") or not len(numbers):
        return ColumnSummary(
            name, kind, len(present), missing, len(distinct), None, None, None, top, ()
        )
    low, high, mean = (
        numbers.min().item(),
        numbers.max().item(),
        float(numbers.mean(dtype=np.float64)),
    )
    histogram: tuple[int, ...] = ()
    span = float(high) - float(low)
    if not top and 0 < span < float("inf"):
        places = (numbers.astype(np.float64) - float(low)) * (_BINS / span)
        histogram = tuple(
            np.bincount(np.clip(places, 0, _BINS - 1).astype(np.int64), minlength=_BINS).tolist()
        )
    return ColumnSummary(
        name, kind, len(present), missing, len(distinct), low, high, mean, top, histogram
    )


def bars(counts: tuple[int, ...]) -> str:
    """Return counts as a line of bars. The highest bar stands for the largest count. Zero is a blank."""
    most = max(counts, default=0)
    return "".join(
        " " if not count else _BARS[min(count * len(_BARS) // (most + 1), len(_BARS) - 1)]
        for count in counts
    )
