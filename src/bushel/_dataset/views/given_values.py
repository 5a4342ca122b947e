"""Fields of matches in another dataset, and a field whose values are given by position, from memory or a dataset."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bushel._dataset.read.joined import joined_readers
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.read.sides import Joined
from bushel._index.columns import LONGEST_TEXT, Column, Kind, numbers, of_texts
from bushel._index.identity import table_digest
from bushel._index.shard import Shard
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U8, Array, Bools, joined
from bushel.codecs import get_codec
from bushel.codecs.base import fixed_rows
from bushel.codecs.columns import InexactError, exact_array
from bushel.errors import SpecError
from bushel.spec import Field, parse_spec
from bushel.storage.blocks import Blocks

from .samples import Samples

S = TypeVar("S", bound=Samples)

_CODECS = {"i": "i64", "u": "u64", "b": "json"}
_KINDS: dict[str, Kind] = {"i": "int", "u": "uint", "f": "float", "b": "bool"}


def with_partners(
    first: S,
    other: Samples,
    partners: I64,
    joined: Joined,
    *,
    names: Collection[str],
    others: Mapping[str, str],
) -> S:
    """Return a view of a dataset whose samples also have fields of their matches in another one.

    Args:
        first: The dataset. The view has its samples, in its order; with `how="inner"` only those
            that have a match.
        other: The other dataset.
        partners: int64[n], for each sample of the whole first dataset the position of its match
            in the whole other one; -1 for none.
        joined: The description of the join.
        names: The fields of the first dataset that the view has.
        others: The fields of the other dataset that it has, with their new names.
    """
    reader = joined_readers(
        first.reader, other.reader, partners, joined, names=names, others=others
    )
    positions = first.selection.positions
    if joined.how == "inner":
        chosen = first.selection.every
        chosen = chosen[partners[chosen] >= 0]
        if len(chosen) != len(positions):
            positions = chosen
    return type(first)((), reader=reader)._view(positions, [*names, *others.values()])


def with_values(dataset: S, name: str, values: Any, kind: str | None) -> S:
    """Return a view with one more field: see `Dataset.with_field`."""
    dataset.reader.refuse_windows(
        "add the field to the original dataset, and make windows of the result"
    )
    if name in dataset.spec:
        raise ValueError(
            f"field {name!r} exists already: leave it out with "
            "ds.select_fields([...]), or choose another name"
        )
    positions = dataset.selection.every
    if len(positions) != len(np.unique(positions)):
        raise ValueError(
            "this view has samples several times, whose values "
            "could differ: add the field first, then choose samples"
        )
    if isinstance(values, Samples):
        other = values
        old = _field_of(other, name)
        if kind is not None:
            raise TypeError("kind= is for values in memory: a dataset has the types of its fields")
    else:
        other, old = Samples([_shard_of(name, values, kind)]), name
    if len(other) != len(dataset):
        raise ValueError(f"field {name!r}: {len(other)} values for {len(dataset)} samples")
    partners = np.full(int(dataset.reader.starts[-1]), -1, np.int64)
    partners[positions] = other.selection.every
    joined = Joined("position", "left", len(dataset), (0, 0), ((), ()))
    return with_partners(
        dataset, other, partners, joined, names=list(dataset.spec), others={old: name}
    )


def _field_of(dataset: Samples, name: str) -> str:
    if name in dataset.spec:
        return name
    if len(dataset.spec) != 1:
        raise ValueError(
            f"the dataset with the values of {name!r} has the fields "
            f"{', '.join(dataset.spec) or 'none'}: choose one with "
            ".select_fields([...]); bushel.join adds several"
        )
    return next(iter(dataset.spec))


def _shard_of(name: str, values: Any, kind: str | None) -> OpenShard:
    """Return a shard that has values in memory."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable | np.ndarray):
        raise TypeError(
            f"field {name!r}: expected an array, a list of values or a dataset, not {values!r:.60}"
        )
    try:
        array = _as_array(values) if kind is None else None
    except InexactError as error:
        raise ValueError(f"field {name!r}: {error}") from error
    column = None
    if array is None:
        items = list(values)
        [field] = parse_spec({name: kind or _type_of(name, items)}).values()
        if field.sequence:
            raise SpecError(
                f"field {name!r}: the values of a sequence cannot be given: write them as a dataset"
            )
        data, offsets, missing = _encoded(field, items)
        if field.codec == "utf8" and len(items) and int(np.diff(offsets).max()) <= LONGEST_TEXT:
            column = of_texts(data, offsets, missing)
    else:
        rows = np.ma.getdata(array)
        gaps = np.asarray(np.ma.getmaskarray(array)).reshape(len(array), math.prod(array.shape[1:]))
        missing = np.asarray(gaps.any(axis=1))
        [field] = parse_spec({name: _codec_of(rows)}).values()
        data, offsets = _stored(field, rows)
        if rows.ndim == 1 and rows.dtype.kind in _KINDS:
            column = numbers(_KINDS[rows.dtype.kind], rows, missing)
    length = np.where(missing, MISSING, np.diff(offsets)).astype(np.int64)
    extents = FieldExtents(field, field.codec, 0, np.ascontiguousarray(offsets[:-1]), length)
    columns: dict[str, Column] = {} if column is None else {name: column}
    blocks = (Blocks.in_table(data),)
    table = ShardIndex(len(length), (), {name: extents}, "npy", columns=columns, blocks=blocks)
    shard = Shard(Path("(in memory)"), name, (name,))
    opened = OpenShard.of("npy", shard, table, stored=False, checked=True)
    # the table has no checksums, so the values themselves enter the digest
    opened.recorded = hashlib.sha256(table_digest(table).encode() + data.tobytes()).hexdigest()[:32]
    return opened


def _as_array(values: Any) -> Array | None:
    """Return values as an array of numbers, whose rows they are; None if they are something else."""
    if not hasattr(values, "__array__"):
        items = list(values)
        kinds = set(map(type, items))
        if len(kinds) > 1 and kinds <= {int, float, type(None)}:
            gaps = [item is None for item in items]
            return np.ma.MaskedArray(
                exact_array([0 if item is None else item for item in items]), gaps
            )
        alike = len(kinds) == 1 and issubclass(next(iter(kinds)), np.ndarray | np.generic)
        if kinds == {np.ndarray}:
            alike = len({(item.shape, item.dtype) for item in items}) == 1
        if not kinds or not (alike or kinds <= {int, float}):
            return None
        try:
            # of integers that no dtype holds, an array of objects
            values = exact_array(items)
        except InexactError:
            if kinds != {int}:
                raise
            return None  # each is stored for itself
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    return array if array.ndim and array.dtype.kind in "biufc" else None


def _codec_of(rows: Array) -> str:
    dtype = rows.dtype
    if rows.ndim > 1:
        return f"array({dtype.name},{','.join(map(str, rows.shape[1:]))})"
    if dtype.kind == "c":
        return f"array({dtype.name})"
    return _CODECS.get(dtype.kind, "f32" if dtype.itemsize <= 4 else "float")


def _stored(field: Field, rows: Array) -> tuple[U8, I64]:
    """Return the bytes of the rows of an array, one after another, and their offsets. Nothing is copied if possible."""
    if field.codec.startswith("array("):
        plain = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
        return fixed_rows(plain)
    encode = get_codec(field.codec).encode_column
    encoded = None if encode is None else encode(np.ascontiguousarray(rows))
    if encoded is not None:
        return encoded
    data, offsets, _ = _encoded(field, rows.tolist())
    return data, offsets


def _encoded(field: Field, items: Sequence[Any]) -> tuple[U8, I64, Bools]:
    """Return the encoded values, one after another, their offsets, and which are missing: those that are None."""
    encode = get_codec(field.codec).encode
    stored = [b"" if item is None else bytes(encode(item)) for item in items]
    return *joined(stored), np.array([item is None for item in items], np.bool_)


def _type_of(name: str, items: Sequence[Any]) -> str:
    value = next((item for item in items if item is not None), None)
    for kinds, type_name in (
        (str, "utf8"),
        (bytes | bytearray | memoryview, "bytes"),
        (bool | np.bool_, "json"),
        (int | np.integer, "int"),
        (float | np.floating, "float"),
        (np.ndarray, "array"),
        (dict | list, "json"),
    ):
        if isinstance(value, kinds):
            return type_name
    raise SpecError(
        f"field {name!r}: the type cannot be inferred from "
        f"{value!r:.60}: pass kind=, such as kind='utf8'"
    )
