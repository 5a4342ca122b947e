"""Which data is this: digests of samples and of tables, by their contents alone. Pure: no I/O.

Neither depends on places: not on the names, sizes and times of files, the offsets of values, or the
order of fields. Two tables of the same samples have the same digest in any
container, as long as the stored bytes are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from bushel._runtime.arrays import I64, U64, Bools, ranges
from bushel.codecs.registry import asked_for
from bushel.spec import Field
from bushel.storage.base import FROM_TAG

from .shard import FileStamp
from .table import MISSING, FieldExtents, ShardIndex

_ROWS_AT_ONCE = 1 << 20  # rows that are hashed together, so that a large table takes little memory


def sample_digests(index: ShardIndex, rows: I64) -> U64:
    """Return a hash of the contents of some samples, without their keys: uint64[len(rows)].

    The stored length and the CRC-32 of each value enter; for a sequence, of each element and
    their number. Names of fields do not matter. A field that the sample lacks does not enter: a
    sample is the same in a table whose other samples have more fields. Where no CRC-32 is
    recorded, the digest stands on lengths alone.
    """
    digests = np.zeros(len(rows), np.uint64)
    for extents in index.fields.values():
        contents, present = field_digests(extents, rows)
        digests += np.where(present, contents, np.uint64(0))
    return _mixed(digests)


def field_digests(extents: FieldExtents, samples: I64) -> tuple[U64, Bools]:
    """Return a hash of one field of some samples, as `sample_digests` makes it, and which of them have it."""
    if extents.starts is None:
        lengths = np.asarray(extents.length[samples], np.int64)
        return _hashes(extents, samples, lengths), lengths != MISSING
    return _sequences(extents, samples)


def table_digest(index: ShardIndex) -> str:
    """Return the digest of a table: 32 hexadecimal digits.

    The number of samples, their keys, the names and types of fields, the names of classes, and the
    length and CRC-32 of each value enter; a missing value has a length of its own. For a table that
    lacks the CRC-32 of a field, `facts_of_files` enter, too, but never times.
    """
    files = [] if index.has_all_checksums else facts_of_files(index.files)
    names = sorted(index.fields)
    types = [(name, type_of(index.fields[name].field)) for name in names]
    classes = sorted(index.labels.items())
    digest = hashlib.sha256(msgspec.json.encode([index.samples, types, classes, files]))
    if index.keys is not None:
        _add(digest.update, index.keys.offsets, np.int64)
        _add(digest.update, index.keys.text, np.uint8)
    for name in names:
        extents = index.fields[name]
        _add(digest.update, extents.length, np.int64)
        if extents.crc32 is not None:
            _add(digest.update, extents.crc32, np.uint32)
        if extents.starts is not None:
            _add(digest.update, extents.starts, np.int64)
            _add(digest.update, extents.empty_and_absent[1], np.bool_)
    return digest.hexdigest()[:32]


def facts_of_files(stamps: Sequence[FileStamp]) -> list[tuple[int, int | None]]:
    """Return size and stamp of each file, or the tag of an object, which changes when it is replaced."""
    facts: list[tuple[int, int | None]] = []
    for entry in stamps:
        tag = entry.mtime_ns if entry.mtime_ns >= FROM_TAG else None
        facts.append((entry.size, tag if entry.crc32 is None else entry.crc32))
    return facts


def type_of(field: Field) -> str:
    """Return the type as a writer names it: a sidecar gives `stored(pickle)` for a type that runs code."""
    return Field(field.name, asked_for(field.codec), field.sequence).type


def _add(update: Callable[[memoryview], None], array: np.ndarray, dtype: type[np.generic]) -> None:
    """Add an array to a digest by its `update`, a part at a time: some arrays are made of blocks when they are read."""
    for first in range(0, len(array), _ROWS_AT_ONCE):
        update(np.ascontiguousarray(array[first : first + _ROWS_AT_ONCE], dtype).data)


def _sequences(extents: FieldExtents, samples: I64) -> tuple[U64, Bools]:
    """Return a hash of the elements of each sample, and which samples have a sequence."""
    rows, counts = extents.rows_of(samples)
    places = ranges(np.zeros(len(counts), np.int64), counts)
    hashes = _hashes(extents, rows, np.asarray(extents.length[rows], np.int64))
    elements = _mixed(hashes ^ _mixed(places.astype(np.uint64)))
    # a sum for each sample; it wraps around
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(elements, dtype=np.uint64)])
    ends = np.cumsum(counts)
    contents = sums[ends] - sums[ends - counts]
    if extents.absent is None:
        present = np.ones(len(samples), np.bool_)
    else:
        present = ~extents.absent[samples]
    return contents ^ _mixed(counts.astype(np.uint64)), present


def _hashes(extents: FieldExtents, rows: I64, lengths: I64) -> U64:
    """Return a hash of length and CRC-32 of each row."""
    hashes = _mixed(lengths.view(np.uint64))
    if extents.crc32 is not None:
        hashes = _mixed(hashes ^ extents.crc32[rows].astype(np.uint64))
    return hashes


def _mixed(numbers: U64) -> U64:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) of each number, plus its constant."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
