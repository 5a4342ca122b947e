"""The frames of a camera as values of a block file: the decoder's configuration, then the packets that are needed.

`codecs.clip_parts` describes the parts of a value. Packets of all videos of a camera are numbered
together. They are found by the tables in the box `moov` of an MP4 file (ISO/IEC 14496-12); nothing
else of it is read. Every count and offset is checked before memory is taken for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
from msgspec import Struct

from bushel._index.clip_frames import ClipFrames
from bushel._runtime.arrays import F64, I64, NO_NUMBERS, U8, U32, joined, offsets_of
from bushel.codecs.clip_parts import KEYFRAME, PACKET, SHOWN, ClipConfig, ClipPackets, clip_config
from bushel.codecs.video import FrameTable
from bushel.errors import FormatError
from bushel.storage import IN_TABLE, Blocks, ExtentError, File


class Video(Struct, frozen=True):
    """A video file of a camera."""

    file: int  # number of the file of the shard
    size: int  # its bytes
    packets: ClipPackets
    frames: FrameTable  # its frames in display order
    scale: int  # units of time in a second

    @classmethod
    def of(cls, file: int, size: int, packets: ClipPackets) -> Video | None:
        """Return the video with these packets; None if they do not determine the frames of a decoder."""
        if (config := clip_config(packets.config)) is None:
            return None
        flags = packets.flags
        frames = FrameTable.of(packets.times, (flags & SHOWN) != 0, (flags & KEYFRAME) != 0)
        if frames is None:
            return None
        return cls(file, size, packets, frames, config.time_base[1])

    def nearest(self, seconds: F64) -> tuple[I64, F64]:
        """Return the frame that is shown nearest to each time, and how many seconds it is away."""
        times = self.frames.times / self.scale
        after = np.minimum(times.searchsorted(seconds), len(times) - 1)
        before = np.maximum(after - 1, 0)
        frame = np.where(seconds - times[before] <= times[after] - seconds, before, after)
        return frame, np.abs(times[frame] - seconds)


class Shots(Struct, frozen=True):
    """The frames of a camera that belong to rows."""

    videos: Sequence[Video]  # the videos that can be read
    packet: I64  # int64[rows], the packet of each one's frame; -1 without a frame
    start: I64  # int64[rows], the packet from which it is decoded
    away: F64  # float64[rows], seconds between the frame and the time of the row


def shots_of(videos: Sequence[Video], number: I64, seconds: F64, most: float) -> Shots:
    """Return the frames of a camera that are shown nearest to some times.

    Args:
        videos: The videos.
        number: int64[rows], the video of each row; -1 for a row without one.
        seconds: float64[rows], the time in that video.
        most: How many seconds a frame may be away.
    """
    packet, start = np.full(len(number), -1, np.int64), np.zeros(len(number), np.int64)
    away = np.zeros(len(number), np.float64)
    base = 0
    for which, video in enumerate(videos):
        rows = np.flatnonzero(number == which)
        frame, away[rows] = video.nearest(seconds[rows])
        last, first = video.frames.packets[frame], video.frames.starts[frame]
        offsets, lengths = video.packets.offsets, video.packets.lengths
        outside = offsets_of((offsets < 0) | (offsets > video.size - lengths))
        usable = (away[rows] <= most) & (outside[last + 1] == outside[first])
        packet[rows], start[rows] = np.where(usable, base + last, -1), base + first
        base += len(offsets)
    return Shots(videos, packet, start, away)


class Regions(Struct, frozen=True):
    """Regions of a block file. Each is the configuration of a video, a table of packets, and these packets."""

    blocks: Blocks  # the block file
    begin: I64  # int64[regions], where each region begins in it
    lengths: I64  # int64[frames], bytes of each frame's region up to the end of its packet
    # where the packets are in the regions, for reading some of them; None if a region is too large
    frames: ClipFrames | None


def regions_of(videos: Sequence[Video], first: I64, last: I64, region: I64, packet: I64) -> Regions:
    """Return the regions with some packets.

    Args:
        videos: The videos.
        first: int64[regions], the first packet of each region.
        last: int64[regions], its last one; it is of the same video.
        region: int64[frames], the region of each frame that is wanted.
        packet: int64[frames], its packet.
    """
    counts = last - first + 1
    before = offsets_of(counts)
    region_of_packet = np.repeat(np.arange(len(first)), counts)
    chosen = np.arange(int(before[-1])) + (first - before[:-1])[region_of_packet]
    at, sizes, times, flags = (
        np.concatenate([NO_NUMBERS, *(getattr(video.packets, name) for video in videos)])[
            chosen
        ].astype(np.int64)
        for name in ("offsets", "lengths", "times", "flags")
    )
    place = before[region] + packet - first[region]
    flags &= ~np.int64(SHOWN)
    flags[place] |= SHOWN
    number = offsets_of(len(video.packets.offsets) for video in videos).searchsorted(first, "right")
    video = number - 1
    configs = [video.packets.config for video in videos]
    config_ends = offsets_of(4 + len(config) for config in configs)  # each follows its length
    config_sizes = np.diff(config_ends)[video]
    tables = 4 + PACKET.itemsize * counts
    ends = offsets_of(sizes)
    ends_in_region = ends[1:] - (ends[before[:-1]] - config_sizes - tables)[region_of_packet]
    begins = np.ones(len(at), np.bool_)
    begins[1:] = (np.diff(region_of_packet) > 0) | (at[1:] != at[:-1] + sizes[:-1])
    run = np.flatnonzero(begins)  # packets that follow each other in a video are one block
    region_of_run = region_of_packet[run]
    # the blocks of a region: the configuration, the table of packets, and the packets
    regions = np.arange(len(first))
    order = np.argsort(np.concatenate([regions, regions, region_of_run]), kind="stable")
    in_table = np.full(2 * len(first), IN_TABLE, np.int32)
    files = np.array([video.file for video in videos], np.int32)[video[region_of_run]]
    table_begins = config_ends[-1] + np.cumsum(tables) - tables
    file = np.concatenate([in_table, files])[order]
    offset = np.concatenate([config_ends[video], table_begins, at[run]])[order]
    length = np.concatenate([config_sizes, tables, np.add.reduceat(sizes, run)])[order]
    config_bytes = b"".join(len(config).to_bytes(4, "little") + config for config in configs)
    table = _packet_tables(counts, region_of_packet, sizes, flags, times)
    held_bytes = np.concatenate([np.frombuffer(config_bytes, np.uint8), table])
    blocks = Blocks.of(offset, length, file=file, held=held_bytes)
    frames = None
    if int(ends_in_region.max(initial=0)) < 1 << 32:
        frames = ClipFrames(
            before,
            (ends_in_region - sizes).astype(np.uint32),
            sizes.astype(np.uint32),
            times,
            flags.astype(np.uint8),
            video.astype(np.uint32),
            *joined(configs),
        )
    begin = blocks.start[np.flatnonzero(order < len(first))]
    return Regions(blocks, begin, ends_in_region[place], frames)


def _packet_tables(counts: I64, region: I64, sizes: I64, flags: I64, times: I64) -> U8:
    """Return the tables of packets, one after another: their number, and what `PACKET` has of each."""
    words = PACKET.itemsize // 4
    tables = np.zeros(len(counts) + words * len(region), "<u4")
    tables[words * (np.cumsum(counts) - counts) + np.arange(len(counts))] = counts
    at = words * np.arange(len(region)) + region + 1
    columns = sizes, flags, times & 0xFFFFFFFF, times >> 32 & 0xFFFFFFFF
    for place, column in enumerate(columns):
        tables[at + place] = column
    return tables.view(np.uint8)


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
            left = len(self.data) - at
            kind, head, size = _header(self.data[at : at + 16], left)
            if not head <= size <= left:
                self.fail(f"the box {kind!r} has {size} bytes in {left}", at)
            yield kind, _Box(self.data[at + head : at + size], self.at + at + head, self.path)
            at += size

    def find(self, *kinds: bytes) -> _Box | None:
        """Return the first box of these types, each inside the one before it; None if it is missing."""
        box: _Box | None = self
        for kind in kinds:
            box = box and next((inner for name, inner in box.boxes() if name == kind), None)
        return box

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


def _header(data: memoryview, left: int) -> tuple[bytes, int, int]:
    """Return the type of the box at the beginning of some bytes, and its bytes without and with its contents."""
    size, kind, head = int.from_bytes(data[:4]), bytes(data[4:8]), 8
    if size == 1:
        size, head = int.from_bytes(data[8:16]), 16
    return kind, head, size or left


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
    at = start = 0
    data = memoryview(file.read(0, min(_HEAD, file.size)))
    for _ in range(_MOST_BOXES):
        left = file.size - at
        if left < 8:
            break
        if not start <= at <= start + len(data) - 16:
            start, data = at, memoryview(file.read(at, min(_HEAD, left)))
        kind, head, size = _header(data[at - start :], left)
        if size < head or (kind == b"moov" and size > min(left, _MOST_BYTES)):
            break
        if kind == b"moov":
            try:
                return _Box(memoryview(file.read(at + head, size - head)), at + head, file.path)
            except ExtentError as error:
                raise FormatError(f"the file shrinks: {error}", file.path, hint=_HINT) from error
        at += size
    raise FormatError(
        "an MP4 file has a box 'moov' with the places "
        f"of its frames, found none in {file.size} bytes",
        file.path,
        min(at, file.size),
        _HINT,
    )


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
    times = offsets_of(_repeated(stbl.need(b"stts"), count))[:-1]
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
    if (total := int(table[:, 0].sum(dtype=np.uint64))) != count:
        box.fail(f"the times of {total} frames are listed, expected {count}")
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
    if (total := int((runs * table[:, 1]).sum())) != len(lengths):
        box.fail(f"the chunks have {total} frames, expected {len(lengths)}")
    frames_of_chunk = np.repeat(table[:, 1], runs)
    before = offsets_of(lengths)
    begin = before[offsets_of(frames_of_chunk)[:-1]]
    return np.repeat(chunks - begin, frames_of_chunk) + before[:-1]


def _edits(trak: _Box, moov: _Box, scale: int) -> tuple[int, int]:
    """Return the offset to add to the times of frames, and the time of the first frame that is shown."""
    if (box := trak.find(b"edts", b"elst")) is None:
        return 0, -(1 << 62)
    [version] = box.numbers(">B", 0)
    layout, size = (">QqI", 20) if version else (">IiI", 12)
    [count] = box.numbers(">I", 4)
    if count > 2:
        box.fail(
            "the video is cut into several edits, which is "
            "not read: write it again without an edit list"
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
