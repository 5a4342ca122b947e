"""The records of a RecordIO file and their kind, found by their headers.

Only the few records that are stored in several parts are read whole. At the end are the functions
for programs that keep offsets themselves, as MXNet's do: reading the record at an offset, and
writing one at the end of a file. Datasets are read and written through the index (`container`,
`writer`).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel import kernels
from bushel._kinds import kind_of
from bushel._runtime.arrays import I64, U8, Array, Bools, batches_of
from bushel.containers.base import Report, unreported
from bushel.containers.packed_map import damaged
from bushel.errors import FormatError, name_file
from bushel.kernels import MappedFile
from bushel.storage import AnyPath, ExtentError, Extents, File, gather, open_file, read_many

if TYPE_CHECKING:
    from bushel.storage import Blocks

MAGIC = 0xCED7230A
IMAGE_HEADER = 24
"""Size in bytes of the header of an image record: flag u32, label f32, id u64, id2 u64."""
LARGEST = (1 << 29) - 1
"""Most bytes of a part, which are the lower bits of its length word."""

_ROWS = 1 << 16
_WINDOW = 1 << 24
_SIGNATURE = 12
_IMAGES = ("jpg", "png", "webp", "gif", "bmp", "tif")


class Records(Struct, frozen=True):
    """The extents of records."""

    offset: I64  # int64[n], offset of the header of the first part
    # int64[n], bytes from the start of the payload, at `offset + 8`, to the end of the last part
    span: I64
    split: I64  # int64[k], ascending: numbers of the records with several parts

    @classmethod
    def joined(cls, pieces: Iterable[tuple[Array, Array, Array]]) -> Records:
        """Return the records of several scans, given the offset, the span and the number of parts of each."""
        offset, span, parts = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return cls(offset, span, np.flatnonzero(parts > 1))

    def payload(self, file: File, row: int) -> bytes:
        """Return the whole payload of a record in pieces. Raise FormatError if its parts do not fit together."""
        offset = int(self.offset[row])
        try:
            return kernels.join_recordio(file.read(offset, 8 + int(self.span[row])))
        except ValueError as error:
            raise damaged(file, f"record {row}: {error}", offset) from error

    def chosen(self, rows: I64) -> Records:
        """Return the records of these numbers, which ascend."""
        return Records(
            self.offset[rows], self.span[rows], np.flatnonzero(np.isin(rows, self.split))
        )


class Payloads(Struct, frozen=True):
    """Where payloads of records are: in the file, or, if some have several parts, in the file without length words."""

    file: File  # the file with the records, or the block file
    number: int  # number of that file in the shard
    position: I64  # int64[n], where each payload begins in it
    length: I64  # int64[n], bytes
    blocks: tuple[Blocks, ...] = ()  # the blocks of the block file, if it is one


def payloads_of(file: File, records: Records, number: int) -> Payloads:
    """Return where the payloads of records are. The records with several parts are read.

    `number` is the number of their block file, if they need one.

    Raises:
        FormatError: The parts of a record do not fit together.
    """
    if not len(records.split):
        return Payloads(file, 0, records.offset + 8, records.span)
    from bushel._index.block_arrays import blocks_without, position_of
    from bushel.storage.block_file import BlockFile

    words = np.unique(np.array(list(_words(file, records)), np.int64))
    position = position_of(records.offset + 8, words)
    end = position_of(records.offset + 8 + records.span, words)
    blocks = blocks_without(file.size, words)
    whole = BlockFile.over(file, blocks)
    return Payloads(whole, number, position, end - position, (blocks,))


def _words(file: File, records: Records) -> Iterator[int]:
    """Yield the offsets of the length words of later parts; a few MiB are read at a time."""
    from bushel._index.block_arrays import length_words

    offset, size = records.offset[records.split], 8 + records.span[records.split]
    for rows in batches_of(size, _WINDOW):
        whole = read_many([file], Extents(0, offset[rows], size[rows]))
        for row, start, raw in zip(
            records.split[rows].tolist(), offset[rows].tolist(), whole, strict=True
        ):
            try:
                yield from (start + at for at in length_words(raw or b""))
            except FormatError as error:
                at = start + (error.offset or 0)
                raise damaged(file, f"record {row}: {error.message}", at) from error


class Images(Struct, frozen=True):
    """The kind of image records."""

    flag: I64  # int64[n], number of values of the label vector, 0 for a single label
    codec: str  # codec of the images, such as `jpg` if all are JPEGs; `image` if they differ


def scan_records(file: File, start: int = 0) -> tuple[Records, int, FormatError | None]:
    """Find all records after `start` by their headers.

    Returns:
        The records, the end of the last one, and the error that ended the scan before the end of
        the file.
    """
    pieces = []
    window = _WINDOW
    while True:
        whole = isinstance(file, MappedFile) or start + window >= file.size
        if isinstance(file, MappedFile):
            scanned = kernels.scan_recordio(file, start)
            base = 0
        else:
            scanned = kernels.scan_recordio(file.read(start, min(window, file.size - start)))
            base = start
        pieces.append((scanned.offset + base, scanned.span, scanned.parts))
        start = scanned.end + base
        if whole:
            break
        if scanned.end == 0:
            window *= 2  # the record is larger than the window
    fault = None
    if scanned.problem is not None:
        fault = damaged(file, scanned.problem, scanned.problem_offset + base)
    return Records.joined(pieces), start, fault


def follow(file: File, offset: I64, report: Report = unreported) -> Records:
    """Return the records at these offsets, in this order, checked against each other and the file.

    After a record must come another one, or the end of the file. Records that no offset names are
    left out.

    Raises:
        FormatError: An offset has no record, or a record of a wrong length.
    """
    outside = (offset < 0) | (offset > file.size - 8) | (offset % 4 != 0)
    _refuse(file, offset, outside, f"a file of {file.size} bytes has no space for one")
    flag, span = np.empty(len(offset), np.uint8), np.empty(len(offset), np.int64)
    for rows, heads in _heads(file, offset, 0, 8, report):
        magic, word = heads.view("<u4").T
        _refuse(file, offset[rows], magic != MAGIC, "the file has none")
        flag[rows], span[rows] = word >> 29, word & LARGEST
    _refuse(file, offset, flag > 1, "the file has the later part of one")
    split = np.flatnonzero(flag == 1).astype(np.int64)
    _join_parts(file, offset, span, split)
    if (bad := span > file.size - 8 - offset).any():
        row = int(bad.argmax())
        raise damaged(
            file,
            f"the end of the file truncates a record of {int(span[row])} bytes",
            int(offset[row]),
        )
    _check_gaps(file, offset, span)
    return Records(offset, span, split)


def find_images(payloads: Payloads, *, any_image: bool) -> Images | None:
    """Return the images if all records are image records: a header with a fitting flag, then a known kind of image.

    Args:
        payloads: The payloads of all records.
        any_image: Whether the header suffices, because the user declares that these are images.
    """
    count = len(payloads.position)
    if not count:
        return None
    file, position = payloads.file, payloads.position
    flag, kind = np.zeros(count, np.int64), np.zeros(count, "U4")
    for rows, heads in _heads(file, position, 0, IMAGE_HEADER + _SIGNATURE):
        flag[rows] = np.ascontiguousarray(heads[:, :4]).view("<u4")[:, 0]
        room = payloads.length[rows] - IMAGE_HEADER - 4 * flag[rows]
        kind[rows] = _kinds(heads[:, IMAGE_HEADER:])
        vector = rows.start + np.flatnonzero((flag[rows] > 0) & (room > 0))
        behind_vector = position[vector] + 4 * flag[vector]
        for inner, signatures in _heads(file, behind_vector, IMAGE_HEADER, _SIGNATURE):
            kind[vector[inner]] = _kinds(signatures)
        fits = room >= 0
        if not any_image:
            fits &= (kind[rows] != "") & (room > 0)
        if not fits.all():
            return None
    [codec, *other_kinds] = set(kind.tolist())
    if other_kinds or not codec:
        codec = "image"
    return Images(flag, codec)


def _kinds(heads: U8) -> Array:
    """Return the kind of each image by its first 12 bytes, as text; empty for other bytes."""
    whole = np.ascontiguousarray(heads).view(f"V{_SIGNATURE}")
    distinct, places = np.unique(whole, return_inverse=True)
    kinds = [kind_of(head.tobytes()) for head in distinct]
    return np.array([kind if kind in _IMAGES else "" for kind in kinds], "U4")[places.ravel()]


def _heads(
    file: File, offset: I64, skip: int, width: int, report: Report = unreported
) -> Iterator[tuple[slice, U8]]:
    """Yield the `width` bytes at `skip` after each offset, zeros after the end of the file: uint8[rows, width]."""
    reported = 0
    for first in range(0, len(offset), _ROWS):
        rows = slice(first, min(first + _ROWS, len(offset)))
        start = np.minimum(offset[rows] + skip, file.size)
        length = np.minimum(file.size - start, width)
        data, _ = gather([file], Extents(0, start, length))
        if (length == width).all():
            heads = data.reshape(-1, width)
        else:
            heads = np.zeros((len(start), width), np.uint8)
            heads[np.arange(width) < length[:, None]] = data
        yield rows, heads
        upto = file.size * rows.stop // len(offset)
        report(upto - reported)
        reported = upto


def _join_parts(file: File, offset: I64, span: I64, split: I64) -> None:
    """Complete the span of records that continue in later parts."""
    known_spans: dict[int, int] = {}
    walked = 0
    for row in split.tolist():
        first = int(offset[row])
        if first in known_spans:
            span[row] = known_spans[first]
            continue
        at, length, flag = first, int(span[row]), 1
        while flag != 3:
            at += 8 + -(-length // 4) * 4
            head = file.read(at, 8) if at <= file.size - 8 else b""
            word = int.from_bytes(head[4:], "little")
            flag, length = word >> 29, word & LARGEST
            if head[:4] != MAGIC.to_bytes(4, "little") or flag not in (2, 3):
                raise damaged(
                    file, f"the record at {first} continues here, but its next part is missing", at
                )
            walked += 8 + length
            if walked > file.size:
                raise damaged(file, "records overlap", first)
        span[row] = known_spans[first] = at + length - first


def _check_gaps(file: File, offset: I64, span: I64) -> None:
    order = np.argsort(offset, kind="stable")
    order = order[np.diff(offset[order], prepend=np.int64(-1)) > 0]
    start = offset[order]
    end = np.minimum(start + 8 + (span[order] + 3) // 4 * 4, file.size)
    begin, following = np.append(np.zeros(1, np.int64), end), np.append(start, file.size)
    if (bad := begin > following).any():
        at = int(following[int(bad.argmax())])
        raise damaged(file, "the .idx lists a record here, inside another one", at)
    gaps = begin[begin < following]
    for rows, heads in _heads(file, gaps, 0, 8):
        magic, word = heads.view("<u4").T
        if (bad := (magic != MAGIC) | (word >> 29 > 1)).any():
            at = int(gaps[rows][int(bad.argmax())])
            raise damaged(file, "expected a record or the end of the file", at)


def _refuse(file: File, offset: I64, bad: Bools, reason: str) -> None:
    """Raise for the first bad offset of a record, if there is one."""
    if bad.any():
        raise damaged(
            file, f"the .idx lists a record here, but {reason}", int(offset[int(bad.argmax())])
        )


_parse = struct.Struct("<II").unpack_from


def read_record(file: File, offset: int, end: int | None = None) -> tuple[bytes, int]:
    """Return the payload of the record at an offset, and the offset after the record.

    Args:
        file: The file.
        offset: Offset of the record.
        end: Offset of its end or of a later record, if known: then one read suffices.

    Raises:
        FormatError: The offset has no complete record.
    """
    try:
        raw = file.read(offset, 8 if end is None else end - offset)
        magic, word = _parse(raw)
        if magic == MAGIC and word <= LARGEST:  # flag 0: the record is complete
            if end is not None and 0 <= len(raw) - 8 - word < 4:
                return raw[8 : 8 + word], end
            return file.read(offset + 8, word), offset + 8 + (word + 3 & ~3)
    except (ExtentError, struct.error) as error:
        raise damaged(file, f"the record is truncated: {error}", offset) from None
    if magic != MAGIC or word >> 29 > 1:
        raise damaged(file, "expected the header of a record", offset)
    records = follow(file, np.array([offset], np.int64))
    return records.payload(file, 0), offset + 8 + (int(records.span[0]) + 3 & ~3)


class RecordSink:
    """Writes records at the end of a file. When `append` returns, the record is in the file.

    Several threads may share a sink.

    Args:
        path: Path of the file.
        append: Whether to keep the existing records and add to them; by default the file is
            overwritten.
        known: Offset of a record in an existing file: only the bytes after it are checked.

    Raises:
        FormatError: The existing file does not end with a complete record.
    """

    def __init__(self, path: AnyPath, *, append: bool = False, known: int = 0) -> None:
        self._path, self._end = path, 0
        padding = 0
        if append and path.exists():
            file = open_file(path)
            _, _, fault = scan_records(file, known if known < file.size else 0)
            if fault is not None:
                raise fault
            self._end, padding = file.size, -file.size % 4
        mode = "ab" if append else "wb"
        self._file: IO[bytes] = (
            cast("IO[bytes]", open(path, mode, buffering=0))  # noqa: SIM115
            if isinstance(path, Path)
            else path.open(mode)
        )
        self._lock = threading.Lock()
        if padding:
            self._write(bytes(padding))

    @property
    def position(self) -> int:
        """The size of the file in bytes."""
        return self._end

    def append(self, payload: Buffer) -> int:
        """Write a record.

        Returns:
            The offset of the record.

        Raises:
            ValueError: The payload has more than 2**29 - 1 bytes.
            OSError: The record cannot be written; the file is then restored where the system allows
                that.
        """
        framed = kernels.split_recordio(payload)
        with self._lock:
            offset = self._end
            self._write(framed)
        return offset

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:  # a write may be partial
                left = left[self._file.write(left) :]
            self._file.flush()
        except OSError as error:
            name_file(error, self._path)
            with suppress(OSError):  # the first error has more details than one from truncating
                self._file.truncate(self._end)
                self._file.seek(self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
