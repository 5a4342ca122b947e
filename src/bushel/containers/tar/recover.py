"""Reading a damaged archive: members with valid headers, as long as all members of their sample have one."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.shard import Shard, stamps
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64
from bushel.containers.base import ReadOptions
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.storage import File, open_file

from .names import archive_in
from .samples import Members, Table, tabulate
from .scan import BLOCK, Links, fields_and_names, sparse_file, without_junk

_WINDOW = 1 << 20


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the samples whose members can all be found.

    Raises:
        FormatError: Nothing can be recovered.
    """
    file = open_file(shard.path(0))
    archive, blocks = archive_in(file, shard.path(0).name)
    members, gaps, comment = _members(archive, fault)
    spec, labels = fields_and_names(comment, options.spec, file.path)
    repeated: list[int] = []

    def report(error: FormatError, sample: int) -> None:
        fault(error)
        repeated.append(sample)

    table = tabulate(members, spec, file.path, report)
    index = replace(table.index(stamps(shard, [file]), blocks), labels=labels)
    whole = np.ones(table.samples, np.bool_)
    whole[repeated] = False
    for sample in _incomplete(table, gaps):
        whole[sample] = False
        what = "it lacks a field that most samples have, and is beside damage"
        fault(
            FormatError(
                f"sample {table.keys[sample]!r} is lost: {what}",
                file.path,
                int(_first_offset(table)[sample]) - BLOCK,
            )
        )
    return Recovered(index.check(file.path), whole)


def _members(file: File, fault: Fault) -> tuple[Members, list[int], bytes]:
    """Return the regular files of an archive, the offsets at which others may be missing, and its comment."""
    data = file if isinstance(file, kernels.MappedFile) else file.read(0, file.size)
    links = Links(file)
    parts: list[Members] = []
    gaps: list[int] = []
    comment = b""
    start: int | None = 0
    while start is not None and start + BLOCK <= file.size:
        scanned = kernels.scan_tar(data, start)
        comment = scanned.comment or comment
        if (error := sparse_file(scanned, file.path)) is not None:
            fault(error)
            gaps.append(error.offset or 0)
        parts.append(without_junk(links.followed(scanned), Counter()))
        after = scanned.end if scanned.problem is None else scanned.problem_offset
        if scanned.problem is not None:
            fault(FormatError(scanned.problem, file.path, after))
            gaps.append(after)
        elif not scanned.terminated:
            fault(FormatError("the archive ends without its two empty blocks", file.path, after))
            gaps.append(after)
        elif not scanned.trailing_bytes:
            break
        start = _next_header(file, max(after, start) + BLOCK)
    return Members.joined(parts), gaps, comment


def _next_header(file: File, start: int) -> int | None:
    """Return the offset of the first block from `start` on that is a POSIX or GNU tar header, by magic and checksum."""
    weights = np.ones(BLOCK, np.int64)
    weights[148:156] = 0  # the checksum itself counts as spaces
    for first in range(start, file.size - BLOCK + 1, _WINDOW):
        size = min(_WINDOW, (file.size - first) // BLOCK * BLOCK)
        blocks = np.frombuffer(file.read(first, size), np.uint8).reshape(-1, BLOCK)
        for number in np.flatnonzero(
            (blocks[:, 257:262] == np.frombuffer(b"ustar", np.uint8)).all(1)
        ).tolist():
            block = blocks[number]
            stated = block[148:156].tobytes().strip(b" \0")
            if (
                not stated.strip(b"01234567")
                and stated
                and int(stated, 8) == int(block @ weights) + 8 * 32
            ):
                return int(first + number * BLOCK)
    return None


def _incomplete(table: Table, gaps: list[int]) -> list[int]:
    """Return the samples beside a gap that lack a field which most samples have."""
    if not gaps or not table.samples:
        return []
    beside = np.unique(np.searchsorted(_first_offset(table), gaps)[:, None] + [-1, 0])
    beside = beside[(beside >= 0) & (beside < table.samples)]
    lacking = np.zeros(table.samples, np.bool_)
    for column in table.columns.values():
        present = np.diff(column.starts) > 0 if column.starts is not None else column.length >= 0
        if 2 * int(present.sum()) > table.samples:
            lacking |= ~present
    return [sample for sample in beside.tolist() if lacking[sample]]


def _first_offset(table: Table) -> I64:
    """Return the offset of the first member of each sample."""
    first = np.full(table.samples, np.iinfo(np.int64).max)
    for column in table.columns.values():
        sample = np.arange(table.samples)
        if column.starts is not None:
            sample = np.repeat(sample, np.diff(column.starts))
        present = column.length != MISSING
        np.minimum.at(first, sample[present], column.offset[present])
    return first
