"""Mapping the numbers of classes, where datasets that number them differently become one. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.class_names import Labels, can_be_named, join_names, numbered, numbers_classes
from bushel._runtime.structs import Struct
from bushel.errors import SpecError
from bushel.spec import Field, Spec

NewNumbers = npt.NDArray[np.int64]
"""int64[classes], the new number of each class; -1 for a number that no class has."""

_UNUSED = -1


class ClassNumbers(Struct, frozen=True):
    """The names of classes of a new dataset, and how the numbers of the source change."""

    labels: Labels  # field of the source to the names
    # for each shard of the source, field to new numbers, for fields whose numbers change
    changes: tuple[Mapping[str, NewNumbers], ...]
    # fields for which some shards have names and others do not; the numbers in the others are kept
    unnamed: tuple[str, ...]


def plan_numbers(known: Labels, shards: Sequence[Labels], fields: Spec) -> ClassNumbers:
    """Plan the numbers of a new dataset. Known classes keep their numbers, and new ones follow.

    Shards whose numbers agree with the earlier shards keep theirs; in the others, classes are found
    by their names. The result is the same if the names of the result are known already, as when a
    run is resumed.
    """
    labels: dict[str, tuple[str, ...]] = {
        name: tuple(names) for name, names in known.items() if names
    }
    changes = [_add(labels, shard, fields) for shard in shards]
    unnamed = tuple(
        name
        for name in labels
        if numbers_classes(fields, name) and not all(shard.get(name) for shard in shards)
    )
    return ClassNumbers(labels, tuple(changes), unnamed)


def _add(labels: dict[str, tuple[str, ...]], shard: Labels, fields: Spec) -> dict[str, NewNumbers]:
    """Add the names of a shard to `labels`, and return the new numbers of those fields whose numbers change."""
    changes: dict[str, NewNumbers] = {}
    for name, names in shard.items():
        if not names or not can_be_named(fields, name):
            continue
        existing = labels.get(name, ())
        joined = join_names(existing, names)
        if joined is not None:
            labels[name] = joined
            continue
        have = numbered(existing)
        labels[name] = (*existing, *(label for label in names if label and label not in have))
        if numbers_classes(fields, name):
            places = numbered(labels[name])
            changes[name] = np.array([places.get(label, _UNUSED) for label in names], np.int64)
    return changes


def names_in_target(labels: Labels, targets: Mapping[str, Field]) -> Labels:
    """Return names by the fields of the target, without fields that it lacks or stores as something else."""
    return _renamed(labels, {name: field.name for name, field in targets.items()}, targets.values())


def names_in_source(labels: Labels, targets: Mapping[str, Field]) -> Labels:
    """Return names by the fields of the source: the inverse of `names_in_target`."""
    fields = [Field(name, field.codec, field.sequence) for name, field in targets.items()]
    return _renamed(labels, {field.name: name for name, field in targets.items()}, fields)


def _renamed(labels: Labels, names: Mapping[str, str], fields: Iterable[Field]) -> Labels:
    spec = {field.name: field for field in fields}
    renamed = {}
    for name, names_of_classes in labels.items():
        whole, dot, rest = name.partition(".")
        new = names.get(name) or (f"{names[whole]}{dot}{rest}" if dot and whole in names else None)
        if new is not None and can_be_named(spec, new):
            renamed[new] = names_of_classes
    return renamed


def renumber(value: Any, numbers: NewNumbers, what: str) -> Any:
    """Return the new number of a class, or of each in a list or an array, in the type of the value.

    Raises:
        SpecError: The value is not the number of a class that has a name.
    """
    if isinstance(value, list):
        return [renumber(element, numbers, what) for element in value]
    if isinstance(value, np.ndarray):
        renumbered = [renumber(element, numbers, what) for element in value.ravel().tolist()]
        return np.array(renumbered, value.dtype).reshape(value.shape)
    whole = isinstance(value, int | float | np.integer | np.floating) and float(value).is_integer()
    number = int(value) if whole else _UNUSED
    if not 0 <= number < len(numbers) or numbers[number] == _UNUSED:
        raise SpecError(
            f"{what}: class {value!r} has no name, so its number in the new dataset is unknown."
            " Leave out this sample "
            "or field, or name all classes"
        )
    return type(value)(numbers[number])
