"""Columns in a few numbers: counts, ranges and frequent values. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import drawable, objects_of

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


def summary(name: str, column: np.ndarray) -> ColumnSummary:
    """Summarise a column that `Dataset.column` returned."""
    present: np.ndarray = np.ma.asarray(column).compressed()
    missing = len(column) - len(present)
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
    low = high = mean = None
    if kind not in ("text", "bool") and len(numbers):
        low, high = numbers.min().item(), numbers.max().item()
        mean = float(numbers.mean(dtype=np.float64))
    return ColumnSummary(name, kind, len(present), missing, len(distinct), low, high, mean, top)
