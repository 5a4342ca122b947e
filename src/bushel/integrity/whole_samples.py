"""Find the intact samples of one shard that may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.binding import stamps_of, with_checksums
from bushel._dataset.open.completeness import manifest_of
from bushel._dataset.open.damage import recover_shard
from bushel._dataset.read.remaining import removed_in
from bushel._dataset.read.shard_fields import labels_beside
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.identity import compare_values, sample_digests
from bushel._index.names import Labels, labels_of_fields
from bushel._index.shard import Keys, may_lack_samples
from bushel._index.table import ShardIndex, opener
from bushel._runtime.arrays import I64, Bools
from bushel.codecs import get_codec
from bushel.codecs.registry import keeps_bytes
from bushel.errors import BushelError, CorruptError, FormatError
from bushel.spec import KEY, parse_spec

from .compare import differences
from .discover import Place, Tables, tables_of
from .problems import Findings, Problem

T = TypeVar("T")


class Inspected(Struct, frozen=True):
    """The samples of a shard that may be intact."""

    # the shard with its best available table; a second table has samples that are elsewhere in its
    # files
    shards: tuple[OpenShard, ...]
    whole: I64  # int64[n], ascending positions of the intact samples, counted over these tables
    known: int  # number of samples that are known to have existed
    checked: bool  # whether there is a recorded checksum of every value in these tables
    findings: Findings  # the damaged places


def inspect_shard(place: Place, *, decode: bool, room: int) -> Inspected:
    """Read a shard and find its intact samples.

    Args:
        place: The shard.
        decode: Whether a sample with a value that cannot be decoded is damaged, too.
        room: Number of problems to list; further ones are counted.
    """
    found, stamps = Findings(room), None
    with suppress(FormatError):  # a file is missing
        stamps = stamps_of(place.shard)
    tables, name = tables_of(place, stamps, False, Findings(0)), place.container.name
    parts, missing, checked = _open(place, tables, found)
    labels: Labels = {}
    if tables.recorded is not None:  # whether it fits or not
        labels = tables.recorded.labels
    labels = labels or labels_beside(name, [place.shard], manifest_of(name, [place.shard]))
    for opened, _ in parts:
        opened.labels = labels_of_fields(labels, [field.name for field in opened.fields])
    shards = tuple(opened for opened, _ in parts)
    located = np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *(mask for _, mask in parts)]))
    recorded = parts[0][0].samples if parts else 0
    known = missing + recorded
    if may_lack_samples([place.shard]):
        removed = removed_in(shards)
        located = np.setdiff1d(located, removed, assume_unique=True)
        known -= int(np.count_nonzero(removed < recorded))
    with Dataset(list(shards), verify=True) as dataset:
        whole = np.fromiter(_whole_samples(dataset, located.tolist(), decode, found), np.int64)
    return Inspected(shards, whole, known, checked, found)


def _open(
    place: Place, tables: Tables, found: Findings
) -> tuple[list[tuple[OpenShard, Bools]], int, bool]:
    """Return a shard with its best available table, how many samples are known to be missing, and `Inspected.checked`.

    The table comes with bool[samples]: whether the extents of a sample are known. If the index does
    not locate all samples, there is a second table, for those that are found elsewhere in the
    damaged files.
    """
    name, shard = place.container.name, place.shard
    recorded, fresh, built, faults, _ = tables
    if recorded is None or not recorded.has_all_checksums:
        recorded, fresh = None, False
    else:
        with suppress(FormatError):  # a file is missing; the extents in the others are still known
            recorded = replace(recorded, files=stamps_of(recorded.shard_with_files(shard)))
    proven = recorded is not None and (
        fresh or built is None or not any(differences(recorded, built))
    )
    for fault in faults:
        if not (proven and isinstance(fault, CorruptError)):  # found again when the sample is read
            found.add_error(fault)
    if proven and recorded is not None:
        # a table that fits its sidecar need not travel to other processes, which map it themselves
        opened = OpenShard.of(name, shard, recorded, stored=fresh)
        if built is None and recorded.keys is not None:
            return _with_moved_samples(place, opened, recorded, recorded.keys), 0, True
        return [(opened, np.ones(recorded.samples, np.bool_))], 0, True
    repeated = built is not None and built.keys is not None and bool(built.keys.duplicates())
    if built is not None and not faults and not repeated:
        index, located, lost = built, np.ones(built.samples, np.bool_), 0
    else:
        spec = None if recorded is None else recorded.spec
        recovered = recover_shard(name, shard, spec, found.add_error)
        if recovered is None:
            return [], 0, True
        index, located, lost = recovered.index, recovered.whole, recovered.lost
    index, checked = _with_known_checksums(place, recorded, index, found)
    return [(OpenShard.of(name, shard, index, stored=False), located)], lost, checked


def _with_known_checksums(
    place: Place, known: ShardIndex | None, index: ShardIndex, found: Findings
) -> tuple[ShardIndex, bool]:
    """Return the table of a changed shard with the recorded checksums of its values, and whether each has one.

    If no value has its own any more, the recorded checksums are of another file, and not used.
    Recorded samples that the shard does not have are noted: they may be there under a damaged key.
    """
    as_it_is = index, index.has_all_checksums
    if known is None:
        return as_it_is
    shard = index.shard_with_files(place.shard)
    try:
        now = with_checksums(index, opener(index, shard))
        compared = compare_values(known, now)
    except (FormatError, OSError):  # the values that cannot be read are found when they are read
        return as_it_is
    if not compared.equal:
        return as_it_is
    if compared.empties:
        found.add_file(
            shard.path(0),
            "replaced",
            f"{compared.empties} sequences are recorded as "
            "empty and are missing now, or the other way round",
        )
    if compared.gone:
        message = f"{compared.gone} of {known.samples} recorded samples are gone"
        if compared.added:
            message += (
                f"; {compared.added} are new, and are kept without a checksum to compare with"
            )
        found.add_file(shard.path(0), "replaced", message)
    on_record = all(
        bool(compared.compared[name][column.present].all())
        for name, column in index.fields.items()
        if column.crc32 is None
    )
    return compared.expected(), on_record


def _with_moved_samples(
    place: Place, opened: OpenShard, kept: ShardIndex, keys: Keys
) -> list[tuple[OpenShard, Bools]]:
    """Return the table of the index, and one for samples that moved in the file and still match their checksums."""
    name, shard = place.container.name, place.shard
    located = np.ones(kept.samples, np.bool_)
    dataset, rows = Dataset([opened], verify=True), np.arange(kept.samples)
    missing = np.setdiff1d(rows, list(_whole_samples(dataset, rows.tolist(), False, Findings(0))))
    recovered = None
    if len(missing):
        recovered = recover_shard(name, shard, kept.spec, lambda _: None)
    if recovered is None or recovered.index.keys is None:
        return [(opened, located)]
    index = with_checksums(recovered.index, opener(recovered.index, shard))
    rows = np.arange(index.samples)
    lost = list(zip(keys.take(missing), sample_digests(kept, missing).tolist(), strict=True))
    names = recovered.index.keys.tolist()
    recovered_samples = list(zip(names, sample_digests(index, rows).tolist(), strict=True))
    elsewhere = set(compress(recovered_samples, recovered.whole)) & set(lost)
    moved = recovered.whole & np.array(
        [sample in elsewhere for sample in recovered_samples], np.bool_
    )
    if not moved.any():
        return [(opened, located)]
    located[missing] = [sample not in elsewhere for sample in lost]
    return [(opened, located), (OpenShard.of(name, shard, index, stored=False), moved)]


def readable(
    read: Callable[[Sequence[int]], Iterable[T]],
    positions: Sequence[int],
    report: Callable[[int, Exception], object],
    at_once: int = 64,
) -> Iterator[tuple[int, T]]:
    """Yield the positions of samples and what `read` returns for each; `report` gets the errors of the others.

    Several samples are read at once; one by one, if one of them cannot be read.
    """
    for first in range(0, len(positions), at_once):
        chunk = positions[first : first + at_once]
        try:
            samples = read(chunk)
        except (BushelError, OSError) as error:
            if len(chunk) == 1:
                report(chunk[0], error)
            else:
                yield from readable(read, chunk, report, 1)
        else:
            yield from zip(chunk, samples, strict=True)


def _whole_samples(
    dataset: Dataset, located: list[int], decode: bool, found: Findings
) -> Iterator[int]:
    """Yield the located samples whose fields can all be read, match their checksums and, on request, be decoded."""

    def report(position: int, error: Exception) -> None:
        # a sample without a key gets its position in the whole dataset as key, not its position in
        # this shard
        number = None if dataset.info.keyed else position
        if isinstance(error, CorruptError):
            message = error.message
            if error.found is not None and error.expected is not None:
                message = f"should have the CRC-32 {error.expected:08x}, found {error.found:08x}"
            place = error.file, error.offset, error.key, error.field
            found.add(Problem(*place, "checksum", message), number)
        elif isinstance(error, FormatError):
            found.add_error(error)
        else:
            key = dataset.keys[position]
            found.add(Problem(None, None, key, None, "decode", str(error)), number)

    for position, _ in readable(partial(_read, dataset, decode), located, report):
        yield position


def _read(dataset: Dataset, decode: bool, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Read samples. Values that are not stored as they are must be valid in any case: writing encodes them again."""
    samples = dataset.read(positions, decode=decode)
    fields = parse_spec(dataset.spec)
    encoded = [name for name, field in fields.items() if not keeps_bytes(field.codec)]
    if encoded:
        for sample in dataset.read(positions, encoded, decode=True):
            for name in sample.keys() - {KEY}:
                encode = get_codec(fields[name].codec).encode
                for value in sample[name] if fields[name].sequence else (sample[name],):
                    encode(value)
    return samples
