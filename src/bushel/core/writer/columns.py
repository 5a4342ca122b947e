"""Columns that `Writer.extend` is given: check them, and encode each one at once where its codec can."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.containers.base import Column, Layout, Stored, StoredColumn
from bushel.core.index.table import I64
from bushel.core.writer.sample_values import encode_sample
from bushel.errors import CodecError, SpecError
from bushel.spec import Spec

__all__ = ["StoredBatch", "encode_columns", "key_column", "length_of", "list_of_keys", "numbered_keys"]

_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Encoded samples: columns, or values sample by sample where a field is a sequence or missing.

    Attributes:
        samples: Number of samples.
        columns: Stored bytes by field; None if `values` has them.
        values: The values of each sample, or None.
    """

    samples: int
    columns: dict[str, StoredColumn] | None
    values: list[dict[str, Stored]] | None = None

    def sample(self, row: int) -> dict[str, Stored]:
        """Return the stored bytes of one sample, as a shard's `append` takes them."""
        if self.values is not None:
            return self.values[row]
        return {name: column[row] for name, column in (self.columns or {}).items()}

    def bytes_until(self, row: int, limit: int) -> int:
        """Return the end of a run of samples from `row` on with about `limit` bytes, one sample at least."""
        ends: I64 = np.add.reduce([column.offsets for column in (self.columns or {}).values()])
        return max(row + 1, int(np.searchsorted(ends, ends[row] + limit, side="right")) - 1)


def length_of(columns: Mapping[str, Any], fields: Spec, keys: Sequence[str] | None) -> int:
    """Return the number of samples that columns hold.

    Raises:
        SpecError: A field is unknown, a column is a single value, or lengths differ. The message names the field.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise SpecError(f"expected a mapping of fields to columns, such as {{'label': labels}}, not {columns!r}")
    lengths: dict[str, int] = {}
    for name, column in columns.items():
        if name not in fields:
            raise SpecError(f"there is a column {name!r}, which is not in the spec ({', '.join(fields)})")
        if (
            isinstance(column, (str, *_BYTES, Mapping))
            or getattr(column, "ndim", 1) == 0
            or not hasattr(column, "__len__")
        ):
            raise SpecError(
                f"field {name!r}: expected an array or a list with a value per sample, not {type(column).__name__}"
            )
        lengths[name] = len(column[1]) - 1 if _is_stored(column) else len(column)
    if keys is not None:
        lengths["keys"] = len(keys)
    if len(set(lengths.values())) > 1:
        raise SpecError("columns have different lengths: " + ", ".join(f"{name}: {n}" for name, n in lengths.items()))
    return next(iter(lengths.values()))


def encode_columns(columns: Mapping[str, Any], samples: int, fields: Spec, name: str, layout: Layout) -> StoredBatch:
    """Encode columns whose names and lengths `length_of` has checked.

    Args:
        columns: Field to column.
        samples: Number of samples.
        fields: The writer's fields.
        name: Name of the container.
        layout: How it stores the fields.

    Raises:
        SpecError: A field is missing, or offsets are invalid.
        CodecError: A value cannot be encoded.
    """
    missing = [field for field in fields if field not in columns]
    if missing and not layout.sparse:
        raise SpecError(f"there is no column for field {missing[0]!r}, but a {name} needs every field")
    plain: dict[str, Any] = {field: _without_arrow(column) for field, column in columns.items()}
    if not missing and not any(column.field.sequence for column in layout.columns):
        whole = {column.field.name: _encode(column, plain[column.field.name]) for column in layout.columns}
        stored = {field: column for field, column in whole.items() if column is not None}
        if len(stored) == len(whole):
            return StoredBatch(samples, stored)
    rows = {field: _values(column) for field, column in plain.items()}
    values: list[dict[str, Stored]] = []
    for row in range(samples):
        try:
            sample = dict(encode_sample({field: own[row] for field, own in rows.items()}, fields, name, layout))
            values.append({field: _kept(value) for field, value in sample.items()})
        except CodecError as error:
            raise CodecError(f"sample {row} of the columns: {error}", **error.details) from error
    return StoredBatch(samples, None, values)


def list_of_keys(keys: Iterable[str]) -> list[str]:
    """Return the keys that a user gives, as a list."""
    if isinstance(keys, (str, *_BYTES)):
        raise TypeError(f"expected a list of keys, not {keys!r}")
    plain = _without_arrow(keys)
    return plain.tolist() if isinstance(plain, np.ndarray) else list(plain)


def key_column(keys: Sequence[str]) -> StoredColumn:
    """Return keys as text and offsets."""
    text = "".join(keys)
    if text.isascii():
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        return StoredColumn(np.frombuffer(text.encode(), np.uint8), _offsets(lengths))
    encoded = [key.encode("utf-8", "surrogateescape") for key in keys]
    return _joined(encoded)


def numbered_keys(first: int, count: int) -> list[str]:
    """Return the keys of samples that have none, in a container that needs them."""
    return [f"{number:09d}" for number in range(first, first + count)]


def _is_stored(column: object) -> bool:
    """Return whether a column is given as (bytes, offsets)."""
    return (
        isinstance(column, tuple)
        and len(column) == 2
        and not isinstance(column[1], (str, *_BYTES))
        and (isinstance(column[0], _BYTES) or (isinstance(column[0], np.ndarray) and column[0].dtype == np.uint8))
        and hasattr(column[1], "__len__")
    )


def _encode(column: Column, value: Any) -> StoredColumn | None:
    """Encode a whole column; None if values are missing."""
    name = column.field.name
    if _is_stored(value):
        return _checked(name, *value)
    codec = get_codec(column.codec)
    if type(value) is np.ndarray and codec.encode_column is not None:
        try:
            encoded = codec.encode_column(value)
        except CodecError as error:
            raise CodecError(f"field {name!r}: {error}", **error.details) from error
        if encoded is not None:
            stored_column = _checked(name, *encoded)
            if len(stored_column) != len(value):
                raise SpecError(
                    f"field {name!r}: codec {codec.name!r} made {len(stored_column)} of {len(value)} values"
                )
            return stored_column
    values = list(value)
    if any(each is None for each in values) and column.codec not in ("json", "msgpack"):
        return None
    stored = []
    for row, each in enumerate(values):
        try:
            stored.append(each if isinstance(each, _BYTES) else codec.encode(each))
        except CodecError as error:
            raise CodecError(f"field {name!r}, sample {row} of the column: {error}", **error.details) from error
    return _joined(stored)


def _checked(name: str, data: Any, offsets: Any) -> StoredColumn:
    content = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
    try:
        ends = np.ascontiguousarray(offsets)
        if ends.ndim != 1 or not len(ends) or ends.dtype.kind not in "iu":
            raise SpecError(f"field {name!r}: offsets must be integers, one more than there are samples")
        ends = ends.astype(np.int64, casting="same_kind") if ends.dtype != np.uint64 else ends.astype(np.int64)
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"field {name!r}: offsets must be integers, one more than there are samples ({error})"
        ) from error
    if ends[0] < 0 or ends[-1] > len(content) or bool((ends[1:] < ends[:-1]).any()):
        raise SpecError(f"field {name!r}: offsets must ascend from 0 to at most {len(content)}, the number of bytes")
    return StoredColumn(content, ends)


def _joined(values: Sequence[Any]) -> StoredColumn:
    try:
        data = b"".join(values)
    except (BufferError, TypeError):  # a memoryview that is not contiguous
        values = [bytes(value) for value in values]
        data = b"".join(values)
    lengths = np.fromiter((len(v) if type(v) is bytes else memoryview(v).nbytes for v in values), np.int64, len(values))
    return StoredColumn(np.frombuffer(data, np.uint8), _offsets(lengths))


def _offsets(lengths: Any) -> Any:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _values(column: Any) -> Sequence[Any]:
    """Return a column as a list with the value of each sample."""
    if _is_stored(column):
        stored = _checked("", *column)
        return [stored[row] for row in range(len(stored))]
    return list(column)


def _kept(value: Stored) -> Any:
    """Return stored bytes that later samples cannot change, with all elements of a sequence."""
    return value if isinstance(value, _BYTES) else list(value) if isinstance(value, Iterable) else value


def _without_arrow(column: Any) -> Any:
    """Return an Arrow array as (bytes, offsets), as an array, or as a list; any other column as it is."""
    if not hasattr(column, "__arrow_c_array__") and not hasattr(column, "__arrow_c_stream__"):
        return column
    import pyarrow as pa

    array = column if isinstance(column, pa.Array) else pa.chunked_array(column).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if array.null_count:
        return array.to_pylist()
    wide = pa.types.is_large_binary(kind)
    if wide or pa.types.is_binary(kind):
        _, borders, content = array.buffers()
        data = b"" if content is None else memoryview(content)
        if borders is None:
            return data, np.zeros(1, np.int64)
        offsets = np.frombuffer(borders, np.int64 if wide else np.int32)
        return data, offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(kind) and (
        pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    ):
        flat = array.flatten()
        if not flat.null_count:
            return flat.to_numpy(zero_copy_only=False).reshape(len(array), operator.index(kind.list_size))
    return array.to_pylist()
