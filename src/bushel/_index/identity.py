"""Which data is this: digests of samples and of tables, and tables compared value by value. Pure: no I/O.

A digest follows from contents alone. It does not depend on places: not on the names, sizes and times
of files, the offsets of values, or the order of fields. Two tables of the same samples have the same
digest in any container, as long as the stored bytes are the same.

The checksums in a table are compared with a new table of its changed files. A value is found again
by its sample's key (without keys: its position), its field and its number in a sequence; else by its
extent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64, U32, U64, Bools, as_array, ranges
from bushel.codecs.registry import asked_for
from bushel.errors import FormatError
from bushel.kernels import crc32
from bushel.spec import Field
from bushel.storage.base import FROM_TAG

from .key_lookup import equal_hashes
from .shard import FileStamp, Keys, Place, Shard
from .sidecar import Manifest, ManifestShard
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


@lru_cache(maxsize=256)
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


# Comparison


class Difference(Struct, frozen=True):
    """A value whose bytes differ from the recorded ones in a table."""

    key: str | None  # key of its sample, or None if samples have no keys
    sample: int  # number of its sample in the shard now
    field: str  # name of the field
    element: int | None  # number of the element in a sequence, or None
    place: Place  # where its bytes are now
    expected: int  # the recorded CRC-32
    found: int  # the CRC-32 of the bytes now


class Comparison(Struct, frozen=True):
    """The values of a table, compared with the current values of the shard."""

    now: ShardIndex  # the table of the shard now
    equal: int  # number of values that have the recorded checksum
    # for each column of `now`, the rows that differ, and the recorded checksums of these rows
    pairs: dict[str, tuple[I64, U32]]
    missing: int  # number of recorded values that the shard no longer has
    # number of samples that have a recorded empty sequence and no such field now, or the other
    # way round; the shard has no bytes to compare
    empties: int
    gone: int  # number of recorded samples that the shard no longer has
    added: int  # number of samples that the shard did not have
    # for each column of `now`, bool[rows]: whether the row has a recorded checksum
    compared: dict[str, Bools]

    @property
    def differing(self) -> int:
        """Number of values whose bytes differ."""
        return sum(len(rows) for rows, _ in self.pairs.values())

    def expected(self) -> ShardIndex:
        """Return the table of the shard now, with the recorded checksums of the values that have one."""
        columns = dict(self.now.fields)
        for name, (rows, recorded) in self.pairs.items():
            crc32 = columns[name].checksums.copy()
            crc32[rows] = recorded
            columns[name] = replace(columns[name], crc32=crc32)
        return replace(self.now, fields=columns)

    def differences(self) -> Iterator[Difference]:
        """Yield the values whose bytes differ."""
        for name, (rows, expected) in self.pairs.items():
            column = self.now.fields[name]
            crc32, empties = column.checksums, column.empties_before
            for row, recorded in zip(rows.tolist(), expected.tolist(), strict=True):
                sample, element = column.sample_of(row), None
                if column.starts is not None:
                    element = row - int(column.starts[sample])
                key = None if self.now.keys is None else self.now.keys[sample]
                place = self.now.place(column.file, int(column.offset[row]), int(empties[row]))
                yield Difference(key, sample, name, element, place, recorded, int(crc32[row]))


def with_sound_keys(index: ShardIndex, shard: Shard, built: Keys | None = None) -> ShardIndex:
    """Return the stored table of a shard with keys that are built again, or the equal ones (`built`) of its files.

    Raises:
        FormatError: Its keys are damaged.
    """
    stored = index.keys
    if stored is None:
        return index
    if built is not None and same_keys(stored, built):
        return replace(index, keys=built)
    try:
        return replace(index, keys=Keys.build(stored.text, stored.offsets))
    except ValueError as error:
        raise FormatError(f"the index is damaged: {error}", shard.sidecar) from error


def same_keys(one: Keys, other: Keys) -> bool:
    """Return whether two tables have the same keys in the same order."""
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.text, other.text)


def compare_values(known: ShardIndex, now: ShardIndex) -> Comparison:
    """Compare the checksums in a table with the checksums of the values that the files have now.

    Columns of `known` without checksums are left out.
    """
    partner = _partners(known, now)
    equal = missing = empties = 0
    wrong: dict[str, list[tuple[I64, U32]]] = {}
    compared = {name: np.zeros(column.rows, np.bool_) for name, column in now.fields.items()}
    for name, column in known.fields.items():
        if column.crc32 is None:
            continue
        rows = np.flatnonzero(column.present)
        other = now.fields.get(name)
        empties += _changed_empties(column, other, partner)
        if (
            other is None
            or (other.starts is None) != (column.starts is None)
            or other.crc32 is None
        ):
            name, rows_now = _by_extent(known, column, rows, now)
            other = now.fields.get(name)
        else:
            rows_now = _rows_in(column, other, rows, partner)
        if other is None or other.crc32 is None:
            missing += len(rows)
            continue
        present = rows_now >= 0
        present[present] = other.length[rows_now[present]] != MISSING
        missing += int((~present).sum())
        rows, rows_now = rows[present], rows_now[present]
        compared[name][rows_now] = True
        differs = (column.crc32[rows] != other.crc32[rows_now]) | (
            column.length[rows] != other.length[rows_now]
        )
        equal += int((~differs).sum())
        if differs.any():
            wrong.setdefault(name, []).append((rows_now[differs], column.crc32[rows][differs]))
    pairs = {}
    for name, parts in wrong.items():
        rows, crc32 = map(np.concatenate, zip(*parts, strict=True))
        pairs[name] = rows, crc32
    gone = int((partner < 0).sum())
    added = now.samples - (known.samples - gone)
    return Comparison(now, equal, pairs, missing, empties, gone, added, compared)


def with_known_checksums(known: ShardIndex, now: ShardIndex) -> ShardIndex:
    """Return a table of unchanged files with the checksums that another table of them has for the same extents."""
    columns = {}
    for name, column in now.fields.items():
        columns[name] = column
        if column.crc32 is not None:
            continue
        rows = np.flatnonzero(column.present)
        best, rows_known = _by_extent(now, column, rows, known)
        if best and (rows_known >= 0).all():
            crc32 = np.zeros(column.rows, np.uint32)
            crc32[rows] = known.fields[best].checksums[rows_known]
            columns[name] = replace(column, crc32=crc32)
    return replace(now, fields=columns)


def _partners(known: ShardIndex, now: ShardIndex) -> I64:
    """Return int64[known.samples]: the number of each sample now, -1 if it is missing."""
    if known.keys is not None and now.keys is not None and known.keys is not now.keys:
        partner = np.full(known.samples, -1, np.int64)
        places, partners = equal_hashes(known.keys.hashes, now.keys.hashes)
        partner[known.keys.order[places]] = now.keys.order[partners]
        return partner
    partner = np.arange(known.samples)
    partner[now.samples :] = -1
    return partner


def _changed_empties(column: FieldExtents, other: FieldExtents | None, partner: I64) -> int:
    """Return how many samples have an empty sequence in one of two columns, and no value in the other.

    Formats that do not distinguish the two have an empty one.
    """
    if column.starts is None or (other is not None and other.starts is None):
        return 0
    samples = np.flatnonzero(partner >= 0)
    empty, absent = column.empty_and_absent
    if other is None:
        return int(empty[samples].sum())
    empty_now, absent_now = other.empty_and_absent
    samples_now = partner[samples]
    changed = empty[samples] & absent_now[samples_now]
    if other.absent is not None:
        changed |= absent[samples] & empty_now[samples_now]
    return int(changed.sum())


def _rows_in(column: FieldExtents, other: FieldExtents, rows: I64, partner: I64) -> I64:
    """Return the row of the other column for each of these rows; -1 if no row matches."""
    if column.starts is None or other.starts is None:
        return partner[rows]
    sample = np.searchsorted(column.starts, rows, side="right") - 1
    element = rows - column.starts[sample]
    sample_now = partner[sample]
    start, stop = other.starts[sample_now], other.starts[sample_now + 1]
    rows_now: I64 = np.where((sample_now >= 0) & (start + element < stop), start + element, -1)
    return rows_now


def _by_extent(
    table: ShardIndex, column: FieldExtents, rows: I64, other_table: ShardIndex
) -> tuple[str, I64]:
    """Return the field of another table that has checksums and most of these extents, and the row of each in it."""
    best, rows_there = "", np.full(len(rows), -1, np.int64)
    files = _names_of(table, column.file)
    for name, other in other_table.fields.items():
        if other.crc32 is not None and files == _names_of(other_table, other.file) != set():
            these = _find_extents(column, rows, other)
            if not best or (these >= 0).sum() > (rows_there >= 0).sum():
                best, rows_there = name, these
            if (these >= 0).all():
                break
    return best, rows_there


def _names_of(index: ShardIndex, file: int) -> set[str]:
    """Return the names of the files that hold the bytes of a file or block file; empty if the table holds some."""
    blocks = index.blocks_of(file)
    numbers = {file} if blocks is None else set(blocks.file.tolist())
    if min(numbers, default=-1) < 0:
        return set()
    return {index.files[number].name.rpartition("/")[2] for number in numbers}


def _find_extents(column: FieldExtents, rows: I64, other: FieldExtents) -> I64:
    """Return the row of `other` that has the extent of each of these rows; -1 if no row matches."""
    rows_of_other = np.full(len(rows), -1, np.int64)
    present = np.flatnonzero(other.present)
    if not len(present) or not len(rows):
        return rows_of_other
    order = present[np.lexsort((other.length[present], other.offset[present]))]
    extents = np.rec.fromarrays([other.offset[order], other.length[order]])
    requested = np.rec.fromarrays([column.offset[rows], column.length[rows]])
    place = np.minimum(np.searchsorted(extents, requested), len(order) - 1)
    same = (other.offset[order[place]] == column.offset[rows]) & (
        other.length[order[place]] == column.length[rows]
    )
    rows_of_other[same] = order[place[same]]
    return rows_of_other


# Manifests


def manifest_of_tables(
    container: str, names: Sequence[str], tables: Sequence[ShardIndex]
) -> Manifest:
    """Return the manifest of a complete dataset with these shards, but without names of classes."""
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    for index in tables:
        for name, extents in index.fields.items():
            if name not in spec:
                spec[name] = type_of(extents.field)
                codecs[name] = asked_for(extents.codec)
    entries = list(map(manifest_entry, names, tables))
    return Manifest(container, spec, codecs, entries)


def manifest_entry(name: str, index: ShardIndex) -> ManifestShard:
    """Return the entry of a shard, given its table."""
    files = [(stamp.name, stamp.size, stamp.mtime_ns) for stamp in index.files]
    stamps = [stamp.crc32 for stamp in index.files]
    digest = index.digest or table_digest(index)
    keyed = index.keys is not None
    return ManifestShard(name, index.samples, files, index.has_all_checksums, keyed, stamps, digest)


def digest_of_value(value: Any, before: int = 0) -> int:
    """Return a digest of a value, such as a sample, continued from another digest."""
    try:
        encoded = _ENCODER.encode(value)
    # half of a surrogate pair, or objects in an array
    except (ValueError, OverflowError, TypeError):
        encoded = repr(value).encode("utf-8", "surrogatepass")
    return crc32(encoded, before)


def _facts_of(value: Any) -> Any:
    """Return facts that identify a value that MessagePack does not know, or its type."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    array = as_array(value)
    if hasattr(array, "__array_interface__"):  # as numbers of NumPy and images of Pillow have it
        array = np.ascontiguousarray(array)
        return [array.dtype.str, array.shape, crc32(array.reshape(-1).view(np.uint8))]
    return type(value).__qualname__


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_facts_of, order="deterministic")
