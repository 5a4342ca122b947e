"""Zip archives, read in place: members that share directory and name up to the first dot are one sample.

A member that is stored is an extent of the file; one that is compressed by deflate or zstd is a
block. The directory of the archive has the CRC-32 of each value. docs/format-zip.md has the rules.

The arrays go to temporary files, so that memory does not grow with their number, except for 20 to
28 bytes a sample, and 16 to 28 a member.

The directory at the end is read in windows. Nothing in it is trusted: a kernel checks that entries are
in the directory, and `data_of` that members are in the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import Keys, Shard, Strings, stamps
from bushel._index.table import ShardIndex
from bushel._recognise.names import LeftOut, may_hold_junk
from bushel._runtime.arrays import I32, I64, U8, U32, Bools, GrowingArrays, offsets_of
from bushel.errors import FormatError
from bushel.kernels import MappedFile, MemberGroups, ZipScanner, zip_data
from bushel.storage import Blocks, ExtentError, Extents, File, gather

from .base import Container, ReadOptions
from .tar import samples as tar
from .tar.scan import report_left_out, shrunk

ENCRYPTED = 0x1
"""The flag of entries whose members are encrypted."""

STORED = 0
"""The compression method of members that are not compressed."""

_SLASH, _BACKSLASH = b"/\\"
_HINT = "the archive is damaged or incomplete: write or download it again"
_END, _LOCATOR, _END_64 = (
    struct.Struct("<4s4H2LH"),
    struct.Struct("<4sLQL"),
    struct.Struct("<4sQ2H2L4Q"),
)
# bytes that have all of them, with the longest comment
_TAIL = (1 << 16) + _END.size + _LOCATOR.size + _END_64.size
_ONLY_DISK = (0, 0xFFFF)  # the number is in the record of zip64 if it is 0xFFFF
_LOCAL_HEADER = 30
# bytes of the directory that are read at once: of local files, and of others
_WINDOW, _FAR_WINDOW = 1 << 20, 8 << 20


class Entries(NamedTuple):
    """Some entries of a directory, in its order."""

    names: Strings
    header: I64  # offset of the header before the data
    stored: I64  # bytes in the file
    size: I64  # bytes of the value
    crc32: U32  # CRC-32 of the value
    method: np.ndarray[tuple[int], np.dtype[np.uint16]]
    flags: np.ndarray[tuple[int], np.dtype[np.uint16]]

    @classmethod
    def of(cls, scanner: ZipScanner) -> Entries:
        """Return the entries that a scanner has found since the last call."""
        scanned = scanner.take()
        return cls(Strings(*scanned[:2]), *scanned[2:])


class Directory(Struct, frozen=True):
    """Where the directory of an archive is.

    Attributes:
        file: The archive.
        start: Offset of the directory in bytes.
        size: Its size in bytes.
        shift: Bytes of the file before the archive, which offsets in it do not count.
        tail: The last bytes of the file.
    """

    file: File
    start: int
    size: int
    shift: int
    tail: bytes

    def entries(self) -> Iterator[tuple[float, Entries]]:
        """Yield the entries in parts, each with the share of the directory that is read then; the last one is empty.

        Raises:
            FormatError: The directory is damaged, or the file has shrunk.
        """
        scanner = ZipScanner(self.size, self.shift)
        step = _WINDOW if isinstance(self.file, MappedFile) else _FAR_WINDOW
        window = step
        while scanner.end < self.size:
            used = scanner.feed(self._read(scanner.end, min(window, self.size - scanner.end)))
            if scanner.problem is not None:
                raise unreadable(scanner.problem, self.file, self.start + scanner.end)
            window = step if used else scanner.need
            yield scanner.end / self.size, Entries.of(scanner)
        yield 1, Entries.of(scanner)

    def _read(self, position: int, length: int) -> bytes | memoryview:
        """Return some bytes of the directory."""
        offset = self.start + position
        first = self.file.size - len(self.tail)
        if offset >= first:
            return self.tail[offset - first :][:length]
        return _read(self.file, offset, length)


def directory_of(file: File) -> Directory:
    """Find the directory of an archive, by the records at its end.

    Raises:
        FormatError: The file is not a zip archive, or is one of several that make up an archive.
    """
    tail = bytes(_read(file, max(file.size - _TAIL, 0), min(_TAIL, file.size)))
    ends = [match.start() for match in re.finditer(b"PK\5\6", tail)]
    # a comment is the rest of the file, and may have these bytes, too
    fitting = [
        at
        for at in ends
        if int.from_bytes(tail[at + 20 : at + 22], "little") == len(tail) - at - _END.size
    ]
    at = (fitting or ends or [-1])[-1]
    if not 0 <= at <= len(tail) - _END.size:
        raise unreadable("it does not end with a directory", file)
    _, disk, _, _, _, size, offset, _ = _END.unpack_from(tail, at)
    end = file.size - len(tail) + at
    before = at - _LOCATOR.size
    disks = 1
    if before >= 0 and tail[before : before + 4] == b"PK\6\7":
        _, first, _, disks = _LOCATOR.unpack_from(tail, before)
        disk = disk or first
        at = before - _END_64.size
        if at >= 0 and tail[at : at + 4] == b"PK\6\6":
            *_, size, offset = _END_64.unpack_from(tail, at)
            end -= _LOCATOR.size + _END_64.size
    if disk not in _ONLY_DISK or disks > 1:
        raise FormatError(
            "it is the last of several files of one archive, which Bushel does not read",
            file.path,
            end,
            "join them: `zip -s 0 parts.zip --out whole.zip`",
        )
    if size > end:
        raise unreadable(f"its directory of {size} bytes would begin before the file", file, end)
    return Directory(file, end - size, size, end - size - offset, tail)


def data_of(file: File, header: I64) -> I64:
    """Return where the data of members begin, given the offsets of their headers; -1 where no header is.

    Raises:
        FormatError: The file has shrunk.
    """
    if isinstance(file, MappedFile):
        try:
            return zip_data(file, header)
        except ExtentError as error:
            raise shrunk(file, error) from error
    starts = np.full(len(header), -1, np.int64)
    inside = np.flatnonzero((header >= 0) & (header <= file.size - _LOCAL_HEADER))
    headers = header[inside]
    data, _ = gather([file], Extents(0, headers, np.full(len(headers), _LOCAL_HEADER, np.int64)))
    heads = data.reshape(-1, _LOCAL_HEADER)
    lengths = np.ascontiguousarray(heads[:, 26:30]).view("<u2").astype(np.int64)
    right = (heads[:, :4] == np.frombuffer(b"PK\3\4", np.uint8)).all(axis=1)
    starts[inside] = np.where(right, headers + _LOCAL_HEADER + lengths.sum(axis=1), -1)
    return starts


def unreadable(problem: str, file: File, offset: int | None = None) -> FormatError:
    """Return the error of an archive that cannot be read."""
    return FormatError(f"not a zip archive that can be read: {problem}", file.path, offset, _HINT)


def _read(file: File, offset: int, length: int) -> bytes | memoryview:
    try:
        return file.read(offset, length)
    except ExtentError as error:
        raise shrunk(file, error) from error


STEP = 1 << 16
"""Members that are processed together."""

FILTERS = ("stored", "deflate", "zstd")
"""Names of the filters of members, which `Members.filter` numbers."""

_FILTERS = {STORED: 0, 8: 1, 93: 2}


class Members(NamedTuple):
    """The files of an archive, in the order of their data."""

    files: tar.Members  # where they are: the data, as they are stored
    stored: I64  # bytes in the file
    filter: U8  # number in FILTERS
    sample: I64  # number of the sample; -1 for members that belong to none
    extension: I32  # number of the extension
    extensions: list[bytes]  # in the order of their first appearance
    keys: U8  # the keys of the samples, one after another
    key_offsets: I64  # int64[samples + 1]


def members_of(file: File) -> Members:
    """Return the files of an archive.

    Raises:
        FormatError: The archive is damaged, or a member is encrypted or compressed in another way.
        OSError: The temporary files cannot be written.
    """
    left_out = LeftOut()
    arrays = _entries(file, left_out)
    header = arrays["header"]
    if (header[1:] < header[:-1]).any():  # the directory has another order
        order = np.argsort(header, kind="stable")
        names = Strings(arrays.pop("names"), arrays.pop("name_offsets")).chosen(order)
        arrays = {name: numbers[order] for name, numbers in arrays.items()}
        arrays |= {"names": names.text, "name_offsets": names.offsets}
    groups = MemberGroups(arrays["names"], arrays["name_offsets"])
    arrays |= _grouped(file, arrays, groups)
    names = Strings(arrays.pop("names"), arrays.pop("name_offsets"))
    places = [arrays.pop(name) for name in ("data", "size", "header", "crc32")]
    files = tar.Members(names, *places)
    members = Members(files, **arrays, extensions=groups.extensions)
    nameless = np.flatnonzero(members.sample < 0)
    left_out.counts.update(map(tar.kind_of_nameless, names.take(nameless)))
    report_left_out(file.path, left_out.counts)
    return members


def _entries(file: File, left_out: LeftOut) -> dict[str, np.ndarray]:
    """Return the entries of the directory that may be data, in its order; count the others."""
    rows, text = GrowingArrays(), 0
    rows.append("name_offsets", np.zeros(1, np.int64))
    for share, part in directory_of(file).entries():
        part = _without_junk(part, left_out)
        pieces = part._asdict() | {"filter": _filter_of(part, file), "names": part.names.text}
        pieces["name_offsets"] = part.names.offsets[1:] + text
        del pieces["method"], pieces["flags"]
        text += len(part.names.text)
        rows.extend(pieces, share)
    return rows.finish()


def _without_junk(part: Entries, left_out: LeftOut) -> Entries:
    """Return the entries that may be data. Folders have no entry."""
    letters = part.names.text
    if _SLASH not in letters:  # of Windows, where folders end with backslashes
        letters[letters == _BACKSLASH] = _SLASH
    last = np.append(letters, np.uint8(0))[part.names.offsets[1:] - 1]
    part = _chosen(part, last != _SLASH)
    first = np.append(part.names.text, np.uint8(0))[part.names.offsets[:-1]]
    text = part.names.text.tobytes()
    if not (may_hold_junk(text) or b"/." in text or (first == ord(".")).any()):
        return part
    is_data = [left_out.is_data(name) for name in part.names.tolist()]
    return _chosen(part, np.array(is_data, np.bool_))


def _chosen(part: Entries, chosen: Bools) -> Entries:
    """Return some entries."""
    rows = np.flatnonzero(chosen)
    rest = {name: getattr(part, name)[rows] for name in Entries._fields[1:]}
    return Entries(part.names.chosen(rows), **rest)


def _filter_of(part: Entries, file: File) -> U8:
    """Return the filter of each entry.

    Raises:
        FormatError: A member is encrypted or compressed in another way, or has two sizes.
    """
    kind = np.full(len(part.method), len(FILTERS), np.uint8)
    for method, number in _FILTERS.items():
        kind[part.method == method] = number
    refused = (kind == len(FILTERS)) | (part.flags & ENCRYPTED > 0)
    if refused.any():
        row = int(refused.argmax())
        what = f"has compression {part.method[row]}"
        if part.flags[row] & ENCRYPTED:
            what = "is encrypted"
        raise FormatError(
            f"member {part.names[row]!r} {what}, which Bushel does not read",
            file.path,
            int(part.header[row]),
            "extract the archive, and open the folder",
        )
    other = (kind == _FILTERS[STORED]) & (part.stored != part.size)
    if other.any():
        row = int(other.argmax())
        sizes = f"{part.size[row]} bytes, stored in {part.stored[row]} without compression"
        raise FormatError(
            f"member {part.names[row]!r} has {sizes}",
            file.path,
            int(part.header[row]),
            _HINT,
        )
    return kind


def _grouped(
    file: File, entries: Mapping[str, np.ndarray], groups: MemberGroups
) -> dict[str, np.ndarray]:
    """Return where the data of each member are, its sample and extension, and the keys of the samples."""
    rows, text, count = GrowingArrays(), 0, len(entries["header"])
    rows.append("key_offsets", np.zeros(1, np.int64))
    for first in range(0, max(count, 1), STEP):
        stop = min(first + STEP, count)
        pieces: dict[str, np.ndarray] = {"data": _data(file, entries, first, stop)}
        pieces["sample"], pieces["extension"] = groups.group(np.arange(first, stop))
        keys, ends = groups.take_keys()
        pieces |= {"keys": keys, "key_offsets": ends + text}
        text += len(keys)
        rows.extend(pieces, stop / max(count, 1))
    return rows.finish()


def _data(file: File, entries: Mapping[str, np.ndarray], first: int, stop: int) -> I64:
    """Return where the data of some entries are.

    Raises:
        FormatError: A member is not in the file.
    """
    header, stored = entries["header"][first:stop], entries["stored"][first:stop]
    data = data_of(file, header)
    outside = (data < 0) | (stored > file.size) | (data > file.size - stored)
    if outside.any():
        row = int(outside.argmax())
        name = Strings(entries["names"], entries["name_offsets"])[first + row]
        raise FormatError(
            f"member {name!r} of {stored[row]} bytes is not where the directory says",
            file.path,
            int(header[row]),
            _HINT,
        )
    return data


class _Zip(Container):
    name = "zip"
    holds_files = True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one archive, from its directory and the headers of its members.

        Raises:
            FormatError: The archive is damaged; or a sample has two members with the same
                extension; or the names have too many different extensions for a table.
            OSError: The temporary file cannot be written.
        """
        file = shard.open()
        members = members_of(file)
        blocks, files = list[Blocks](), members.files
        if members.filter.any():
            stored = files.offset, members.stored, members.filter
            in_file = np.zeros(len(members.stored), np.int32)
            blocks = [Blocks(offsets_of(files.size), in_file, *stored, FILTERS)]
            files = replace(files, offset=blocks[0].start)
        keys = Keys.build(members.keys, members.key_offsets)
        table = tar.SampleTable(options.spec, file.path, len(members.sample), keys=keys)
        rows = np.flatnonzero(members.sample >= 0)
        sample = members.sample[rows]
        if (sample[1:] < sample[:-1]).any():  # members of a sample are not adjacent
            order = np.argsort(sample, kind="stable")
            rows, sample = rows[order], sample[order]
        steps = np.minimum(np.arange(0, len(keys) + STEP, STEP), len(keys))
        places = np.searchsorted(sample, steps)
        for (first, last), (start, stop) in zip(
            pairwise(steps.tolist()), pairwise(places), strict=True
        ):
            chosen = rows[start:stop]
            groups = tar.Groups(
                chosen,
                sample[start:stop] - first,
                members.extension[chosen],
                members.keys,
                members.key_offsets[first + 1 : last + 1],
            )
            table.put(files, groups, members.extensions)
        index = table.finish().index(stamps(shard, [file]), tuple(blocks))
        return replace(index, container="zip").check(file.path)


CONTAINER = _Zip()
