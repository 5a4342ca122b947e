"""Check the fields of samples and the columns that a writer appends, and encode their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel._dataset.read.shards import OpenShard
from bushel._index.table import MISSING, FieldExtents
from bushel._runtime.arrays import I64, NO_NUMBERS, joined
from bushel._runtime.messages import few
from bushel.codecs.columns import is_stored, without_arrow
from bushel.codecs.extensions import storing_codec
from bushel.codecs.registry import NUMBERS
from bushel.containers.base import Layout, LayoutField, Stored
from bushel.containers.stored_column import LARGE, StoredColumn
from bushel.errors import CodecError, SpecError
from bushel.kernels import bytes_offsets, join_bytes
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath

_BYTES = (bytes, bytearray, memoryview)

CHUNK = 1 << 19
"""Stored bytes that `extend` frames at once."""
# stored bytes that `extend` passes to the system at once if none of them have to be copied
_LARGE_CHUNK = 1 << 23


class SampleEncoder:
    """Checks and encodes the samples of a dataset.

    Attributes:
        container: Name of the container.
        layout: How it stores samples.
    """

    def __init__(self, container: str, layout: Layout) -> None:
        self.container, self.layout = container, layout
        self._columns = [
            (column.field, storing_codec(column.field.codec, column.codec).encode)
            for column in layout.columns
        ]
        self._allowed = frozenset([KEY, *(column.field.name for column in layout.columns)])

    def __call__(
        self, sample: Mapping[str, Any], classes: Mapping[str, Collection[str]] = {}
    ) -> dict[str, Stored]:
        """Return the stored bytes, or an iterator of them, of every field of a sample.

        Bytes-like values are stored as they are. `classes` are the names of classes by field,
        for errors.

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
                if not self.layout.sparse:
                    raise SpecError(
                        f"the sample lacks {name!r}, but a {self.container} needs every field"
                    )
                continue
            value = sample[name]
            if value is None and self.layout.sparse and field.codec not in ("json", "msgpack"):
                continue
            if field.sequence:
                values[name] = _encode_elements(field, encode, value)
                continue
            try:
                values[name] = _stored(value, encode)
            except CodecError as error:
                error.add_note(f"in the field {name!r}")
                is_class = isinstance(value, str) and field.codec in NUMBERS
                if is_class and name in classes:
                    error.add_note(f"its classes are {few([*map(repr, classes[name])])}")
                elif is_class:
                    error.add_note(
                        f"labels={{{name!r}: [names of classes]}} stores names as numbers"
                    )
                raise
        return values


def check_list(field: Field, values: object) -> None:
    """Raise SpecError if the value of a sequence field is text, bytes or a dict."""
    if isinstance(values, (str, *_BYTES, Mapping)):
        raise SpecError(
            f"field {field.name!r} is a sequence: expected "
            f"a list of values, not {type(values).__name__}"
        )


def _encode_elements(field: Field, encode: Any, values: Iterable[Any]) -> Iterator[Any]:
    check_list(field, values)
    try:
        for value in values:
            yield value if type(value) is bytes else _stored(value, encode)
    except CodecError as error:
        error.add_note(f"in the field {field.name!r}")
        raise


def _stored(value: Any, encode: Callable[[Any], Buffer]) -> Buffer:
    """Return the stored bytes of a value. Bytes are stored as they are."""
    if not isinstance(value, _BYTES):
        return encode(value)
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
                f"the sample lacks {missing!r}, which every sample of {self._path} has: "
                f"add it; or, if it has no value, append it with {missing!r}: None; or "
                "write the samples to another path, and read both with bushel.concat"
            )

    @cached_property
    def _names(self) -> frozenset[str]:
        everywhere: list[set[str]] = []
        left = self.samples
        for shard in self._shards:
            rows = min(left, shard.samples)
            left -= rows
            if rows > 0:
                fields = shard.index.fields.items()
                everywhere.append({name for name, column in fields if _in_every_row(column, rows)})
        return frozenset(everywhere[0].intersection(*everywhere) if everywhere else ())


def _in_every_row(column: FieldExtents, rows: int) -> bool:
    """Return whether none of the first `rows` samples lacks a value. An empty list is stored as no list."""
    if column.starts is None:
        return not (column.length[:rows] == MISSING).any()
    starts = column.starts[: rows + 1]
    return bool(np.diff(starts).all()) and not (column.length[: starts[-1]] == MISSING).any()


class BytesInList(Struct, frozen=True):
    """Stored bytes of one plain field of many samples, which are joined when some of them are written.

    A buffer of all values at once would be new memory; one of a few is memory that the process
    already has.
    """

    # the value of each sample; it is the list of the caller: a copy would touch each value once
    # more
    values: list[bytes]
    offsets: I64  # int64[n + 1], where each value would begin if they were joined

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> bytes:
        return self.values[row]

    def rows(self, first: int, last: int) -> StoredColumn:
        """Return the values of samples `first` to `last`. Raise ValueError if another thread has changed the list."""
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return StoredColumn(
            np.frombuffer(join_bytes(self.values, first, last, int(offsets[-1])), np.uint8), offsets
        )


class StoredBatch(Struct, frozen=True):
    """Encoded samples: columns, or values sample by sample where a field is a sequence or missing."""

    samples: int
    size: int  # stored bytes of all values
    # stored bytes by field; empty if `values` has them
    columns: dict[str, StoredColumn | BytesInList] = {}
    values: Sequence[dict[str, Stored]] = ()  # the values of each sample, or none
    # int64[samples + 1], bytes of all columns up to each sample, plus a constant
    ends: I64 = NO_NUMBERS
    # whether the samples are large on average, and are in buffers already, so that writing them
    # copies nothing
    is_large: bool = False

    @classmethod
    def of(cls, samples: int, columns: dict[str, StoredColumn | BytesInList]) -> StoredBatch:
        """Return samples given as columns."""
        # the array of a single column as it is, without a copy
        ends: I64 = reduce(np.add, [column.offsets for column in columns.values()])
        size = int(ends[-1] - ends[0])
        in_buffers = not any(isinstance(column, BytesInList) for column in columns.values())
        is_large = in_buffers and size >= LARGE * max(samples, 1)
        return cls(samples, size, columns, ends=ends, is_large=is_large)

    def sample(self, row: int) -> dict[str, Stored]:
        """Return the stored bytes of one sample, as a shard's `append` takes them."""
        if self.values:
            return self.values[row]
        return {name: column[row] for name, column in self.columns.items()}

    def rows(self, first: int, most: int) -> tuple[int, dict[str, StoredColumn]]:
        """Return the samples from `first` on that are written at once, `most` at most, and where they end."""
        limit = _LARGE_CHUNK if self.is_large else CHUNK
        end = int(self.ends.searchsorted(self.ends[first] + limit, side="right")) - 1
        end = min(max(first + 1, end), first + most)
        return end, {name: column.rows(first, end) for name, column in self.columns.items()}


def plain_column(name: str, column: Any) -> Any:
    """Return a column of a caller as stored bytes, as an array, or as a list of values.

    Raises:
        SpecError: The offsets of stored bytes are invalid.
    """
    if isinstance(column, StoredColumn | list | np.ndarray):
        return column
    column = without_arrow(column)
    if is_stored(column):
        return StoredColumn.checked(name, *column)
    return column


def plain_columns(
    columns: Mapping[str, Any], fields: Spec, keys: Iterable[str] | None
) -> tuple[int, dict[str, Any], list[str] | None]:
    """Return the number of samples that columns hold, each column (see `plain_column`), and the keys.

    Keys that are not given may be a column.

    Raises:
        TypeError: The keys are one text.
        SpecError: A field is unknown, a column is a single value, or lengths differ. The message
            names the field.
    """
    if isinstance(columns, Mapping) and KEY in columns:
        columns = dict(columns)
        column_of_keys = columns.pop(KEY)
        if keys is None:
            keys = column_of_keys
    texts = None if keys is None else list_of_keys(keys)
    if not isinstance(columns, Mapping) or not columns:
        raise SpecError(
            f"expected a mapping of fields to columns, such as {{'label': labels}}, not {columns!r}"
        )
    plain: dict[str, Any] = {}
    for name, column in columns.items():
        if name not in fields:
            raise SpecError(
                f"there is a column {name!r}, which is not in the spec ({', '.join(fields)})"
            )
        if (
            isinstance(column, (str, *_BYTES, Mapping))
            or getattr(column, "ndim", 1) == 0
            or not hasattr(column, "__len__")
        ):
            raise SpecError(
                f"field {name!r}: expected an array or a list with "
                f"a value per sample, not {type(column).__name__}"
            )
        plain[name] = plain_column(name, column)
    lengths = {name: len(column) for name, column in plain.items()}
    if texts is not None:
        lengths["keys"] = len(texts)
    if len(set(lengths.values())) > 1:
        raise SpecError(
            "columns have different lengths: "
            + ", ".join(f"{name}: {n}" for name, n in lengths.items())
        )
    return next(iter(lengths.values())), plain, texts


def encode_columns(columns: Mapping[str, Any], samples: int, encode: SampleEncoder) -> StoredBatch:
    """Encode columns, which `plain_columns` has returned; sample by sample where values are missing, or lists.

    Raises:
        SpecError: A field is missing.
        CodecError: A value cannot be encoded.
    """
    layout = encode.layout
    names = [column.field.name for column in layout.columns]
    missing = next((name for name in names if name not in columns), None)
    if missing is not None and not layout.sparse:
        raise SpecError(
            f"field {missing!r} has no column, but a {encode.container} needs every field"
        )
    if missing is None and not any(column.field.sequence for column in layout.columns):
        whole = {
            column.field.name: _encode(column, columns[column.field.name])
            for column in layout.columns
        }
        stored = {field: column for field, column in whole.items() if column is not None}
        if len(stored) == len(whole):
            return StoredBatch.of(samples, stored)
    rows = {
        field: column.values if isinstance(column, StoredColumn) else list(column)
        for field, column in columns.items()
    }
    values: list[dict[str, Stored]] = []
    for row in range(samples):
        try:
            sample = encode({field: column_values[row] for field, column_values in rows.items()})
            values.append({field: _kept(value) for field, value in sample.items()})
        except CodecError as error:
            raise CodecError(f"sample {row} of the columns: {error}", **error.details) from error
    size = sum(_size_of(value) for sample in values for value in sample.values())
    return StoredBatch(samples, size, values=values)


def list_of_keys(keys: Iterable[str]) -> list[str]:
    """Return the keys that a user gives, as a list."""
    if isinstance(keys, (str, *_BYTES)):
        raise TypeError(f"expected a list of keys, not {keys!r}")
    plain = plain_column(KEY, keys)
    return plain.tolist() if isinstance(plain, np.ndarray) else list(plain)


def _encode(column: LayoutField, value: Any) -> StoredColumn | BytesInList | None:
    """Encode a whole column; None if values are missing."""
    name = column.field.name
    if isinstance(value, StoredColumn):
        return value
    codec = storing_codec(column.field.codec, column.codec)
    if type(value) is np.ndarray and codec.encode_column is not None:
        try:
            encoded = codec.encode_column(value)
        except CodecError as error:
            raise CodecError(f"field {name!r}: {error}", **error.details) from error
        if encoded is not None:
            stored_column = StoredColumn.checked(name, *encoded)
            if len(stored_column) != len(value):
                raise SpecError(
                    f"field {name!r}: codec {codec.name!r} made "
                    f"{len(stored_column)} of {len(value)} values"
                )
            return stored_column
    values = value if type(value) is list else list(value)
    if (offsets := bytes_offsets(values)) is not None:
        return BytesInList(values, offsets)
    values = list(values)  # encoders might change it
    if type(None) in set(map(type, values)) and column.codec not in ("json", "msgpack"):
        return None
    stored = []
    for row, element in enumerate(values):
        try:
            stored.append(bytes(_stored(element, codec.encode)))
        except CodecError as error:
            raise CodecError(
                f"field {name!r}, sample {row} of the column: {error}", **error.details
            ) from error
    return StoredColumn(*joined(stored))


def _kept(value: Stored) -> Any:
    """Return a copy of the stored bytes that later samples cannot change, with all elements of a sequence."""
    if isinstance(value, _BYTES):
        return value
    if isinstance(value, Iterable):
        return list(value)
    return value


def _size_of(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size_of, value))
    return memoryview(value).nbytes
