"""Check the fields of samples that a writer appends, and encode their values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bushel._dataset.read.shards import OpenShard
from bushel._index.table import MISSING, FieldExtents
from bushel.codecs.registry import NUMBERS, storing_codec
from bushel.containers.base import Layout, Stored
from bushel.errors import CodecError, SpecError
from bushel.spec import KEY, Field
from bushel.storage import AnyPath

_BYTES = (bytes, bytearray, memoryview)


class SampleEncoder:
    """Checks and encodes the samples of a dataset."""

    __slots__ = ("_allowed", "_columns", "_container", "_sparse")

    def __init__(self, container: str, layout: Layout) -> None:
        self._container, self._sparse = container, layout.sparse
        self._columns = [
            (column.field, storing_codec(column.field.codec, column.codec).encode)
            for column in layout.columns
        ]
        self._allowed = frozenset([KEY, *(column.field.name for column in layout.columns)])

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Stored]:
        """Return the stored bytes, or an iterator of them, of every field of a sample.

        Bytes-like values are stored as they are.

        Raises:
            SpecError: The sample does not have the fields of the spec.
            CodecError: A value cannot be encoded.
        """
        if not sample.keys() <= self._allowed:
            unknown = next(name for name in sample if name not in self._allowed)
            fields = ", ".join(field.name for field, _ in self._columns)
            raise SpecError(
                f"the sample has the field {unknown!r}, which is not in the spec ({fields})"
            )
        values: dict[str, Stored] = {}
        for field, encode in self._columns:
            name = field.name
            if name not in sample:
                if not self._sparse:
                    raise SpecError(
                        f"the sample lacks {name!r}, but a {self._container} needs every field"
                    )
                continue
            value = sample[name]
            if value is None and self._sparse and field.codec not in ("json", "msgpack"):
                continue
            if field.sequence:
                values[name] = _encode_elements(field, encode, value)
                continue
            try:
                if isinstance(value, _BYTES):
                    values[name] = _contiguous(value)
                else:
                    values[name] = encode(value)
            except CodecError as error:
                error.add_note(f"in the field {name!r}")
                if isinstance(value, str) and field.codec in NUMBERS:
                    error.add_note(
                        f"labels={{{name!r}: [names of classes]}} stores names as numbers"
                    )
                raise
        return values


def _encode_elements(field: Field, encode: Any, values: Iterable[Any]) -> Iterator[Any]:
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        raise SpecError(
            f"field {field.name!r} is a sequence: expected a list of values, not"
            f" {type(values).__name__}"
        )
    try:
        for value in values:
            yield _contiguous(value) if isinstance(value, _BYTES) else encode(value)
    except CodecError as error:
        error.add_note(f"in the field {field.name!r}")
        raise


def _contiguous(value: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    if isinstance(value, memoryview) and not value.c_contiguous:
        return value.tobytes()
    return value


class UsualFields:
    """The fields of a dataset that no sample lacks.

    They are looked up when a new sample lacks a field, so that others cost nothing. Appended
    samples may follow in the last shard; `samples` is their number before anything was appended.
    """

    def __init__(self, path: AnyPath, shards: Sequence[OpenShard], samples: int) -> None:
        self._path, self._shards, self.samples = path, tuple(shards), samples

    def check(self, given: Collection[str], fields: Collection[str]) -> None:
        """Check that new samples lack no field that every sample has. Fields whose value is None count as given.

        Raises:
            SpecError: They lack one.
        """
        lacking = [name for name in fields if name not in given]
        if missing := next((name for name in lacking if name in self._names), None):
            raise SpecError(
                f"the sample lacks {missing!r}, which every sample of {self._path} has: add it;"
                " or, if it has no value, "
                f"append it with {missing!r}: None; or write the samples to another path, and read"
                " both with "
                "bushel.concat"
            )

    @cached_property
    def _names(self) -> frozenset[str]:
        usual: set[str] | None = None
        left = self.samples
        for shard in self._shards:
            rows = min(left, shard.samples)
            left -= rows
            if rows > 0:
                fields = shard.index.fields
                everywhere = {
                    name for name, column in fields.items() if _in_every_row(column, rows)
                }
                usual = everywhere if usual is None else usual & everywhere
        return frozenset(usual or ())


def _in_every_row(column: FieldExtents, rows: int) -> bool:
    """Return whether none of the first `rows` samples lacks a value. An empty list is stored as no list."""
    if column.starts is None:
        return not (column.length[:rows] == MISSING).any()
    starts = column.starts[: rows + 1]
    return bool(np.diff(starts).all()) and not (column.length[: starts[-1]] == MISSING).any()
