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
from bushel.codecs import is_registered
from bushel.spec import KEY

from .shards import OpenShard

_WHOLE: tuple[Kind, ...] = ("int", "uint")
_KINDS: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("int", "uint", "i64", "u64", "cls", "varint", "recordio-label-int"), _WHOLE),
    **dict.fromkeys(("float", "f32", "float-text", "recordio-label"), ("float",)),
    "bool": ("bool",),
    "utf8": ("text",),
}
_ABSENT = object()  # takes the place of the value of a sample that lacks the field


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
        By field the value of each sample, without fields that have a value which must be read.
    """
    values_of_fields: dict[str, list[Any]] = {}
    for name in names:
        values: list[Any] = [_ABSENT] * samples
        if all([_fill(values, group, name) for group in groups if name in group.index.fields]):
            values_of_fields[name] = values
    return values_of_fields


def complete(values: Sequence[Any]) -> bool:
    """Return whether all samples have a value, of values that `known_values` found."""
    return not any(value is _ABSENT for value in values)


class KnownFields:
    """Decides which fields need not be read. All are where bytes are compared with checksums, as `checks` says."""

    def __init__(self, shards: Sequence[OpenShard], checks: Callable[[OpenShard], bool]) -> None:
        self._shards, self._checks = shards, checks
        self._exact: dict[tuple[int, str], bool] = {}

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
            if elements is not None or not self._has(number, index, name):
                return None
            if (value := _known_value(index.columns[name], row)) is None:
                return None
            values[name] = value
        return {KEY: str(position) if index.keys is None else index.keys[row], **values}

    def unknown(
        self, groups: Sequence[Group], wanted: Mapping[str, Elements]
    ) -> dict[str, Elements]:
        """Return the fields of a batch that have to be read, as its indexes do not have them."""
        return {
            name: elements
            for name, elements in wanted.items()
            if elements is not None or not self._all_have(groups, name)
        }

    def _all_have(self, groups: Sequence[Group], name: str) -> bool:
        """Return whether all shards of a batch with a field also have its values; False if no shard has the field."""
        having = [group for group in groups if name in group.index.fields]
        return bool(having) and all(self._has(group.number, group.index, name) for group in having)

    def _has(self, number: int, index: ShardIndex, name: str) -> bool:
        if (exact := self._exact.get((number, name))) is None:
            exact = self._exact[number, name] = exact_kind(
                index, name
            ) is not None and not self._checks(self._shards[number])
        return exact


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


def _fill(out: list[Any], group: Group, name: str) -> bool:
    column, values = group.index.fields[name], group.index.columns[name]
    try:
        values_there: list[Any] = (
            values.few_texts(group.rows)
            if values.values is None
            else values.values[group.rows].tolist()
        )
    except ValueError:  # a damaged index: reading goes by other arrays
        return False
    if (
        values.missing is not None
        and (missing := values.missing.view(np.uint8)[group.rows] != 0).any()
    ):
        if (column.length[group.rows[missing]] != MISSING).any():
            return False
        for place in np.flatnonzero(missing).tolist():
            values_there[place] = _ABSENT
    if group.places is None:
        out[:] = values_there
    else:
        for place, value in zip(group.places.tolist(), values_there, strict=True):
            out[place] = value
    return True


def merged(
    samples: Sequence[dict[str, Any]], known: Mapping[str, list[Any]], names: Collection[str]
) -> list[dict[str, Any]]:
    """Return samples with their known values, in the order of the fields."""
    last = list(names)[len(names) - len(known) :]
    # they follow the fields that were read
    if known.keys() == set(last) and all(map(complete, known.values())):
        for name in last:
            for sample, value in zip(samples, known[name], strict=True):
                sample[name] = value
        return list(samples)
    full = []
    for place, sample in enumerate(samples):
        whole = {KEY: sample[KEY]}
        for name in names:
            if (values := known.get(name)) is None:
                if name in sample:
                    whole[name] = sample[name]
            elif (value := values[place]) is not _ABSENT:
                whole[name] = value
        full.append(whole)
    return full
