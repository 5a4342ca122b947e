"""Errors about stored bytes that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from bushel._runtime.public import did_you_mean
from bushel.errors import CorruptError, FormatError
from bushel.kernels import ExtentError
from bushel.spec import KEY


def unreadable(
    error: ExtentError, key: str, field: str, file: str, offset: int
) -> CorruptError | FormatError:
    """Return the error for an extent that cannot be read."""
    value, hint = f"sample {key!r}, field {field!r}", "run `bushel verify` on the dataset"
    place: dict[str, Any] = {"file": file, "offset": offset, "hint": hint}
    if error.reason == "checksum":
        sums: dict[str, Any] = {"expected": error.expected, "found": error.found}
        what = f"has the CRC-32 {error.found:08x} where {error.expected:08x} was written"
        return CorruptError(f"{value} {what}", key=key, field=field, **sums, **place)
    if error.reason == "filter":
        what = f"is in a block that cannot be expanded: {error.what}"
        return CorruptError(f"{value} {what}", key=key, field=field, **place)
    if error.reason == "shrunk":
        what = (
            f"the file has shrunk from {error.expected} to {error.found} bytes since it was opened"
        )
    else:
        what = f"{value} ends at byte {error.expected} of a file of {error.found} bytes"
    return FormatError(what, **place)


_SHOWN = 3
_COMPARED = 10_000  # largest number of keys that are compared with one that no sample has


def _near_keys(key: str, keys: Sequence[str], find: Callable[[str], int | None]) -> list[str]:
    """Return keys that may be meant by one that no sample has: the names of its file, or similar keys."""
    from difflib import get_close_matches  # for mistakes only

    name = key.removeprefix("./")
    folder, _, last = name.rpartition("/")
    stem = last.partition(".")[0]
    forms = (name, f"{folder}/{stem}".lstrip("/"), last, stem, name.lower())
    named = [form for form in dict.fromkeys(forms) if form and find(form) is not None]
    return named or get_close_matches(key, dict.fromkeys(keys[:_COMPARED]), n=_SHOWN)


def unknown_key(
    key: str, keys: Sequence[str], find: Callable[[str], int | None], fields: Collection[str]
) -> str:
    """Return the message about a key that no sample has.

    Args:
        key: The key.
        keys: The keys of the dataset.
        find: Returns the position of a key, or None.
        fields: Names of its fields: a user may have meant one of them, not a key.
    """
    message = f"no sample has the key {key!r}; the dataset has {len(keys)} samples"
    if near := _near_keys(key, keys, find):
        message = f"{message}: did you mean {' or '.join(map(repr, near))}?"
    if key not in fields:
        return message
    return (
        f"{message}. {key!r} is a field: ds[0][{key!r}] is its value in a "
        f"sample, ds.select_fields([{key!r}]) is a view with this field "
        f"only, and ds.column({key!r}) is an array of its values in the index"
    )


def missing_field(name: object, sample: Iterable[str]) -> str:
    """Return the message about a field that a sample does not have."""
    fields = [field for field in sample if field != KEY]
    question = did_you_mean(str(name), fields)
    meant = f"{question} " if question else ""
    return f"unknown field {name!r}: {meant}the sample has {', '.join(fields) or 'no field'}"


def texts_as_positions(texts: Sequence[str], fields: Collection[str]) -> str:
    """Return the message about a list of texts where positions are expected."""
    shown = str(list(texts[:_SHOWN]))[:-1] + (", …]" if len(texts) > _SHOWN else "]")
    meant = f"ds.select_keys({shown}) is a view of the samples with these keys"
    if all(text in fields for text in texts):
        meant = f"ds.select_fields({shown}) is a view with these fields"
    return f"positions are integers, not texts: {meant}"


def wrong_position(item: object) -> str:
    """Return the message about an object that is not a position."""
    message = f"a position must be an integer, not {item!r}"
    whole = isinstance(item, float) and item.is_integer()
    if whole:
        return f"{message}: use ds[{item:.0f}]"
    return f"{message}; a key is a str, and a list gives a view"
