"""Summary of fields: numbers and sizes of their values. Only the index is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

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
