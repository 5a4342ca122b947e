"""Frames of videos as values of their own, through PyAV (`pip install 'bushel[video]'`).

A value is what a decoder needs for some frames, cut out of a video without decoding it: the length
of the configuration (u32, little-endian) and the configuration (`ClipConfig` as JSON); the number
of packets (u32), and length (u32), flags (u32, as in `ClipPackets`) and display time (i64) of each;
and packets in decoding order, from a keyframe on.

`frame` is the frame of the last packet that is there. The table may list packets after it, so that
values which begin with the same keyframe share the bytes before their end. `frames` is the frames
of all packets with the flag `SHOWN`. With the parameters of a depth camera (`depth`), pixels are
metres.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel.errors import CodecError, SpecError

from .base import Buffer, Codec, Factory, Ranged, codec_error, describe, found_bytes
from .clip_parts import DECODERS, SHOWN, ClipPackets, clip_config, new_decoder
from .depth import metres_of_codes
from .video import Pixels, decode_last, pyav, reason

PACKET = np.dtype([("length", "<u4"), ("flags", "<u4"), ("time", "<i8")])
"""The entry of a packet in the table."""


def _packets(codec: str, data: Buffer) -> ClipPackets:
    """Return the packets that are there. Raise CodecError if the bytes are not a value of this codec."""
    view = memoryview(data)
    table = 4 + int.from_bytes(view[:4], "little")
    first = table + 4 + int.from_bytes(view[table : table + 4], "little") * PACKET.itemsize
    if len(view) < table + 4 or first > len(view):
        raise codec_error(codec, "the packets of a frame", found_bytes(data))
    packets = np.frombuffer(view[table + 4 : first], PACKET)
    lengths = packets["length"].astype(np.int64)
    ends = first + np.cumsum(lengths)
    present = slice(int(ends.searchsorted(len(view), "right")))
    if not present.stop or ends[present.stop - 1] != len(view):
        raise codec_error(codec, "whole packets", found_bytes(data))
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
        raise codec_error(codec, f"a video of {', '.join(DECODERS)}", found_bytes(packets.config))
    av = pyav(codec)
    stored = _stored(packets.offsets, packets.lengths, data)
    try:
        frame = decode_last(codec, new_decoder(av, config), stored, packets.times.tolist())
    except CodecError:
        raise
    # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid packets and
    # configurations.
    except Exception as error:
        raise codec_error(
            codec, "packets of a frame", f"{found_bytes(data)} ({reason(error)})"
        ) from error
    if frame is None:
        raise codec_error(codec, "packets that give a frame", found_bytes(data))
    return frame


def _stored(offsets: I64, lengths: I64, data: Buffer) -> list[bytes]:
    view = memoryview(data)
    return [
        bytes(view[at : at + size])
        for at, size in zip(offsets.tolist(), lengths.tolist(), strict=True)
    ]


def _count(codec: str, data: Buffer) -> int:
    return int(np.count_nonzero(_packets(codec, data).flags & SHOWN))


def _decode_some(codec: str, data: Buffer, elements: slice | I64) -> Pixels:
    part = _packets(codec, data).part(elements)
    if part is None:
        frames = None
    else:
        frames = part.read(_stored(part.offsets, part.lengths, data)).decode(codec)
    if frames is None:
        raise codec_error(codec, "packets that give these frames", found_bytes(data))
    return frames


def _encode(codec: str, value: Any) -> Buffer:
    raise codec_error(
        codec,
        "the stored bytes of a frame of a video (store pictures as jpg or png)",
        describe(value),
    )


def _frames(name: str, arguments: str) -> Codec:
    base = name.partition("(")[0]
    if arguments and metres_of_codes(name) is None:
        raise SpecError(f"codec {name!r} takes only parameters of a depth camera: write {base!r}")
    if base == "frame":
        return Codec(name, partial(_encode, name), partial(_decode_frame, name))
    ranged = Ranged(partial(_count, name), partial(_decode_some, name))
    return Codec(
        name, partial(_encode, name), partial(_decode_some, name, elements=slice(None)), ranged
    )


FACTORIES: Mapping[str, Factory] = {"frame": _frames, "frames": _frames}
