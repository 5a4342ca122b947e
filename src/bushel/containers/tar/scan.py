"""Scanning a tar archive in a file: its members, and whether it is complete."""

from __future__ import annotations

import io
import posixpath
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.names import Labels
from bushel._recognise.names import counted, junk_kind, may_hold_junk
from bushel._runtime.messages import log_warning
from bushel.errors import FormatError
from bushel.kernels import MappedFile, TarMembers
from bushel.spec import Spec
from bushel.storage import ExtentError, File

from .names import description_in
from .samples import Members

REGULAR = (0, ord("0"), ord("7"))
"""The types of members that are files."""
_HARD_LINK, _LINK = ord("1"), ord("2")
_SPARSE = ord("S")
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
        message = (
            f"{extra} bytes after the end of the archive; "
            "of concatenated archives only the first is read"
        )
        return FormatError(message, file.path, where, hint)
    if not found.terminated:
        message = "the archive ends without its two empty blocks: members may be missing"
        return FormatError(message, file.path, found.end, hint)
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
    message = f"{Members.of(found).names[row]!r} is stored as a sparse file"
    return FormatError(message, path, int(found.header[row]), "make the archive without --sparse")


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
