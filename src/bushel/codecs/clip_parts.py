"""Parts of clips: the packets of a clip, and the decoding of a few of its frames from their bytes alone.

A decoder is given the packets that some frames need, without container and demuxer. It needs the
codec, the size and format of the pixels, and the codec's own header (`extradata`). `scan_clip` finds
all of that by PyAV (`pip install 'bushel[video]'`): FFmpeg's demuxers find the packets, and apply
edit lists and everything else that a container may hold. The positions that they report are
compared with the bytes of the clip, since some demuxers change packets.

A value of the codecs `frame` and `frames` is what a decoder needs for some frames, cut out of a
video without decoding it: the length of the configuration (u32, little-endian) and the
configuration (`ClipConfig` as JSON); the number of packets (u32), and length (u32), flags (u32, as
in `ClipPackets`) and display time (i64) of each; and packets in decoding order, from a keyframe on.

`frame` is the frame of the last packet that is there. The table may list packets after it, so that
values which begin with the same keyframe share the bytes before their end. `frames` is the frames
of all packets with the flag `SHOWN`. With the parameters of a depth camera (`depth`), pixels are
metres.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, NO_NUMBERS, U8
from bushel.errors import CodecError, SpecError

from .base import Buffer, Codec, Factory, Ranged, choose, refused, refusing
from .depth import metres_of_codes
from .parts import Part
from .video import (
    FrameTable,
    Pixels,
    decode_last,
    decode_runs,
    new_frames,
    open_clip,
    pyav,
    read_packets,
)

KEYFRAME, SHOWN = 1, 2
"""Flags of a packet: decoding can start at it; its frame is displayed."""

DECODERS = {"h264": "h264", "hevc": "hevc", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}
"""FFmpeg's decoders by FFmpeg's names of codecs. Clips of other codecs are read whole."""

# The decoders that a thread keeps, as attributes: by the configuration of a clip, as JSON. A new
# one takes as long as a tenth of the frames of a window.
_IDLE = threading.local()
_DECODERS_KEPT = 4  # by each thread
_MOST_KEPT = 1 << 20  # pixels of a frame; decoders of larger ones hold much memory, and take longer
_MOST_PIXELS = 1 << 16  # width or height in pixels above which a configuration counts as damaged


class ClipConfig(msgspec.Struct, frozen=True):
    """The facts about a clip that a decoder needs beside its packets. Stored as JSON."""

    codec: str  # FFmpeg's name of the codec: `h264`, `hevc`, `vp8`, `vp9` or `av1`
    width: int  # width in pixels, from the container
    height: int  # height in pixels, from the container
    format: str | None  # FFmpeg's name of the pixel format, or None
    # FFmpeg's numbers of color range, primaries, transfer characteristic and color space
    color: tuple[int, int, int, int]
    time_base: tuple[int, int]  # numerator and denominator of the unit of times, in seconds
    extradata: bytes  # the codec's header: of H.264 the `avcC` box, for example; base64 in the JSON

    def encode(self) -> bytes:
        """Return the configuration as JSON."""
        return msgspec.json.encode(self)


# made at import: msgspec 0.22 prepares a Struct when it is first decoded, and crashes if two
# threads do that at once
_CONFIG = msgspec.json.Decoder(ClipConfig)


class ClipPackets(Struct, frozen=True):
    """The video packets of a clip, in decoding order."""

    config: bytes  # the clip's `ClipConfig` as JSON
    offsets: I64  # int64[packets], bytes from the start of the clip
    lengths: I64  # int64[packets], bytes
    times: I64  # int64[packets], display times in the clip's own unit
    flags: U8  # uint8[packets], `KEYFRAME` and `SHOWN`

    def part(self, elements: slice | I64) -> Part | None:
        """Return the plan to decode some frames, without the bytes of packets; None if the packets do not list frames.

        Raises:
            IndexError: A frame is out of range.
        """
        table = FrameTable.of(self.times, (self.flags & SHOWN) != 0, (self.flags & KEYFRAME) != 0)
        if table is None:
            return None
        numbers = choose(elements, len(table))
        runs = table.runs(numbers)
        packets = np.concatenate([np.arange(run.start, run.stop) for run in runs] or [NO_NUMBERS])
        decoder = partial(_decode_packets, self, runs, table, numbers)
        return Part(self.offsets[packets], self.lengths[packets], decoder, of_clip=True)


def _decode_packets(
    packets: ClipPackets,
    runs: Sequence[range],
    table: FrameTable,
    numbers: I64,
    codec: str,
    contents: Sequence[Buffer],
) -> Pixels | None:
    """Decode frames of a clip.

    Args:
        packets: The packets of the clip.
        runs: The packets to decode, in runs that each start at a keyframe.
        table: The frames of the clip.
        numbers: int64[n], the frames that are requested.
        codec: Name of the codec.
        contents: The bytes of the packets to decode.

    Returns:
        None if the packets do not give the frames, so that the clip has to be read whole.

    Raises:
        SpecError: PyAV is not installed.
        CodecError: There are more decoded bytes than allowed.
    """
    av, config, left = pyav(codec), clip_config(packets.config), iter(contents)
    if config is None or config.codec not in DECODERS:
        return None
    if not len(numbers):
        return new_frames(codec, 0, config.height, config.width)
    try:
        runs_of_packets = [
            (run, _av_packets(av, islice(left, len(run)), packets.times[run.start : run.stop]))
            for run in runs
        ]
        idle: dict[Any, Any] = _IDLE.__dict__
        decoder = idle.pop(packets.config, None) or new_decoder(av, config)
        frames = decode_runs(codec, decoder, runs_of_packets, table, numbers)
    except CodecError:
        raise
    # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid packets and
    # configurations.
    except Exception:
        return None
    if frames is not None and config.width * config.height <= _MOST_KEPT:
        if len(idle) == _DECODERS_KEPT:
            idle.clear()
        idle[packets.config] = decoder
    return frames


def _av_packets(av: Any, contents: Iterable[Buffer], times: I64) -> list[Any]:
    """Return PyAV's packets, beginning with a keyframe."""
    packets = []
    for content, time in zip(contents, times.tolist(), strict=True):
        packet = av.Packet(content)
        packet.pts = time
        packets.append(packet)
    packets[0].is_keyframe = True
    return packets


@lru_cache(maxsize=64)
def clip_config(text: bytes) -> ClipConfig | None:
    """Return a configuration that is stored as JSON; None if it is damaged."""
    try:
        config = _CONFIG.decode(text)
    except (ValueError, RecursionError):
        return None
    if 0 < config.width <= _MOST_PIXELS and 0 < config.height <= _MOST_PIXELS:
        return config
    return None


def new_decoder(av: Any, config: ClipConfig) -> Any:
    """Return PyAV's decoder for packets of a clip of this configuration."""
    context = av.CodecContext.create(DECODERS[config.codec], "r")
    context.thread_count = 1  # decoding many clips at once uses processors better
    context.width, context.height = config.width, config.height
    if config.format is not None:
        context.pix_fmt = config.format
    context.color_range, context.color_primaries, context.color_trc, context.colorspace = (
        config.color
    )
    if config.extradata:
        context.extradata = config.extradata
    return context


_HEADER = 64
"""Bytes before a packet's data that belong to it: of WebM's blocks, whose position is the position of their header."""

_LARGEST = 1 << 32  # size in bytes from which a clip gets no table, because offsets have 32 bits


def scan_clip(codec: str, data: Buffer) -> ClipPackets | None:
    """Find the video packets of a clip, without decoding them.

    Returns:
        None if the clip has to be read whole: it is not a clip, or is damaged; its codec is not
        among those that are documented; its packets are not stored as the decoder needs them, or
        need more than their bytes; or they do not determine the frames.

    Raises:
        SpecError: PyAV is not installed.
    """
    pyav(codec)
    if len(data) >= _LARGEST:
        return None
    try:
        with open_clip(codec, data) as source:
            return _scan(source, data)
    # CodecError, and PyAV's own IndexError, ValueError … for invalid streams: reading the clip will
    # report them
    except Exception:
        return None


def _scan(source: Any, data: Buffer) -> ClipPackets | None:
    stream = source.streams.video[0]
    context = stream.codec_context
    if context.codec.canonical_name not in DECODERS or not stream.time_base:
        return None
    table, packets = read_packets(source)
    if table is None or any(True for packet in packets for _ in packet.iter_sidedata()):
        return None
    offsets = [_find(data, packet) for packet in packets]
    if -1 in offsets:
        return None
    shown = np.zeros(len(packets), np.uint8)
    shown[table.packets] = SHOWN
    keys = np.array([packet.is_keyframe for packet in packets], np.uint8) * KEYFRAME
    config = ClipConfig(
        context.codec.canonical_name,
        context.width,
        context.height,
        context.pix_fmt,
        (
            int(context.color_range),
            int(context.color_primaries),
            int(context.color_trc),
            int(context.colorspace),
        ),
        (stream.time_base.numerator, stream.time_base.denominator),
        bytes(context.extradata or b""),
    )
    return ClipPackets(
        config.encode(),
        np.array(offsets, np.int64),
        np.array([packet.size for packet in packets], np.int64),
        np.array([packet.pts for packet in packets], np.int64),
        shown | keys,
    )


def _find(data: Buffer, packet: Any) -> int:
    """Return where the bytes of a packet are in the clip; -1 if the clip has other bytes there."""
    position, size = packet.pos, packet.size
    if position is None or position < 0:
        return -1
    view, expected = memoryview(data), memoryview(packet)
    if view[position : position + size] == expected:
        return int(position)
    at = bytes(view[position : position + _HEADER + size]).find(bytes(expected))
    if at < 0:
        return -1
    return int(position) + at


PACKET = np.dtype([("length", "<u4"), ("flags", "<u4"), ("time", "<i8")])
"""The entry of a packet in the table."""


def _packets(codec: str, data: Buffer) -> ClipPackets:
    """Return the packets that are there. Raise CodecError if the bytes are not a value of this codec."""
    view = memoryview(data)
    table = 4 + int.from_bytes(view[:4], "little")
    first = table + 4 + int.from_bytes(view[table : table + 4], "little") * PACKET.itemsize
    if len(view) < table + 4 or first > len(view):
        raise refused(codec, "the packets of a frame", data)
    packets = np.frombuffer(view[table + 4 : first], PACKET)
    lengths = packets["length"].astype(np.int64)
    ends = first + np.cumsum(lengths)
    present = slice(int(ends.searchsorted(len(view), "right")))
    if not present.stop or ends[present.stop - 1] != len(view):
        raise refused(codec, "whole packets", data)
    flags = packets["flags"][present].astype(np.uint8)
    return ClipPackets(
        bytes(view[4:table]),
        (ends - lengths)[present],
        lengths[present],
        packets["time"][present].astype(np.int64),
        flags,
    )


def _decode_frame(codec: str, data: Buffer) -> Pixels:
    packets = _packets(codec, data)
    config = clip_config(packets.config)
    if config is None or config.codec not in DECODERS:
        raise refused(codec, f"a video of {', '.join(DECODERS)}", packets.config)
    av = pyav(codec)
    # PyAV raises its own IndexError, ValueError … for invalid packets and configurations, too
    with refusing(codec, "packets of a frame", data):
        packets_of_frame = _av_packets(av, _contents(packets, data), packets.times)
        frame = decode_last(codec, new_decoder(av, config), packets_of_frame)
    if frame is None:
        raise refused(codec, "packets that give a frame", data)
    return frame


def _contents(packets: ClipPackets | Part, data: Buffer) -> list[bytes]:
    view = memoryview(data)
    extents = zip(packets.offsets.tolist(), packets.lengths.tolist(), strict=True)
    return [bytes(view[at : at + size]) for at, size in extents]


def _count_frames(codec: str, data: Buffer) -> int:
    return int(np.count_nonzero(_packets(codec, data).flags & SHOWN))


def _decode_frames(codec: str, data: Buffer, elements: slice | I64) -> Pixels:
    part = _packets(codec, data).part(elements)
    if part is None:
        frames = None
    else:
        frames = part.read(_contents(part, data)).decode(codec)
    if frames is None:
        raise refused(codec, "packets that give these frames", data)
    return frames


def _encode_frame(codec: str, value: Any) -> Buffer:
    raise refused(
        codec, "the stored bytes of a frame of a video (store pictures as jpg or png)", value
    )


def _frame_codec(name: str, arguments: str) -> Codec:
    base = name.partition("(")[0]
    if arguments and metres_of_codes(name) is None:
        raise SpecError(f"codec {name!r} takes only parameters of a depth camera: write {base!r}")
    if base == "frame":
        return Codec(name, partial(_encode_frame, name), partial(_decode_frame, name))
    ranged = Ranged(partial(_count_frames, name), partial(_decode_frames, name))
    return Codec(
        name,
        partial(_encode_frame, name),
        partial(_decode_frames, name, elements=slice(None)),
        ranged,
    )


FACTORIES: Mapping[str, Factory] = {"frame": _frame_codec, "frames": _frame_codec}
