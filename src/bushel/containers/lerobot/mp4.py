"""The packets of the video in an MP4 file, from the tables in its box `moov`. Nothing else is read.

ISO/IEC 14496-12. Every count and offset is checked before memory is taken for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U32
from bushel.codecs.clip_parts import KEYFRAME, SHOWN, ClipConfig, ClipPackets
from bushel.errors import FormatError
from bushel.storage import ExtentError, File

_HINT = "the file is incomplete or damaged: download or write it again"
_HEAD = 4096
_MOST_BOXES, _MOST_BYTES, _MOST_FRAMES = 1000, 1 << 28, 1 << 26
_ENTRY = 86  # bytes of the description of a video before the boxes in it
_CODECS = {
    b"avc1": ("h264", b"avcC"),
    b"avc3": ("h264", b"avcC"),
    b"hvc1": ("hevc", b"hvcC"),
    b"hev1": ("hevc", b"hvcC"),
    b"av01": ("av1", b"av1C"),
    b"vp09": ("vp9", b""),
    b"vp08": ("vp8", b""),
}
"""FFmpeg's name of the codec by the type of the description, and the box with the codec's header."""
_NO_COLOR = (0, 2, 2, 2)


class _Box(Struct, frozen=True):
    """The payload of a box, and where it begins in the file."""

    data: memoryview
    at: int
    path: str

    def boxes(self, skip: int = 0) -> Iterator[tuple[bytes, _Box]]:
        """Yield the boxes inside it, after `skip` bytes."""
        at = skip
        while at + 8 <= len(self.data):
            size, kind = int.from_bytes(self.data[at : at + 4]), bytes(self.data[at + 4 : at + 8])
            head = 8
            if size == 1:
                size, head = int.from_bytes(self.data[at + 8 : at + 16]), 16
            size = size or len(self.data) - at
            if not head <= size <= len(self.data) - at:
                self.fail(f"the box {kind!r} has {size} bytes in {len(self.data) - at}", at)
            yield kind, _Box(self.data[at + head : at + size], self.at + at + head, self.path)
            at += size

    def find(self, *kinds: bytes) -> _Box | None:
        """Return the first box of these types, each inside the one before it; None if it is missing."""
        box_found: _Box | None = self
        for kind in kinds:
            if box_found is None:
                break
            box_found = next(
                (box for kind_of_box, box in box_found.boxes() if kind_of_box == kind), None
            )
        return box_found

    def need(self, *kinds: bytes) -> _Box:
        """Return the box that `find` finds, or raise a `FormatError`."""
        box = self.find(*kinds)
        if box is None:
            return self.fail(f"the box {b'/'.join(kinds)!r} is missing")
        return box

    def table(self, width: int, skip: int = 4) -> U32:
        """Return uint32[n, width], the entries of a table, whose number follows `skip` bytes."""
        count = int.from_bytes(self.data[skip : skip + 4])
        if len(self.data) < skip + 4 + 4 * width * count:
            self.fail(f"{count} entries are announced in {len(self.data)} bytes")
        entries = np.frombuffer(self.data, ">u4", count * width, skip + 4)
        return entries.astype(np.uint32).reshape(count, width)

    def numbers(self, layout: str, at: int) -> tuple[int, ...]:
        """Return the big-endian numbers at a place: see `struct`."""
        if len(self.data) < at + struct.calcsize(layout):
            self.fail("the box is too short")
        return struct.unpack_from(layout, self.data, at)

    def fail(self, message: str, at: int = 0) -> NoReturn:
        raise FormatError(message, self.path, self.at + at, _HINT)


def read_packets(file: File) -> ClipPackets:
    """Return the packets of the first video of an MP4 file, and the configuration of its decoder.

    Raises:
        FormatError: The file is incomplete or damaged, or its video is stored in a way that is not
            read.
        OSError: The file cannot be read.
    """
    moov = _moov(file)
    for kind, trak in moov.boxes():
        if kind == b"trak" and bytes(trak.need(b"mdia", b"hdlr").data[8:12]) == b"vide":
            return _packets(trak, moov, file)
    return moov.fail("it has no video")


def _moov(file: File) -> _Box:
    """Return the box `moov`. The boxes before it are skipped."""
    at = 0
    head, start = file.read(0, min(_HEAD, file.size)), 0
    for _ in range(_MOST_BOXES):
        if at + 8 > file.size:
            break
        if not start <= at <= start + len(head) - 16:
            start = at
            head = file.read(at, min(_HEAD, file.size - at))
        size, kind = (
            int.from_bytes(head[at - start : at - start + 4]),
            bytes(head[at - start + 4 : at - start + 8]),
        )
        begin = 8
        if size == 1:
            size, begin = int.from_bytes(head[at - start + 8 : at - start + 16]), 16
        size = size or file.size - at
        if kind == b"moov":
            if not begin <= size <= min(file.size - at, _MOST_BYTES):
                break
            try:
                return _Box(memoryview(file.read(at + begin, size - begin)), at + begin, file.path)
            except ExtentError as error:
                raise FormatError(f"the file shrinks: {error}", file.path, hint=_HINT) from error
        if size < begin:
            break
        at += size
    message = (
        "an MP4 file has a box 'moov' with the places of its frames, found none in"
        f" {file.size} bytes"
    )
    raise FormatError(message, file.path, min(at, file.size), _HINT)


def _packets(trak: _Box, moov: _Box, file: File) -> ClipPackets:
    stbl = trak.need(b"mdia", b"minf", b"stbl")
    scale = _scale(trak.need(b"mdia", b"mdhd"))
    lengths = _lengths(stbl.need(b"stsz"), file.size)
    count = len(lengths)
    if not count:
        stbl.fail(
            "it lists no frames; fragmented MP4 files are not read"
            if moov.find(b"mvex")
            else "it has no frames"
        )
    times = np.cumsum(_repeated(stbl.need(b"stts"), count), dtype=np.int64)
    times = np.concatenate([np.zeros(1, np.int64), times[:-1]])
    if (ctts := stbl.find(b"ctts")) is not None:
        times += _repeated(ctts, count).astype(np.uint32).view(np.int32)
    shift, first = _edits(trak, moov, scale)
    times += shift
    flags = np.zeros(count, np.uint8)
    if (stss := stbl.find(b"stss")) is None:
        flags |= KEYFRAME
    else:
        numbers = stss.table(1)[:, 0].astype(np.int64)
        if len(numbers) and not 1 <= numbers.min() <= numbers.max() <= count:
            stss.fail(f"a keyframe is not one of the {count} frames")
        flags[numbers - 1] |= KEYFRAME
    flags[times >= first] |= SHOWN
    config = _config(stbl.need(b"stsd"), scale)
    return ClipPackets(config.encode(), _offsets(stbl, lengths), lengths, times, flags)


def _scale(box: _Box) -> int:
    """Return the units of time in a second, of a box `mdhd` or `mvhd`."""
    [version] = box.numbers(">B", 0)
    [scale] = box.numbers(">I", 20 if version else 12)
    return scale or box.fail("the time scale is 0")


def _lengths(box: _Box, size: int) -> I64:
    same, count = box.numbers(">II", 4)
    if not same:
        return box.table(1, skip=8)[:, 0].astype(np.int64)
    if same * count > size or count > _MOST_FRAMES:
        box.fail(f"{count} frames of {same} bytes are announced in a file of {size}")
    return np.full(count, same, np.int64)


def _repeated(box: _Box, count: int) -> I64:
    """Return int64[count], the values of a table of repetitions and values."""
    table = box.table(2)
    if int(table[:, 0].sum(dtype=np.uint64)) != count:
        box.fail(
            f"the times of {int(table[:, 0].sum(dtype=np.uint64))} frames are listed,"
            f" expected {count}"
        )
    return np.repeat(table[:, 1].astype(np.int64), table[:, 0])


def _offsets(stbl: _Box, lengths: I64) -> I64:
    """Return where each frame is: frames of a chunk follow each other."""
    if (wide := stbl.find(b"co64")) is not None:
        pairs = wide.table(2).astype(np.int64)
        chunks = (pairs[:, 0] & 0x7FFFFFFF) << 32 | pairs[:, 1]
    else:
        chunks = stbl.need(b"stco").table(1)[:, 0].astype(np.int64)
    box = stbl.need(b"stsc")
    table = box.table(3).astype(np.int64)
    first = table[:, 0] - 1
    runs = np.diff(np.append(first, len(chunks)))
    if not len(table) or first[0] != 0 or (runs < 0).any() or (table[:, 2] != table[0, 2]).any():
        box.fail("the table of chunks is not in order, or the frames have several descriptions")
    if int((runs * table[:, 1]).sum()) != len(lengths):
        box.fail(
            f"the chunks have {int((runs * table[:, 1]).sum())} frames, expected {len(lengths)}"
        )
    frames_of_chunk = np.repeat(table[:, 1], runs)
    ends = np.cumsum(lengths)
    begin = np.concatenate([np.zeros(1, np.int64), ends])[
        np.cumsum(frames_of_chunk) - frames_of_chunk
    ]
    return np.repeat(chunks - begin, frames_of_chunk) + ends - lengths


def _edits(trak: _Box, moov: _Box, scale: int) -> tuple[int, int]:
    """Return the offset to add to the times of frames, and the time of the first frame that is shown."""
    if (box := trak.find(b"edts", b"elst")) is None:
        return 0, -(1 << 62)
    [version] = box.numbers(">B", 0)
    layout, size = (">QqI", 20) if version else (">IiI", 12)
    [count] = box.numbers(">I", 4)
    if count > 2:
        box.fail(
            "the video is cut into several edits, which is not read: write it again without"
            " an edit list"
        )
    delay = start = 0
    for number in range(count):
        duration, begin, _ = box.numbers(layout, 8 + number * size)
        if begin == -1 and not number:
            delay = duration * scale // _scale(moov.need(b"mvhd"))
        elif begin < 0 or (number and not delay):
            box.fail("the list of edits is not read: write the video again without one")
        else:
            start = begin
    if max(delay, start) >= 1 << 48:
        box.fail("the times of the edits are too large")
    return delay - start, delay


def _config(stsd: _Box, scale: int) -> ClipConfig:
    entry = next(((kind, box) for kind, box in stsd.boxes(skip=8)), None)
    if entry is None or entry[0] not in _CODECS:
        description = "none" if entry is None else repr(entry[0])
        expected = ", ".join(codec_name.decode() for codec_name in _CODECS)
        stsd.fail(f"the video has the description {description}, expected {expected}")
    (codec, header), box = _CODECS[entry[0]], entry[1]
    width, height = box.numbers(">HH", 24)
    extra, color = b"", _NO_COLOR
    for kind, inner in box.boxes(skip=_ENTRY - 8):
        if kind == header:
            extra = bytes(inner.data)
        elif kind == b"colr" and bytes(inner.data[:4]) == b"nclx":
            primaries, transfer, matrix, full = inner.numbers(">HHHB", 4)
            color = (2 if full & 0x80 else 1, primaries, transfer, matrix)
    return ClipConfig(codec, width, height, None, color, (1, scale), extra)
