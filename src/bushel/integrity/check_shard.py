"""Checking one shard: its structure, its index, its checksums, its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bushel._dataset.open.binding import stamp_of, stamps_of
from bushel._dataset.open.caller_fields import CallerFields, listed_table
from bushel._dataset.open.indexing import again
from bushel._dataset.open.tables import StoredTable, build_table, changed_types
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.identity import table_digest
from bushel._index.table import Shard, ShardIndex
from bushel.codecs import get_codec
from bushel.containers import Container
from bushel.containers.base import ReadOptions
from bushel.errors import CodecError, FormatError, MissingPackageError, SpecError
from bushel.kernels import ExtentError
from bushel.spec import KEY
from bushel.storage import File, open_file
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.files import mapped_once

from .check_sums import (
    Damaged,
    check_changed,
    check_crcs,
    within_files,
)
from .compare import (
    Difference,
    content_differences,
    differences,
    name_differences,
)
from .discover import Place
from .problems import Findings, Problem
from .shard_tables import recorded_table, table_of_files, with_checked_keys

_CHUNK = 64  # number of samples that are read at once and then decoded


@dataclass(frozen=True, slots=True)
class Checks:
    """Options of a check."""

    checksums: bool  # whether to compare all bytes with their checksums
    decode: bool  # whether to decode every value
    pickle: bool  # whether codecs that run code may be used, and pickled gulp metadata be unpickled
    room: int  # number of problems to keep per shard
    # called with the number of bytes checked since the last call; raises to end the work
    tick: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking one shard."""

    findings: Findings
    index: ShardIndex | None  # the best available table, or None
    bytes_checked: int = 0  # number of stored bytes that were compared with a checksum
    complete: bool = False  # whether all stored bytes were compared
    # whether it is the table of the index, which describes the files as they are
    described: bool = False


def check_shard(place: Place, checks: Checks) -> Checked:
    """Check one shard, and continue after every problem."""
    container, shard = place.container, place.shard
    expansion_cache().clear()  # so that the present bytes of the files are compared
    found = Findings(checks.room)
    try:
        with mapped_once():
            return _check(container, shard, checks, found)
    except OSError as error:
        found.add_os_error(error, str(shard.path(0)))
    return Checked(found, None)


def _check(container: Container, shard: Shard, checks: Checks, found: Findings) -> Checked:
    try:
        stamps = stamps_of(shard)
    except FormatError as missing:
        found.add_error(missing)
        return Checked(found, None)
    recorded, fits = recorded_table(shard, found)
    built, faults = table_of_files(container, shard, recorded, checks.pickle)
    recorded = with_checked_keys(recorded, built, shard, found)
    kept, known = (recorded, None) if fits else (None, recorded)
    for fault in faults:
        found.add_error(fault)
    damaged: Damaged = set()
    if kept is not None and kept.digest != table_digest(kept):
        message = (
            "its digest is not that of its contents: run `bushel index --force` on the dataset"
        )
        found.add_file(str(shard.sidecar), "index", message)
    if kept is not None and built is not None:
        _compare(container, shard, kept, differences(kept, built), damaged, found)
    elif known is not None and built is not None:
        for difference in name_differences(known, built, changed=True):
            file, what = str(shard.path(0)), difference.what
            found.add(Problem(file, None, None, difference.field, "index", what))
    index = built if kept is None else kept
    if index is None and known is not None:
        index = within_files(known, shard, stamps, found)
    if index is None:
        return Checked(found, None)
    as_named, shard = shard, shard.with_files_of(index)
    files = list(map(open_file, shard.paths))
    checked, complete = 0, False
    if checks.checksums:
        for error in container.check_stored(shard, checks.tick):
            found.add_error(error, "checksum")
        checked, complete = check_crcs(shard, index, files, checks.tick, damaged, found)
    if known is not None and built is not None:
        opened = files if checks.checksums else None
        more, complete = check_changed(shard, known, built, opened, checks.tick, found)
        checked += more
    if checks.checksums and kept is not None:
        _check_contents(container, shard, kept, built, damaged, found)
        _check_stamps(kept, files, found)
    if kept is None:
        _check_types(container, as_named, known, checks.pickle, found)
    if checks.decode:
        _check_values(container, shard, index, checks, found)
    return Checked(found, index, checked, complete, described=kept is not None)


# Comparing the index with the files


def _compare(
    container: Container,
    shard: Shard,
    kept: ShardIndex,
    differing: Iterable[Difference],
    damaged: Damaged,
    found: Findings,
) -> None:
    """Report differences of a stored table and the files, which did not change after it was made.

    Values in `damaged` are left out, as their damage was reported, and values with differences are
    added to it.
    """
    before = frozenset(damaged)
    for difference in differing:
        if difference.field is not None and difference.sample is not None:
            if (difference.field, difference.sample) in before:
                continue
            damaged.add((difference.field, difference.sample))
        file, offset = str(shard.path(0)), difference.offset
        if difference.file is not None:
            file, at = shard.locate(kept.place(difference.file, offset or 0))
            offset = None if offset is None else at
        refs = container.file_of_references(shard)
        if difference.referred and refs is not None:
            file, offset = f"{shard.root}/{refs}", None  # the records themselves are unchanged
        message = (
            f"{difference.what}; the modification time is unchanged, so one of the two is damaged"
        )
        place = file, offset
        found.add_value(kept.keys, difference.sample, place, difference.field, "index", message)


def _check_contents(
    container: Container,
    shard: Shard,
    kept: ShardIndex,
    built: ShardIndex | None,
    damaged: Damaged,
    found: Findings,
) -> None:
    """Make columns, segments, packets and seek tables again as `bushel index` does, and compare them.

    Values that are known to be damaged are left out: what was made of them differs, too.
    """
    bare = {
        name: replace(own, segments=None, frames=None, seek=None)
        for name, own in kept.fields.items()
    }
    if built is None:
        columns = {}
    else:
        columns = {name: own for name, own in built.columns.items() if name in kept.columns}
    try:
        now = again(replace(kept, fields=bare, columns=columns), kept, shard)
    except MissingPackageError as error:
        found.add_file(
            shard.sidecar, "unchecked", f"columns or packets of the index are not compared: {error}"
        )
        return
    except FormatError as error:
        found.add_error(error, "checksum")
        return
    except ExtentError as error:  # bytes that cannot be read have no column
        found.add_file(shard.path(0), "checksum", str(error))
        return
    _compare(container, shard, kept, content_differences(kept, now), damaged, found)


def _check_types(
    container: Container, shard: Shard, known: ShardIndex | None, pickle: bool, found: Findings
) -> None:
    """Report fields that get other types when the changed files are opened, if nothing else was found.

    The index has the recorded types; without one, the manifest has them.
    """
    recorded = known or listed_table(container.name, shard)
    if recorded is None or not found.only_warnings:
        return
    table = None if known is None else StoredTable(known, False, known.files)
    try:
        now = build_table(container.name, shard, ReadOptions(pickle=pickle), table)
    except (FormatError, SpecError):  # no types at all
        return
    for name, was, is_now in changed_types(recorded, now):
        message = (
            f"its type is recorded as {was}, and is {is_now} in the files now: restore them,"
            " or accept the new type with `bushel index --force`"
        )
        found.add(Problem(str(shard.path(0)), None, None, name, "index", message))


def _check_stamps(kept: ShardIndex, files: Sequence[File], found: Findings) -> None:
    """Report files whose first or last bytes differ from the index, if nothing else was found.

    A byte that no value and no checksum covers was changed: of a header, or of a comment.
    """
    if not found.only_warnings:
        return
    for stamp, file in zip(kept.files, files, strict=True):
        if stamp.crc32 is not None and stamp_of(file) != stamp.crc32:
            message = (
                "bytes that belong to no value differ from the index, although the modification"
                " time is unchanged; "
                "all values with checksums are intact: `bushel repair` writes the samples again"
            )
            found.add_file(file.path, "index", message)


# Decoding values


def _check_values(
    container: Container,
    shard: Shard,
    index: ShardIndex,
    checks: Checks,
    found: Findings,
) -> None:
    """Decode every field of every sample on its own."""
    opened = OpenShard.of(
        container.name, shard, index, stored=False, asked=CallerFields(pickle=checks.pickle)
    )
    dataset, index = Dataset([opened], verify=False), opened.index
    for first in range(0, len(dataset), _CHUNK):
        positions: Sequence[int] = range(first, min(first + _CHUNK, len(dataset)))
        checks.tick(0)
        try:
            batch = dataset.read(positions, decode=False)
        except FormatError as error:
            found.add_error(error)
            continue
        for position, sample in zip(positions, batch, strict=True):
            for name, stored in sample.items():
                if name != KEY:
                    _check_value(dataset, index, position, name, stored, found)


def _check_value(
    dataset: Dataset, index: ShardIndex, position: int, name: str, stored: Any, found: Findings
) -> None:
    codec = get_codec(index.fields[name].codec)
    elements: Iterable[Any] = stored if isinstance(stored, list) else [stored]
    for number, element in enumerate(elements):
        try:
            codec.decode(element)
        except CodecError as error:
            if isinstance(stored, list):
                message = f"element {number}: {error}"
            else:
                message = str(error)
            found.add_value(
                index.keys, position, dataset.location(position, name), name, "decode", message
            )
