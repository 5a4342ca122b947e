"""Scanning a tar archive in a file: its members, whether it is complete, and the table of its samples.

One scan of the headers makes the table. Memory does not grow with the archive.

With Energon's offsets of samples, a remote archive is scanned in parts at once. Energon writes
`ARCHIVE.idx` beside an archive (uint64, little-endian: the offset of the first header of every
sample, then the end). It is not trusted: a part is accepted if the headers in it lead exactly to
the recorded beginning of the next one, so it finds the same members as a scan from front to back.
If they do not, the archive is scanned from front to back.
"""

from __future__ import annotations

import io
import posixpath
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.names import Labels
from bushel._recognise.names import counted, junk_kind, may_hold_junk
from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.errors import FormatError, SpecError
from bushel.kernels import MappedFile, TarMembers
from bushel.spec import Spec
from bushel.storage import AnyPath, ExtentError, File, open_file

from .names import description_in
from .samples import Members, SampleTable, Table, tabulate

REGULAR = (0, ord("0"), ord("7"))
"""The types of members that are files."""
_HARD_LINK, _LINK = ord("1"), ord("2")
_SPARSE = ord("S")
BLOCK = 512
"""Bytes of a header; data take whole blocks, too."""
_COMPRESSIONS = {
    b"\x1f\x8b": ("gzip", "rename it, so that its name ends in .tar.gz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "rename it, so that its name ends in .tar.zst"),
    b"BZh": ("bzip2", "expand it: `bunzip2` does"),
    b"\xfd7zXZ\0": ("xz", "expand it: `unxz` does"),
    b"PK\3\4": ("zip", "rename it, so that its name ends in .zip"),
}
"""First bytes of compressed files: the name of the compression, and advice."""
_LONGEST_MAGIC = 6
_PIECE = 1 << 16  # members
_WINDOW, _LARGEST = 1 << 18, 1 << 23
"""Bytes to read at once from files that are not mapped: at first, and where headers follow each other closely."""


class _Windows:
    """Reads the pieces that a scanner needs, and reads ahead when they are adjacent."""

    def __init__(self, file: File, end: int) -> None:
        self._file, self._size, self._end = file, _WINDOW, end
        self._start, self._data = 0, memoryview(b"")

    def read(self, offset: int, length: int) -> memoryview:
        """Return some bytes of the archive, by their offset."""
        end = self._start + len(self._data)
        if offset < self._start or offset + length > end:
            near = end > 0 and self._start <= offset <= end + self._size // 2
            self._size = min(2 * self._size, _LARGEST) if near else _WINDOW
            self._data = memoryview(
                self._file.read(offset, min(max(length, self._size), self._end - offset))
            )
            self._start = offset
        return self._data[offset - self._start :][:length]


def scan(file: File, first: int = 0, last: int | None = None) -> TarMembers:
    """Scan the headers of an archive in one pass, or those between two offsets. The first is the offset of a header.

    Raises:
        FormatError: The file shrank during the scan. Any other damage is in the result: see
            `damage`.
    """
    return next(pieces_of(file, sys.maxsize, first, last))


def pieces_of(
    file: File, members: int = _PIECE, first: int = 0, last: int | None = None
) -> Iterator[TarMembers]:
    """Scan the headers of an archive in one pass, and yield the members piece by piece: at least one piece.

    A piece has about as many `members`. The last piece has the damage of the archive: see `damage`.

    Raises:
        FormatError: The file shrank during the scan.
    """
    last = file.size if last is None else last
    scanner, windows = kernels.TarScanner(last, first), _Windows(file, last)
    try:
        while True:
            if isinstance(file, MappedFile):
                yield scanner.read(file, members)
            else:
                while scanner.members < members and (window := scanner.next_window()) is not None:
                    scanner.feed(windows.read(*window))
                yield scanner.take()
            if scanner.over:
                return
    except ExtentError as error:
        raise shrunk(file, error) from error


def shrunk(file: File, error: ExtentError) -> FormatError:
    """Return the error of an archive that shrank while it was read."""
    return FormatError("the file shrank while it was read", file.path, error.found)


def damage(found: TarMembers, file: File) -> FormatError | None:
    """Return the error after the members that were found; None for a complete archive."""
    hint = "run `bushel verify` on it"
    if file.size < 512 or (
        found.problem is not None and not len(found) and found.problem_offset == 0
    ):
        why = found.problem or f"it has {file.size} bytes, and an empty one has two blocks of zeros"
        head = bytes(file.read(0, min(_LONGEST_MAGIC, file.size)))
        for magic, (kind, advice) in _COMPRESSIONS.items():
            if head.startswith(magic):
                why, hint = f"it is compressed with {kind}", advice
        return FormatError(f"not a tar archive: {why}", file.path, 0, hint)
    if found.problem is not None:
        return FormatError(found.problem, file.path, found.problem_offset, hint)
    if found.trailing_bytes:
        extra = found.trailing_bytes
        where = file.size - extra
        return FormatError(
            f"{extra} bytes after the end of the archive; "
            "of concatenated archives only the first is read",
            file.path,
            where,
            hint,
        )
    if not found.terminated:
        return FormatError(
            "the archive ends without its two empty blocks: members may be missing",
            file.path,
            found.end,
            hint,
        )
    return None


def fields_and_names(
    comment: bytes, declared: Spec | None, path: str
) -> tuple[Spec | None, Labels]:
    """Return the fields to read an archive with, and names of classes, by its comment and by the caller."""
    described, faults = description_in(comment, path)
    for fault in faults:
        log_warning("%s: %s", path, fault.message)
    return described.with_declared(declared), described.labels


def sparse_file(found: TarMembers, path: str) -> FormatError | None:
    """Return the error of the first sparse file among the members, or None."""
    sparse = np.flatnonzero(found.type == _SPARSE)
    if not len(sparse):
        return None
    row = int(sparse[0])
    return FormatError(
        f"{Members.of(found).names[row]!r} is stored as a sparse file",
        path,
        int(found.header[row]),
        "make the archive without --sparse",
    )


def regular(found: TarMembers, path: str) -> Members:
    """Return the regular files among the members.

    Raises:
        FormatError: A member is a sparse file, whose data are stored in a packed form.
    """
    if (error := sparse_file(found, path)) is not None:
        raise error
    return only_regular(found)


def only_regular(found: TarMembers) -> Members:
    """Return the regular files among the members; sparse files are left out."""
    rows = np.flatnonzero(np.isin(found.type, REGULAR))
    if len(rows) == len(found):
        return Members.of(found)
    return Members.of(found).chosen(rows)


class Links:
    """The files that links in an archive lead to. All names are read when the first link is met.

    Args:
        file: The archive.

    Attributes:
        left_out: The number of links that lead to no file of the archive, by kind.
    """

    def __init__(self, file: File) -> None:
        self._file, self.left_out = file, Counter[str]()
        self._places: dict[str, tuple[int, int]] = {}

    def followed(self, scanned: TarMembers) -> Members:
        """Return the regular files among some members, and the links to such files of the archive."""
        links = np.flatnonzero(np.isin(scanned.type, (_HARD_LINK, _LINK))).tolist()
        if not links:
            return only_regular(scanned)
        if not self._places:
            files = only_regular(scan(self._file))
            places = zip(files.offset.tolist(), files.size.tolist(), strict=True)
            self._places = dict(zip(files.names.tolist(), places, strict=True))
        offset, size = scanned.offset.copy(), scanned.size.copy()
        members = replace(Members.of(scanned), offset=offset, size=size)
        is_file = np.isin(scanned.type, REGULAR)
        for row in links:
            name = members.names[row]
            place = self._places.get(self._target(scanned, row, name))
            if place is None:
                self.left_out["link that leads nowhere"] += 1
            else:
                offset[row], size[row] = self._places[name] = place
                is_file[row] = True
        return members.chosen(np.flatnonzero(is_file))

    def _target(self, scanned: TarMembers, row: int, name: str) -> str:
        """Return the name of the member that a link names, also in a record before its header; empty if damaged."""
        import tarfile

        first, last = int(scanned.header[row]), int(scanned.offset[row])
        head = io.BytesIO(self._file.read(first, last - first))
        try:
            with tarfile.open(fileobj=head, mode="r:", errors="surrogateescape") as archive:
                target = archive.next()
        except tarfile.TarError:
            return ""
        assert target is not None  # the scanner has read the header
        if scanned.type[row] == _HARD_LINK:
            return target.linkname
        folder, slash, _ = name.rpartition("/")
        return posixpath.normpath(f"{folder}{slash}{target.linkname}")


def without_junk(members: Members, counts: Counter[str]) -> Members:
    """Return the members that may be data; count the others by kind."""
    if not may_hold_junk(members.names.text.tobytes()):
        return members
    kinds = list(map(junk_kind, members.names.tolist()))
    counts.update(filter(None, kinds))
    return members.chosen(np.flatnonzero([kind is None for kind in kinds]))


def report_left_out(path: str, counts: Counter[str]) -> None:
    """Log the files that are left out of an archive."""
    if counts:
        log_warning("%s: left out: %s", path, counted(counts.items()))


# The table of an archive


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
                table = SampleTable(spec, file.path, file.size // BLOCK)
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
    finished.report_pieces(file.path)
    report_left_out(file.path, left_out + links.left_out + finished.left_out)
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
        data = file.read(0, min(file.size, 8 * (size // BLOCK + 2)))
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
    borders = [0, *inner[(inner > 0) & (inner % BLOCK == 0)].tolist(), file.size]
    spans = list(pairwise(borders))
    scanned = map_all(lambda span: _part(file, *span), spans, threads=len(spans))
    parts = [part for part in scanned if part is not None]
    if len(parts) == len(spans):
        return Members.joined(parts)
    return None


def _part(file: File, first: int, last: int) -> Members | None:
    """Return the regular files of a part, if it consists of members and ends where the next one begins."""
    scanned = scan(file, first, last)
    ends = scanned.offset + -(-scanned.size // BLOCK) * BLOCK
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
