"""Which data is this: fingerprints of datasets and digests of samples; and the positions that remain after removals.

A fingerprint is a chain over the digests of shards. It has a value after each shard, which depends
on that shard and those before it. So a dataset to which shards were appended still knows what it was
before, and so do its views of those samples. Removed samples are found by the names in the dataset's
lists of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import accumulate

import msgspec
import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._index.identity import facts_of_files, sample_digests
from bushel._index.removal_list import (
    Digests,
    NameLookup,
    Names,
    RemovalCall,
    stored_sizes,
)
from bushel._index.shard import sizes_of
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, U64, concatenated, offsets_of
from bushel.kernels import crc32
from bushel.storage import is_object

from .reader import Reader
from .selection import Positions, Remaining
from .shards import (
    Listing,
    OpenShard,
    has_no_value,
    kinds,
    samples_of,
    union_of_fields,
)


def remaining_in(
    shards: Sequence[OpenShard],
    lists: Sequence[PlacedList] | None = None,
    among: Container[int] | None = None,
) -> Remaining | None:
    """Return the positions that remain of a dataset with these shards; None if no sample was removed.

    `lists` are the lists of removed samples that are beside them, if they are loaded. Only the shards
    `among` these numbers are searched; without them, all.

    Raises:
        FormatError: A list is damaged.
        OSError: A list, or a value without a recorded checksum, cannot be read.
    """
    if lists is None:
        lists = lists_of(shards)
    positions, numbers, calls = [NO_NUMBERS], [NO_NUMBERS], list[RemovalCall]()
    for placed in lists:
        lookup = NameLookup(placed.removed.names)
        named, entries = named_positions(shards, placed, lookup, among=among)
        positions.append(named)
        numbers.append(placed.removed.numbers[entries] + len(calls))
        calls += placed.removed.calls
    every = np.concatenate(positions)
    if not len(every):
        return None
    in_time = sorted(range(len(calls)), key=lambda number: calls[number].time)
    call_of_each = np.argsort(in_time)[np.concatenate(numbers)]
    # each position once, with the first call that names it
    order = np.lexsort((call_of_each, every))
    removed, first = np.unique(every[order], return_index=True)
    by = call_of_each[order][first].astype(np.uint32)
    samples = int(samples_of(shards).sum())
    return Remaining.of(samples, removed, by, tuple(calls[number] for number in in_time))


def removed_in(
    shards: Sequence[OpenShard],
    lists: Sequence[PlacedList] | None = None,
    among: Container[int] | None = None,
) -> I64:
    """Return int64[n], the positions of the removed samples, ascending. The arguments: see `remaining_in`."""
    remaining = remaining_in(shards, lists, among)
    return NO_NUMBERS if remaining is None else remaining.removed


def recorded_digests(shards: Sequence[OpenShard]) -> Digests:
    """Return the recorded digest of the table of each shard, in bytes; an empty one where none is recorded."""
    if isinstance(shards, Listing):
        return shards.listed.digests.view("S16")
    return np.array([bytes.fromhex(shard.recorded) for shard in shards], "S16")


def matches_in(shards: Sequence[OpenShard], placed: PlacedList, names: Names) -> tuple[int, int]:
    """Return how many stored samples have some of the names of a list, and how many of these names no sample has."""
    positions, entries = named_positions(shards, placed, NameLookup(names))
    return len(np.unique(positions)), len(names) - len(np.unique(entries))


def named_positions(
    shards: Sequence[OpenShard],
    placed: PlacedList,
    lookup: NameLookup,
    *,
    same: bool = True,
    among: Container[int] | None = None,
) -> tuple[I64, I64]:
    """Return the positions of samples that a list names, and the numbers of their names; pairs of both, by shard.

    Shards that were searched when the list was written, and others with their digests, which have the
    same samples, are not searched, or loaded, again. Without `same`, all are, for samples that only
    have the key of a named one, and other bytes. Only the shards `among` these numbers are searched.

    Raises:
        OSError, FormatError: A value without a recorded checksum cannot be read.
    """
    starts = offsets_of(samples_of(shards))
    clean = np.isin(recorded_digests(shards), placed.removed.clean) & same
    pairs = [np.zeros((2, 0), np.int64)]
    for number in np.flatnonzero(~clean).tolist():
        shard = shards[number]
        if (among is None or number in among) and placed.names(shard.shard):
            rows, entries = named_rows(shard, lookup, same=same)
            pairs.append(np.stack([starts[number] + rows, entries]))
    positions, entries = np.concatenate(pairs, axis=1)
    return positions, entries


def lists_of(shards: Sequence[OpenShard]) -> list[PlacedList]:
    """Return the lists of removed samples that may name samples of these shards."""
    return lists_beside([shard.shard for shard in kinds(shards)])


def named_rows(shard: OpenShard, lookup: NameLookup, *, same: bool = True) -> tuple[I64, I64]:
    """Return the rows of a shard whose samples are named, and the numbers of these names; pairs of both.

    Without `same`, those that only have the key of a named sample, and other bytes.

    Raises:
        OSError, FormatError: A value without a recorded checksum cannot be read.
    """
    rows, entries = lookup.candidates(shard.index)
    if not len(rows):
        return rows, entries
    some, place = np.unique(rows, return_inverse=True)
    alike = (digests_of(shard, some)[place] == lookup.names.digests[entries]) == same
    alike &= lookup.names.keyed[entries] | same
    return rows[alike], entries[alike]


def names_of(shard: OpenShard, rows: I64) -> Names:
    """Return the names of samples of a shard. Values without a recorded checksum are read."""
    keys = shard.index.keys
    return Names.of(
        None if keys is None else keys.take(rows),
        digests_of(shard, rows),
        stored_sizes(shard.index)[rows],
    )


def digests_of(shard: OpenShard, rows: I64) -> U64:
    """Return uint64[n], the digests of samples of a shard. Values without a recorded checksum are read."""
    index = shard.index
    lacking = [
        name for name, column in index.fields.items() if column.crc32 is None and column.rows
    ]
    if not lacking:
        return sample_digests(index, rows)
    with closing(Reader([shard])) as reader:
        samples = reader.read(rows, dict.fromkeys(lacking), decode=False)
    few = {
        name: _read_column(column, rows, [sample.get(name) for sample in samples])
        if name in lacking
        else column.take(rows)
        for name, column in index.fields.items()
    }
    return sample_digests(ShardIndex(len(rows), (), few, index.container), np.arange(len(rows)))


def _read_column(column: FieldExtents, samples: I64, values: Sequence[object]) -> FieldExtents:
    """Return the extents of some samples with the checksums of their values, which were read."""
    extents = column.take(samples)
    flat = values
    if column.starts is not None:
        flat = [value for several in values for value in several or ()]  # type: ignore[attr-defined]
    sums = [0 if value is None else crc32(value) for value in flat]  # type: ignore[arg-type]
    assert len(sums) == extents.rows
    return replace(
        extents,
        crc32=np.where(extents.length == MISSING, 0, np.array(sums, np.uint32)).astype(np.uint32),
    )


def fingerprint_of(reader: Reader, fields: Mapping[str, str], positions: Positions) -> str:
    """Return the fingerprint of a dataset or view: 32 hexadecimal digits.

    It depends on the samples that are shown and on those before them, on the fields that are shown
    and their types, and for a repository of the Hub on the commit. It does not depend on shards
    after the last sample that is shown, so an append does not change the fingerprint of a view.

    Args:
        reader: The reader of the whole dataset.
        fields: The names and types of the fields that are shown.
        positions: The positions that are shown.
    """
    chain = _chain(reader.shards)
    is_plain = not reader.sides and reader.windows is None and len(chain) == len(reader.starts)
    shards = len(chain) - 1
    if is_plain:
        shards = int(np.searchsorted(reader.starts, _end(positions)))
        fields = _types_by_shards(reader, fields)[: shards + 1][-1]
    digest = hashlib.sha256(chain[shards])
    facts = [fields, _revisions(reader.shards)]
    digest.update(msgspec.json.encode(facts, order="deterministic"))
    for side in reader.sides:
        digest.update(side.rows.data)
    if reader.windows is not None:
        digest.update(reader.windows.digest())
    digest.update(_bytes_of(positions))
    return digest.hexdigest()[:32]


def fingerprints_of_prefixes(
    reader: Reader, fields: Mapping[str, str], remaining: Positions
) -> Iterator[tuple[int, str]]:
    """Yield the fingerprint of a dataset, and those that it had when it had fewer shards, the largest one first.

    A dataset that is joined, or has windows, has only its own.

    Args:
        reader: The reader of the dataset.
        fields: The names and types of its fields.
        remaining: The positions without removed samples.

    Yields:
        The number of samples, removed ones included, and the fingerprint.
    """
    yield int(reader.starts[-1]), fingerprint_of(reader, fields, remaining)
    revisions = _revisions(reader.shards)
    chain = _chain(reader.shards)
    # shards that are opened by sections have fewer links than tables
    if reader.sides or reader.windows is not None or len(chain) != len(reader.starts):
        return
    types = _types_by_shards(reader, fields)
    for shards in range(len(chain) - 2, 0, -1):
        samples = int(reader.starts[shards])
        facts = msgspec.json.encode([types[: shards + 1][-1], revisions], order="deterministic")
        shown = _bytes_of(first_of(remaining, samples))
        yield samples, hashlib.sha256(chain[shards] + facts + shown).hexdigest()[:32]


def _types_by_shards(reader: Reader, fields: Mapping[str, str]) -> list[Mapping[str, str]]:
    """Return the fields and their types as the dataset has them, as its first shard has them, as its first two, …."""
    shards = [shard.narrow or shard for shard in kinds(reader.shards)]
    distinct, types = dict[object, OpenShard](), [fields]
    if len({shard.fields for shard in shards}) == 1:
        return types  # without a look at any table
    for shard in shards:
        lacking = (has_no_value(field.name, [shard]) for field in shard.fields)
        form = (shard.fields, shard.samples > 0, *lacking)
        if form not in distinct:
            distinct[form] = shard
            union = union_of_fields([*distinct.values()])
            fields = {name: union[name].type for name in types[0] if name in union}
        types.append(fields)
    return types


def digests_at(reader: Reader, positions: I64) -> U64:
    """Return the digest of each of some samples, without its key: uint64[len(positions)].

    It is uint64[0] if a value has no recorded checksum: lengths do not tell samples apart.
    """
    digests = np.zeros(len(positions), np.uint64)
    for group in reader.groups(positions):
        if any(column.crc32 is None and column.rows for column in group.index.fields.values()):
            return digests[:0]
        digests[group.in_batch] = sample_digests(group.index, group.rows)
    return digests


def first_of(positions: Positions, samples: int) -> Positions:
    """Return the positions of a whole dataset that are in its first samples."""
    if not isinstance(positions, Remaining):
        return range(samples)
    return positions.if_removed(positions.removed < samples, samples)


def _chain(shards: Sequence[OpenShard]) -> list[bytes]:
    """Return the value of the chain before the first shard and after each."""
    values = accumulate(
        _digests(shards),
        lambda before, digest: hashlib.sha256(before + digest).digest(),
        initial=b"",
    )
    return list(values)


def _digests(shards: Sequence[OpenShard]) -> Iterator[bytes]:
    """Yield the digest of each shard. Of one that is opened by sections, sizes and counts stand for it."""
    if isinstance(shards, Listing):
        yield from (shards.listed.digest(number).encode() for number in range(len(shards)))
        return
    for parts in whole_shards(shards):
        if parts[0].section is None:
            shard = parts[0].narrow or parts[0]
            names = sorted(shard.asked.names.items())  # those that a caller gives to its fields
            yield shard.digest.encode() + (repr(names).encode() if names else b"")
        else:
            yield msgspec.json.encode(
                [sum(part.samples for part in parts), facts_of_files(parts[0].stamps)]
            )


def _end(positions: Positions) -> int:
    """Return one more than the last position that is shown."""
    if isinstance(positions, Remaining):
        return positions.total
    if not len(positions):
        return 0
    if isinstance(positions, range):
        return 1 + max(positions[0], positions[-1])
    return 1 + int(positions.max())


def _bytes_of(positions: Positions) -> bytes:
    if isinstance(positions, range):
        return repr(positions).encode()
    if isinstance(positions, Remaining):
        return b"without" + positions.removed.tobytes()
    return positions.tobytes()


def _revisions(shards: Sequence[OpenShard]) -> list[str]:
    """Return the repositories, with their commits, in which the files of shards can never change."""
    if isinstance(shards, Listing):
        return []
    roots = (shard.shard.root for shard in shards)
    return sorted({root.root for root in roots if is_object(root) and root.immutable})


def whole_shards(shards: Sequence[OpenShard]) -> list[list[OpenShard]]:
    """Return the shards, with the sections of one shard that follow each other together."""
    together: list[list[OpenShard]] = []
    for shard in shards:
        last = together[-1][-1] if together else shard
        if (
            last.section is None
            or shard.section is None
            or shard.shard is not last.shard
            or shard.section.number != last.section.number + 1
        ):
            together.append([])
        together[-1].append(shard)
    return together


def file_sizes(shards: Sequence[OpenShard]) -> I64:
    """Return int64[files], the size of each file of the shards, in bytes."""
    if isinstance(shards, Listing):
        return shards.listed.sizes
    if any(shard.section is not None for shard in shards):
        shards = [parts[0] for parts in whole_shards(shards)]
    return concatenated([sizes_of(shard.stamps) for shard in shards], np.int64)
