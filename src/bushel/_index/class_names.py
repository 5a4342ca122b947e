"""Names of classes for the numbers in a label field. Nothing here does I/O.

`{"label": ("cat", "dog")}` means that a sample with the label 1 shows a dog. An empty name stands
for a number that no class has. Names are kept in the index of each shard and in the manifest. They
only grow at the end, so the names in an older shard are the beginning of those in a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from bushel.codecs.registry import NUMBERS
from bushel.errors import SpecError
from bushel.spec import Spec

Labels = Mapping[str, tuple[str, ...]]
"""Field to the names of its classes, in the order of their numbers. `meta.label` is a member of a JSON field."""

MAX_NAMES = 1 << 20
"""Largest number of classes of a field."""
MAX_NAME_LENGTH = 1024
"""Largest number of characters in a name."""


def holds_numbers(fields: Spec, name: str) -> bool:
    """Return whether names of this field stand for numbers; else the field has texts or JSON."""
    return _base(fields, name) in NUMBERS


def _base(fields: Spec, name: str) -> str:
    return fields[name].codec.partition("(")[0] if name in fields else ""


def numbers_classes(fields: Spec, name: str) -> bool:
    """Return whether names of this field stand for numbers: values are numbers, or arrays that may hold several."""
    return _base(fields, name) in (*NUMBERS, "array")


def can_be_named(fields: Spec, name: str) -> bool:
    """Return whether a dataset with these fields can have names for `name`: a field, or a member of a JSON field."""
    if name in fields:
        return numbers_classes(fields, name) or fields[name].codec == "utf8"
    return _base(fields, name.partition(".")[0]) in ("json", "msgpack")


def labels_of_fields(labels: Labels, names: Iterable[str]) -> Labels:
    """Return the names of these fields only."""
    chosen = set(names)
    labels_kept = {
        name: classes
        for name, classes in labels.items()
        if name in chosen or name.partition(".")[0] in chosen
    }
    return labels if len(labels_kept) == len(labels) else labels_kept


def check_labels(labels: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Check names, and return them in the stored form.

    Raises:
        SpecError: A name is not text or is too long, two classes have the same name, or there are
            too many.
    """
    checked: dict[str, tuple[str, ...]] = {}
    if not isinstance(labels, Mapping):
        raise SpecError(
            "labels= gives names of classes by field, such as {'label': "
            f"['cat', 'dog']}}, not a {type(labels).__name__}"
        )
    for field, classes in labels.items():
        if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
            raise SpecError(
                f"the class names of field {field!r} must be "
                f"a list of text, not {type(classes).__name__}"
            )
        names = tuple(classes)
        if len(names) > MAX_NAMES:
            raise SpecError(
                f"field {field!r} has {len(names):,} class names, more than {MAX_NAMES:,}"
            )
        for name in names:
            if not isinstance(name, str):
                raise SpecError(
                    f"the class names of field {field!r} must be "
                    f"text, not {type(name).__name__}: {name!r}"
                )
            if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
                raise SpecError(
                    f"class name {name!r} of field {field!r} is not UTF-8: rename that class"
                )
            if len(name) > MAX_NAME_LENGTH:
                raise SpecError(
                    f"a class name of field {field!r} has {len(name):,} "
                    f"characters, more than {MAX_NAME_LENGTH:,}"
                )
        seen: dict[str, int] = {}
        for number, name in enumerate(names):
            if name and seen.setdefault(name, number) != number:
                raise SpecError(
                    f"classes {seen[name]} and {number} of field "
                    f"{field!r} have the same name {name!r}"
                )
        if names:
            checked[field] = _one(names)
    return checked


@lru_cache(maxsize=64)
def _one(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one object for equal names, which all shards of a dataset have."""
    return names


def numbered(names: Sequence[str]) -> dict[str, int]:
    """Return a mapping of names to their numbers."""
    return {name: number for number, name in enumerate(names) if name}


def with_numbers(value: Any, numbers: Mapping[str, int]) -> Any:
    """Return a value, or a list of values, with numbers in place of the names of classes. Other texts stay."""
    if isinstance(value, str):
        return numbers.get(value, value)
    if getattr(getattr(value, "dtype", None), "kind", None) in ("O", "U", "T"):
        value = value.tolist()
    if isinstance(value, list | tuple) and any(
        isinstance(element, str | list | tuple) for element in value
    ):
        return [with_numbers(element, numbers) for element in value]
    return value


def in_order(numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of some numbers in order, with an empty name for each number that is left out.

    The result is empty if the numbers cannot number classes: negative, used twice, or far too
    large.
    """
    used = set(numbers.values())
    if (
        not numbers
        or len(used) < len(numbers)
        or min(used) < 0
        or max(used) >= min(64 * len(used) + 1024, MAX_NAMES)
    ):
        return ()
    names = [""] * (max(used) + 1)
    for name, number in numbers.items():
        names[number] = name
    return tuple(names)


def join_names(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of both if they agree about every number, else None."""
    if first is second or tuple(second) == tuple(first[: len(second)]):
        return tuple(first)
    if len(first) >= len(second):
        longer, shorter = first, second
    else:
        longer, shorter = second, first
    joined = list(longer)
    for number, name in enumerate(shorter):
        if name and joined[number] and joined[number] != name:
            return None
        joined[number] = joined[number] or name
    named = [name for name in joined if name]
    if len(set(named)) == len(named):
        return tuple(joined)
    return None


def join_labels(each: Iterable[tuple[str, Labels]], fields: Spec) -> dict[str, tuple[str, ...]]:
    """Return the names of several shards or datasets as one.

    Args:
        each: A description of the owner of the names, for errors, and the names.
        fields: The fields. Others are left out.

    Raises:
        SpecError: Two of them give different names to the same number of a field.
    """
    joined: dict[str, tuple[str, ...]] = {}
    origins: dict[str, str] = {}
    last: Labels = {}
    for origin, labels in each:
        if labels is last:
            continue
        last = labels
        for field, names in labels.items():
            if not can_be_named(fields, field) or joined.get(field) is names:
                continue
            earlier = joined.get(field, ())
            joint = join_names(earlier, names)
            if joint is None and not numbers_classes(fields, field):
                joint = (*earlier, *(name for name in names if name not in set(earlier)))
            if joint is None:
                raise SpecError(_difference(field, origins[field], earlier, origin, names))
            joined[field] = _one(joint)
            origins.setdefault(field, origin)
    return joined


def _difference(
    field: str, first: str, earlier: Sequence[str], second: str, names: Sequence[str]
) -> str:
    number = next(
        (n for n, (a, b) in enumerate(zip(earlier, names, strict=False)) if a and b and a != b),
        None,
    )
    if number is None:
        twice = next(
            name
            for at, name in enumerate(names)
            if name and name in earlier and earlier.index(name) != at
        )
        what = (
            f"{twice!r} is class {earlier.index(twice)} in "
            f"{first} and {names.index(twice)} in {second}"
        )
    else:
        what = f"class {number} is {earlier[number]!r} in {first} and {names[number]!r} in {second}"
    return (
        f"field {field!r} has different class numbers: {what}. "
        "`bushel merge` (bushel.merge) writes one dataset with one numbering"
    )
