"""Reading the table of an archive with one scan of its headers. Memory does not grow with the archive.

In a damaged archive, members with valid headers are read, as long as all members of their sample
have one.

With Energon's offsets of samples, a remote archive is scanned in parts at once. Energon writes
`ARCHIVE.idx` beside an archive (uint64, little-endian: the offset of the first header of every
sample, then the end). It is not trusted: a part is accepted if the headers in it lead exactly to
the recorded beginning of the next one, so it finds the same members as a scan from front to back.
If they do not, the archive is scanned from front to back.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.names import Labels
from bushel._index.shard import Shard, stamps
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.containers.base import ReadOptions
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError, SpecError
from bushel.kernels import MappedFile
from bushel.spec import Spec
from bushel.storage import AnyPath, File, open_file

from .names import archive_in
from .samples import Members, SampleTable, Table, tabulate
from .scan import (
    Links,
    damage,
    fields_and_names,
    pieces_of,
    regular,
    report_left_out,
    scan,
    sparse_file,
    without_junk,
)

_BLOCK = 512


def read_table(archive: AnyPath, file: File, spec: Spec | None) -> tuple[Table, Labels]:
    """Return the table of an archive, and the names of the classes of its fields.

    An index of Energon beside an archive on a server is used.

    Args:
        archive: Its path.
        file: Its bytes.
        spec: Fields that the user declared, or None.

    Raises:
        FormatError: The archive is damaged, a member is a sparse file, or members cannot be grouped
            into samples.
        SpecError: The declared fields do not fit those that the archive describes.
    """
    if (
        not isinstance(file, MappedFile)
        and (starts := recorded_starts(archive, file.size)) is not None
    ):
        members = scan_parts(file, starts)
        if members is not None:
            junk = Counter[str]()
            table = tabulate(without_junk(members, junk), spec, file.path)
            report_left_out(file.path, junk + table.left_out)
            return table, {}
    return _one_pass(file, spec)


def _one_pass(
    file: File, declared: Spec | None, comment: bytes | None = None
) -> tuple[Table, Labels]:
    """Return the table and the names by a scan of the headers. `comment` describes the fields, if it is known.

    Damage is reported before an error of the samples.
    """
    left_out, links = Counter[str](), Links(file)
    labels: Labels = {}
    table: SampleTable | None = None
    sparse: FormatError | None = None
    refused: FormatError | SpecError | None = None
    for scanned in pieces_of(file):
        sparse = sparse or sparse_file(scanned, file.path)
        members = without_junk(links.followed(scanned), left_out)
        try:
            if table is None and refused is None:
                comment = scanned.comment if comment is None else comment
                spec, labels = fields_and_names(comment, declared, file.path)
                table = SampleTable(spec, file.path, file.size // _BLOCK)
            if table is not None and refused is None:
                table.add(members, scanned.end / max(file.size, 1))
        except (FormatError, SpecError) as error:
            refused = error
    if (problem := damage(scanned, file) or sparse) is not None:
        raise problem
    if scanned.comment != comment:  # fields are described after the first members
        return _one_pass(file, declared, scanned.comment)
    if refused is not None or table is None:
        raise refused or FormatError("no members were read", file.path)
    finished = table.finish()
    report_left_out(file.path, left_out + links.left_out + finished.left_out)
    finished.report_pieces(file.path)
    return finished, labels


_STARTS = ".idx"  # the suffix that Energon adds to the name of an archive
_PREPARE = "run `energon prepare` again, or delete the index"
_PARTS = 32
# bytes of a part, at least: headers that are closer are read faster one after the other
_LEAST = 1 << 20


def recorded_starts(archive: AnyPath, size: int) -> I64 | None:
    """Return where samples begin, and the end, by Energon's index beside an archive; None without an index.

    An index whose offsets do not increase, or are outside the archive, is left out with a warning.
    """
    path = archive.parent / f"{archive.name}{_STARTS}"
    try:
        file = open_file(path)
        # a sample has a block or more
        data = file.read(0, min(file.size, 8 * (size // _BLOCK + 2)))
    except (FileNotFoundError, PermissionError):
        # a store that forbids listing refuses access to missing objects
        return None
    starts = np.frombuffer(data, "<u8", len(data) // 8).astype(np.int64)
    outside = (starts < 0) | (starts > size)
    if len(data) % 8 or outside.any() or (np.diff(starts) <= 0).any():
        log_warning("%s: it does not fit the %d bytes of %s: %s", path, size, archive, _PREPARE)
        return None
    return starts


def scan_parts(file: File, starts: I64) -> Members | None:
    """Return the regular files of an archive, whose parts are scanned at once.

    None if it is small, or the offsets do not fit it, or it has records for the whole archive.
    `starts` has offsets of headers, ascending, and the end.

    Raises:
        FormatError: The file shrank, or a member is a sparse file.
    """
    count = min(_PARTS, file.size // _LEAST)
    if len(starts) < 2 or count < 2:
        return None
    from bushel._runtime.parallel import map_all

    evenly = np.linspace(0, file.size, count + 1)[1:-1]
    inner = np.unique(starts[np.maximum(np.searchsorted(starts[:-1], evenly) - 1, 0)])
    borders = [0, *inner[(inner > 0) & (inner % _BLOCK == 0)].tolist(), file.size]
    spans = list(zip(borders[:-1], borders[1:], strict=True))
    scanned = map_all(lambda span: _part(file, *span), spans, threads=len(spans))
    parts = [part for part in scanned if part is not None]
    if len(parts) == len(spans):
        return Members.joined(parts)
    return None


def _part(file: File, first: int, last: int) -> Members | None:
    """Return the regular files of a part, if it consists of members and ends where the next one begins."""
    scanned = scan(file, first, last)
    ends = scanned.offset + -(-scanned.size // _BLOCK) * _BLOCK
    if last == file.size:
        whole = scanned.terminated and not scanned.trailing_bytes
    else:
        whole = not scanned.terminated and len(ends) > 0 and int(ends[-1]) == last
    # a record for the whole archive would be between a member and the next header
    if (
        not whole
        or scanned.problem is not None
        or scanned.comment
        or (scanned.header != [first, *ends[:-1]]).any()
    ):
        return None
    return regular(scanned, file.path)


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
        message = f"sample {table.keys[sample]!r} is lost: {what}"
        fault(FormatError(message, file.path, int(_first_offset(table)[sample]) - _BLOCK))
    return Recovered(index.check(file.path), whole)


def _members(file: File, fault: Fault) -> tuple[Members, list[int], bytes]:
    """Return the regular files of an archive, the offsets at which others may be missing, and its comment."""
    data = file if isinstance(file, kernels.MappedFile) else file.read(0, file.size)
    links = Links(file)
    parts: list[Members] = []
    gaps: list[int] = []
    comment = b""
    start: int | None = 0
    while start is not None and start + _BLOCK <= file.size:
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
        start = _next_header(file, max(after, start) + _BLOCK)
    return Members.joined(parts), gaps, comment


def _next_header(file: File, start: int) -> int | None:
    """Return the offset of the first block from `start` on that is a POSIX or GNU tar header, by magic and checksum."""
    weights = np.ones(_BLOCK, np.int64)
    weights[148:156] = 0  # the checksum itself counts as spaces
    for first in range(start, file.size - _BLOCK + 1, _WINDOW):
        size = min(_WINDOW, (file.size - first) // _BLOCK * _BLOCK)
        blocks = np.frombuffer(file.read(first, size), np.uint8).reshape(-1, _BLOCK)
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
                return int(first + number * _BLOCK)
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
        if column.starts is None:
            first = np.where(column.length != MISSING, np.minimum(first, column.offset), first)
            continue
        for sample, (start, end) in enumerate(pairwise(column.starts.tolist())):
            first[sample] = min([first[sample], *column.offset[start:end].tolist()])
    return first
