"""Field values that are taken from columns of the index instead of the data files.

Only columns that hold exactly what decoding gives are used: numbers of the codecs for numbers, and
texts of `utf8`. Values that a column lacks (long texts, damaged values) are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from bushel._index.columns import Column, Kind
from bushel._index.elements import Elements, Group
from bushel._index.table import MISSING, ShardIndex
from bushel._runtime.arrays import Array, Bools
from bushel.codecs import is_registered
from bushel.codecs.base import INTEGERS, REAL
from bushel.spec import KEY

from .shards import OpenShard

_WHOLE: tuple[Kind, ...] = ("int", "uint")
_KINDS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys((*INTEGERS, "varint", "recordio-label-int"), _WHOLE),
    **dict.fromkeys((*REAL, "recordio-label"), ("float",)),
    "bool": ("bool",),
    "utf8": ("text",),
}


def exact_kind(index: ShardIndex, name: str) -> Kind | None:
    """Return the kind of a field's column in a shard if its values equal the decoded ones exactly, else None."""
    column, values = index.fields.get(name), index.columns.get(name)
    if column is None or values is None or values.types is not None or column.starts is not None:
        return None
    base, kinds = _kinds_of(column.codec)
    if values.kind in kinds and not is_registered(base):
        return values.kind
    return None


@cache
def _kinds_of(codec: str) -> tuple[str, tuple[Kind, ...]]:
    base = codec.removeprefix("as(").partition("(")[0].partition(",")[0]
    return base, _KINDS.get(base, ())


def known_values(
    groups: Sequence[Group], samples: int, names: Iterable[str]
) -> dict[str, list[Any]]:
    """Return the values of fields with exact columns in all shards that have the field.

    Returns:
        By field the value of each sample, None where it lacks the field; without fields that have
        a value which must be read.
    """
    values_of_fields: dict[str, list[Any]] = {}
    for name in names:
        values, missing = np.empty(samples, object), np.ones(samples, np.bool_)
        having = [group for group in groups if name in group.index.fields]
        if all(_fill(values, missing, group, name) for group in having):
            values[missing] = None
            values_of_fields[name] = values.tolist()
    return values_of_fields


class KnownFields:
    """Decides which fields need not be read. All are where bytes are compared with checksums, as `checks` says."""

    def __init__(self, shards: Sequence[OpenShard], checks: Callable[[OpenShard], bool]) -> None:
        self._shards, self._checks = shards, checks
        self._kinds: dict[tuple[int, str], Kind | None] = {}

    def sample(
        self,
        number: int,
        index: ShardIndex,
        row: int,
        position: int,
        wanted: Mapping[str, Elements],
    ) -> dict[str, Any] | None:
        """Return a sample whose values the index has, or None if one of them has to be read.

        Args:
            number: Number of its shard.
            index: The table of the shard.
            row: Number of the sample in the shard.
            position: Number of the sample in the dataset, which is the key of a sample without one.
            wanted: The fields, and which elements of each.
        """
        values: dict[str, Any] = {}
        for name, elements in wanted.items():
            if elements is not None or self.kind(number, name) is None:
                return None
            if (value := _known_value(index.columns[name], row)) is None:
                return None
            values[name] = value
        return {KEY: str(position) if index.keys is None else index.keys[row], **values}

    def unknown(
        self, groups: Sequence[Group], wanted: Mapping[str, Elements]
    ) -> dict[str, Elements]:
        """Return the fields of a batch that have to be read, as its indexes do not have them."""
        unknown: dict[str, Elements] = {}
        for name, elements in wanted.items():
            having = [group for group in groups if name in group.index.fields]
            kinds = (self.kind(group.number, name) for group in having)
            if elements is not None or not having or not all(kinds):
                unknown[name] = elements
        return unknown

    def kind(self, number: int, name: str) -> Kind | None:
        """Return the kind of a field's column in a shard that gives what reading gives; None if it must be read."""
        place = number, name
        if place not in self._kinds:
            shard = self._shards[number]
            exact = exact_kind(shard.index, name)
            checked = exact is not None and self._checks(shard)
            self._kinds[place] = None if checked else exact
        return self._kinds[place]


def _known_value(values: Column, row: int) -> Any:
    """Return the value of one sample in an exact column; None if it has to be read, or the sample may lack it."""
    if values.missing is not None and values.missing.item(row):
        return None
    try:
        if values.values is None:
            return values.few_texts(np.array([row]))[0]
        return values.values.item(row)
    except ValueError:  # a damaged index: reading goes by other arrays
        return None


def copy_values(column: Column, group: Group, out: Array, missing: Bools) -> None:
    """Copy the values that a column has of samples to their places in a batch.

    Args:
        column: A column of the group's shard.
        group: The samples.
        out: [n], contiguous, for the values of the batch: objects, or numbers of the column's type.
        missing: bool[n], for whether the column lacks a value; `out` holds anything there.

    Raises:
        ValueError: The index is damaged.
    """
    places: Any = slice(None) if group.places is None else group.places
    values = column.values
    if values is None:
        out[places] = column.few_texts(group.rows)
    elif isinstance(values, np.ndarray) or group.places is not None or out.dtype.hasobject:
        out[places] = values[group.rows]
    else:
        values.write(group.rows, out)  # lines compute their numbers
    if column.missing is None:
        missing[places] = False
    else:
        missing[places] = column.missing.view(np.uint8)[group.rows]


def _fill(out: Array, missing: Bools, group: Group, name: str) -> bool:
    """Copy the values of one shard. Return whether no sample has a value that must be read."""
    column = group.index.columns[name]
    try:
        copy_values(column, group, out, missing)
    except ValueError:  # a damaged index: reading goes by other arrays
        return False
    if column.missing is None:
        return True
    rows = group.rows[missing[group.in_batch]]
    return bool((group.index.fields[name].length[rows] == MISSING).all())


def merged(
    samples: Sequence[dict[str, Any]], known: Mapping[str, list[Any]], names: Collection[str]
) -> list[dict[str, Any]]:
    """Return samples with their known values, in the order of the fields."""
    for name, values in known.items():
        for sample, value in zip(samples, values, strict=True):
            if value is not None:
                sample[name] = value
    order = [KEY, *names]
    if order[len(order) - len(known) :] == list(known):  # they follow the fields that were read
        return list(samples)
    return [{name: sample[name] for name in order if name in sample} for sample in samples]
