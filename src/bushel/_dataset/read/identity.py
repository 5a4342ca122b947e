"""Which data is this: the fingerprint of a dataset or view, as a chain over the digests of its shards.

The chain has a value after each shard, which depends on that shard and those before it. So a
dataset to which shards were appended still knows what it was before, and so do its views of those
samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bushel._index.identity import facts_of_files, sample_digests
from bushel._runtime.arrays import I64, U64
from bushel.storage import is_object

from .selection import Positions, Remaining
from .shards import Listing, OpenShard

if TYPE_CHECKING:
    from .reader import Reader


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
    chain = list(_chain(_digests(reader.shards)))
    is_plain = not reader.sides and reader.windows is None and len(chain) == len(reader.starts)
    if is_plain:
        shards = int(np.searchsorted(reader.starts, _end(positions)))
    else:
        shards = len(chain) - 1
    digest = hashlib.sha256(chain[shards])
    digest.update(msgspec.json.encode([fields, _revisions(reader.shards)]))
    for side in reader.sides:
        digest.update(side.rows.data)
    if reader.windows is not None:
        digest.update(reader.windows.digest())
    digest.update(_bytes_of(positions))
    return digest.hexdigest()[:32]


def fingerprints_of_prefixes(
    reader: Reader, fields: Mapping[str, str], remaining: Positions
) -> Iterator[tuple[int, str]]:
    """Yield the fingerprints that a dataset had when it had fewer shards, the largest one first.

    Args:
        reader: The reader of a dataset without joins and windows.
        fields: The names and types of its fields.
        remaining: The positions without removed samples.

    Yields:
        The number of samples, removed ones included, and the fingerprint.
    """
    facts = msgspec.json.encode([fields, _revisions(reader.shards)])
    chain = list(_chain(_digests(reader.shards)))
    if len(chain) != len(reader.starts):  # shards that are opened by sections
        return
    for shards in range(len(chain) - 2, 0, -1):
        samples = int(reader.starts[shards])
        shown = _bytes_of(first_of(remaining, samples))
        yield samples, hashlib.sha256(chain[shards] + facts + shown).hexdigest()[:32]


def digests_at(reader: Reader, positions: I64) -> U64:
    """Return the digest of each of some samples, without its key: uint64[len(positions)].

    It is uint64[0] if a value has no recorded checksum: lengths do not tell samples apart.
    """
    digests = np.zeros(len(positions), np.uint64)
    for group in reader.groups(positions):
        if any(column.crc32 is None and column.rows for column in group.index.fields.values()):
            return digests[:0]
        places = slice(None) if group.places is None else group.places
        digests[places] = sample_digests(group.index, group.rows)
    return digests


def first_of(positions: Positions, samples: int) -> Positions:
    """Return the positions of a whole dataset that are in its first samples."""
    if not isinstance(positions, Remaining):
        return range(samples)
    earlier = positions.removed < samples
    if not earlier.any():
        return range(samples)
    return Remaining.of(samples, positions.removed[earlier], positions.calls[earlier], positions.by)


def _chain(digests: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the value of the chain before the first shard and after each."""
    return accumulate(
        digests, lambda before, digest: hashlib.sha256(before + digest).digest(), initial=b""
    )


def _digests(shards: Sequence[OpenShard]) -> Iterator[bytes]:
    """Yield the digest of each shard. Of one that is opened by sections, sizes and counts stand for it."""
    if isinstance(shards, Listing):
        yield from (shards.listed.digest(number).encode() for number in range(len(shards)))
        return
    if all(shard.section is None for shard in shards):
        yield from map(_digest_of, shards)
        return
    from .shard_fields import whole_shards

    for parts in whole_shards(shards):
        if parts[0].section is None:
            yield _digest_of(parts[0])
        else:
            yield msgspec.json.encode(
                [sum(part.samples for part in parts), facts_of_files(parts[0].stamps)]
            )


def _digest_of(shard: OpenShard) -> bytes:
    """Return the digest of a shard, and with it the names that a caller gives to its fields."""
    names = sorted(shard.asked.names.items())
    return shard.digest.encode() + (repr(names).encode() if names else b"")


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
