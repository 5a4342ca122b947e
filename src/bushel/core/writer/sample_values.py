"""Check and encode the samples that a writer appends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bushel.codecs import get_codec
from bushel.containers.base import Layout, Stored
from bushel.core.dataset.shards import OpenShard
from bushel.core.index.key_lookup import KeyTable
from bushel.errors import SpecError
from bushel.spec import KEY, Field, Spec

__all__ = ["KeyCheck", "encode_sample"]


def encode_sample(
    sample: Mapping[str, Any], fields: Spec, container: str, layout: Layout
) -> Iterator[tuple[str, Stored]]:
    """Yield the name and the stored bytes, or an iterator of them, of every field of a sample.

    Args:
        sample: Field to value. Bytes-like values are stored as they are.
        fields: The writer's fields.
        container: Name of the container.
        layout: How it stores the fields.

    Raises:
        SpecError: The sample does not have the fields of the spec.
        CodecError: A value cannot be encoded.
    """
    unknown = [name for name in sample if name not in fields and name != KEY]
    if unknown:
        raise SpecError(f"the sample has the field {unknown[0]!r}, which is not in the spec ({', '.join(fields)})")
    for column in layout.columns:
        field = column.field
        if field.name not in sample:
            if not layout.sparse:
                raise SpecError(f"the sample lacks {field.name!r}, but a {container} needs every field")
            continue
        value = sample[field.name]
        if value is None and layout.sparse and field.codec not in ("json", "msgpack"):
            continue
        encode = get_codec(column.codec).encode
        if field.sequence:
            yield field.name, _encode_elements(field, encode, value)
        else:
            yield field.name, _contiguous(value) if isinstance(value, bytes | bytearray | memoryview) else encode(value)


def _encode_elements(field: Field, encode: Any, values: Iterable[Any]) -> Iterator[Any]:
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        raise SpecError(f"field {field.name!r} is a sequence: expected a list of values, not {type(values).__name__}")
    for value in values:
        yield _contiguous(value) if isinstance(value, bytes | bytearray | memoryview) else encode(value)


def _contiguous(value: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    return value.tobytes() if isinstance(value, memoryview) and not value.c_contiguous else value


class KeyCheck:
    """The keys of a dataset. Either all samples have a key, or none.

    Args:
        shards: The finished shards of the dataset.
        keys: Keys of the samples that are not in them.
        needs_keys: Whether the container needs keys; samples without a key then get their position.
    """

    def __init__(self, shards: list[OpenShard], keys: Iterable[str], *, needs_keys: bool) -> None:
        self._table = KeyTable.of(shards) if shards else None
        self._keys = set(keys)
        self._needs_keys = needs_keys

    def check(self, key: str | None, position: int) -> str:
        """Return the key of a new sample.

        Raises:
            TypeError: The key is not a str.
            ValueError: The key is missing, or another sample has it.
        """
        if key is None:
            if not self._needs_keys:
                raise ValueError("this sample has no key, but the samples before it have one: pass key=")
            key = f"{position:09d}"
        if not isinstance(key, str):
            raise TypeError(f"a key must be a str, not {type(key).__name__}: use str({key!r})")
        if key in self._keys or (self._table is not None and next(self._table.find(key), None) is not None):
            raise ValueError(f"key {key!r} is in the dataset already")
        return key

    def add(self, key: str) -> None:
        """Add the key of a sample that was written."""
        self._keys.add(key)

    def check_all(self, keys: Sequence[str]) -> None:
        """Check the keys of many new samples.

        Raises:
            TypeError: A key is not a str.
            ValueError: Two samples have the same key, or another sample has one of them.
        """
        if wrong := [key for key in keys if not isinstance(key, str)]:
            raise TypeError(f"a key must be a str, not {type(wrong[0]).__name__}: use str({wrong[0]!r})")
        new = set(keys)
        if len(new) < len(keys):
            twice = next(key for key, count in Counter(keys).items() if count > 1)
            raise ValueError(f"key {twice!r} is given twice")
        known = next(iter(new & self._keys), None) if self._keys else None
        if known is None and self._table is not None:
            known = next((key for key in keys if next(self._table.find(key), None) is not None), None)
        if known is not None:
            raise ValueError(f"key {known!r} is in the dataset already")

    def add_all(self, keys: Iterable[str]) -> None:
        """Add the keys of samples that were written."""
        self._keys.update(keys)
