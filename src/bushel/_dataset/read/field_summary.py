"""Fields and columns in a few numbers: counts, sizes, ranges and frequent values. Only the index is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._index.columns import drawable, objects_of
from bushel._index.table import MISSING, FieldExtents

from .shards import OpenShard


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The summary of one field."""

    name: str  # name of the field
    type: str
    codecs: str  # codecs of the stored bytes, joined by `+` if shards differ
    samples: int  # number of samples that have the field
    elements: int  # number of values: one per sample, or the elements of all sequences
    bytes: int  # size of all values in bytes
    mean: float  # mean size of a value in bytes
    min: int  # size of the shortest value in bytes
    max: int  # size of the longest value in bytes


def summarise(shards: Iterable[OpenShard], spec: Mapping[str, str]) -> list[FieldSummary]:
    """Return the sizes of the fields. Only the index is read."""
    indexes = [shard.index for shard in shards]
    return [
        _summarise(name, kind, [index.fields[name] for index in indexes if name in index.fields])
        for name, kind in spec.items()
    ]


def _summarise(name: str, kind: str, parts: list[FieldExtents]) -> FieldSummary:
    samples = elements = total = longest = 0
    shortest: int | None = None
    for column in parts:
        length = column.length[column.length != MISSING]
        if column.starts is None:
            samples += len(length)
        else:
            lists = len(column.starts) - 1
            samples += (
                lists if column.absent is None else lists - int(np.count_nonzero(column.absent))
            )
        elements += len(length)
        if len(length):
            total += int(length.sum())
            longest = max(longest, int(length.max()))
            if shortest is None:
                shortest = int(length.min())
            else:
                shortest = min(shortest, int(length.min()))
    codecs = "+".join(dict.fromkeys(column.codec for column in parts))
    mean = total / elements if elements else 0.0
    return FieldSummary(name, kind, codecs, samples, elements, total, mean, shortest or 0, longest)


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
