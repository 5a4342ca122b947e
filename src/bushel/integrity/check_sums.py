"""Checking the values of a shard against the recorded checksums, also of one that changed after it was indexed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from bushel._index.matching import Comparison, compare_values
from bushel._index.shard import FileStamp, Shard
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.messages import count
from bushel.containers.base import Report
from bushel.containers.checksums import with_checksums
from bushel.errors import FormatError
from bushel.storage import File

from .compare import same_arrays
from .problems import Findings

_ACCEPT = "`bushel index` records them"
_FORCE = "restore the file, or accept it with `bushel index --force`"


def check_crcs(
    shard: Shard, index: ShardIndex, files: list[File], tick: Report, found: Findings
) -> tuple[int, bool]:
    """Compare every field that has a checksum with it.

    Returns:
        The number of bytes compared, and whether all bytes were compared.
    """
    known = {name: column for name, column in index.fields.items() if column.crc32 is not None}
    complete = len(known) == len(index.fields)
    try:
        now = _recompute(index, known, files, tick)
    except FormatError:  # repeat it field by field, to find those that cannot be read
        now = {}
        for name, column in known.items():
            try:
                now |= _recompute(index, {name: column}, files, tick)
            except FormatError as error:
                found.add_error(error, "checksum")
                complete = False
    recorded = {
        name: known[name]
        for name, column in now.items()
        if not same_arrays(column, known[name], ("crc32",))
    }
    if recorded:
        compared = compare_values(replace(index, fields=recorded), replace(index, fields=now))
        _report_values(shard, compared, found)
    return sum(column.nbytes for column in now.values()), complete


def _recompute(
    index: ShardIndex,
    columns: dict[str, FieldExtents],
    files: list[File],
    tick: Report,
) -> dict[str, FieldExtents]:
    return dict(with_checksums(_unchecked(index, columns), files, report=tick).fields)


def _unchecked(index: ShardIndex, columns: Mapping[str, FieldExtents]) -> ShardIndex:
    """Return a table of some fields without their checksums."""
    bare = {name: replace(column, crc32=None) for name, column in columns.items()}
    return replace(index, fields=bare)


def _report_values(shard: Shard, compared: Comparison, found: Findings) -> None:
    """Add the values whose bytes do not have the recorded checksum."""
    for value in compared.differences():
        element = "" if value.element is None else f"element {value.element} "
        message = f"{element}should have the CRC-32 {value.expected:08x}, found {value.found:08x}"
        place = shard.locate(compared.now.place(value.file, value.offset))
        found.damaged.add((value.field, value.sample))
        found.add_value(compared.now.keys, value.sample, place, value.field, "checksum", message)


def check_changed(
    shard: Shard,
    known: ShardIndex,
    built: ShardIndex,
    files: Sequence[File] | None,
    tick: Report,
    found: Findings,
) -> tuple[int, bool]:
    """Compare the values of a shard with the checksums in a table that does not fit its files.

    Args:
        shard: The shard.
        known: The recorded table, checked.
        built: The table made from the files.
        files: The open files; None to compare the samples only.
        tick: Called with the number of bytes that were read since the last call.
        found: Gets the problems.

    Returns:
        The number of bytes of fields without a checksum in the files themselves that were compared
        with a recorded checksum, and whether all of them were.
    """
    now = built
    if files is None:
        known = _unchecked(known, known.fields)
    else:
        try:
            now = with_checksums(built, files, report=tick)
        except FormatError as error:
            found.add_error(error, "checksum")
            return 0, False
    compared = compare_values(known, now)
    _report(shard, known, compared, found)
    checked, complete = 0, files is not None
    for name, column in built.fields.items():
        if column.crc32 is None and files is not None:
            rows = compared.compared[name]
            checked += int(np.maximum(column.length[rows], 0).sum())
            complete = complete and bool(rows[column.length != MISSING].all())
    return checked, complete


def _report(shard: Shard, known: ShardIndex, compared: Comparison, found: Findings) -> None:
    """Add the problems that a comparison shows."""
    add = partial(found.add_file, shard.path(0))
    differing = compared.differing
    if (
        known.samples
        and compared.now.samples
        and (known.keys is None) != (compared.now.keys is None)
    ):
        was, now = "positions", "keys of their own"
        if known.keys is not None:
            was, now = now, was
        add(
            "replaced",
            f"samples had {was} as keys when the file was indexed, and have {now} now: {_ACCEPT}",
        )
    if compared.gone or compared.missing or compared.empties or (differing and not compared.equal):
        counts = [
            (compared.gone, f"of {known.samples} recorded samples are gone"),
            (compared.missing, "values with a recorded checksum are gone"),
            (
                compared.empties,
                "sequences are recorded as empty and are missing now, or the other way round",
            ),
            (differing, "values differ from their recorded checksum"),
            (compared.added, "samples are new"),
        ]
        what = ", ".join(f"{number} {text}" for number, text in counts if number)
        add("replaced", f"the file was replaced after it was indexed: {what}; {_FORCE}")
    elif compared.added:
        were = "was" if compared.added == 1 else "were"
        samples = count(compared.added, "sample")
        add("appended", f"{samples} {were} added after the file was indexed: {_ACCEPT}")
    elif not differing and not found.problems:
        if not known.has_checksums:
            add(
                "stale",
                "the file changed after it was indexed, and "
                "the index has no checksums to compare with",
            )
        elif any(entry.crc32 is not None for entry in known.files):
            add(
                "stale",
                "the file was written again with the values "
                "that the index has: `bushel index` notes it",
            )
    if compared.equal or not differing:
        _report_values(shard, compared, found)


def within_files(
    known: ShardIndex, shard: Shard, stamps: tuple[FileStamp, ...], found: Findings
) -> ShardIndex | None:
    """Return a recorded table for files whose own structure is damaged, without the values that no longer are in them.

    Returns:
        None if the shard has other files than the table.
    """
    names = [[entry.name.rpartition("/")[2] for entry in files] for files in (known.files, stamps)]
    if names[0] != names[1] or not known.has_checksums:
        return None
    columns, lost = {}, 0
    for name, column in known.fields.items():
        columns[name] = column
        outside = (column.length != MISSING) & (
            column.offset + column.length > _room(known, column.file, stamps)
        )
        if outside.any():
            lost += int(outside.sum())
            columns[name] = replace(column, length=np.where(outside, MISSING, column.length))
    if lost:
        message = f"{lost} recorded values are not in the file any more"
        found.add_file(shard.path(0), "format", message)
    return replace(known, files=stamps, fields=columns)


def _room(known: ShardIndex, file: int, stamps: tuple[FileStamp, ...]) -> int:
    """Return how many bytes of a file or block file are still there: up to the first block that is cut off."""
    blocks = known.blocks_of(file)
    if blocks is None:
        return stamps[file].size
    # the last stands for the table
    sizes = np.array([*(entry.size for entry in stamps), np.iinfo(np.int64).max])
    left = sizes[blocks.file] - blocks.offset
    cut = np.flatnonzero(left < blocks.length)
    if not len(cut):
        return blocks.size
    first = int(cut[0])
    return int(blocks.start[first]) + (
        max(int(left[first]), 0) if bool(blocks.is_stored(cut[:1])[0]) else 0
    )
