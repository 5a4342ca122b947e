"""Scan of a clip for its packets, through PyAV (`pip install 'bushel[video]'`).

FFmpeg's demuxers find the packets, and apply edit lists and everything else that a container may
hold. The positions that they report are compared with the bytes of the clip, since some demuxers
change packets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Buffer
from .clip_parts import DECODERS, KEYFRAME, SHOWN, ClipConfig, ClipPackets
from .video import open_clip, pyav, read_packets

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
    keys = np.array([KEYFRAME if packet.is_keyframe else 0 for packet in packets], np.uint8)
    color = (context.color_range, context.color_primaries, context.color_trc, context.colorspace)
    config = ClipConfig(
        context.codec.canonical_name,
        context.width,
        context.height,
        context.pix_fmt,
        (int(color[0]), int(color[1]), int(color[2]), int(color[3])),
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
