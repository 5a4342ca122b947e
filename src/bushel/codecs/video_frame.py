"""Single frames of videos, through PyAV (`pip install 'bushel[video]'`).

A value is what a decoder needs for one frame, cut out of a video without decoding it: the length of the configuration
(u32, little-endian) and the configuration (`ClipConfig` as JSON); the number of packets (u32), and length (u32) and
display time (i64) of each; and the packets from a keyframe up to the packet of the frame. The table may list packets
behind that one, whose bytes are not there: values that begin with the same keyframe share the bytes before their end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.base import Buffer, Codec, Factory, codec_error, describe, found_bytes
from bushel.codecs.clip_parts import DECODERS, clip_config, new_decoder
from bushel.codecs.video import decode_last, pyav, reason
from bushel.errors import CodecError, SpecError

__all__ = ["FACTORIES", "PACKET"]

PACKET = np.dtype([("length", "<u4"), ("time", "<i8")])
"""What the table has of a packet."""


def _parts(codec: str, data: Buffer) -> tuple[bytes, list[memoryview], list[int]]:
    """Return the configuration, and bytes and display times of the packets that are there.

    Raises:
        CodecError: The bytes are not a value of this codec.
    """
    view = memoryview(data)
    table = 4 + int.from_bytes(view[:4], "little")
    first = table + 4 + int.from_bytes(view[table : table + 4], "little") * PACKET.itemsize
    if len(view) < table + 4 or first > len(view):
        raise codec_error(codec, "the packets of a frame", found_bytes(data))
    packets = np.frombuffer(view[table + 4 : first], PACKET)
    ends = first + np.cumsum(packets["length"], dtype=np.int64)
    there = int(ends.searchsorted(len(view), "right"))
    if not there or ends[there - 1] != len(view):
        raise codec_error(codec, "whole packets", found_bytes(data))
    starts = [first, *ends[: there - 1].tolist()]
    parts = [view[start:end] for start, end in zip(starts, ends[:there].tolist(), strict=True)]
    return bytes(view[4:table]), parts, packets["time"][:there].tolist()


def _decode(codec: str, data: Buffer) -> npt.NDArray[np.uint8]:
    text, packets, times = _parts(codec, data)
    config = clip_config(text)
    if config is None or config.codec not in DECODERS:
        raise codec_error(codec, f"a video of {', '.join(DECODERS)}", found_bytes(text))
    av = pyav(codec)
    try:
        frame = decode_last(codec, new_decoder(av, config), list(map(bytes, packets)), times)
    except CodecError:
        raise
    # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid packets and configurations.
    except Exception as error:
        raise codec_error(codec, "packets of a frame", f"{found_bytes(data)} ({reason(error)})") from error
    if frame is None:
        raise codec_error(codec, "packets that give a frame", found_bytes(data))
    return frame


def _encode(codec: str, value: Any) -> Buffer:
    raise codec_error(codec, "the stored bytes of a frame of a video (store pictures as jpg or png)", describe(value))


def _frame(name: str, arguments: str) -> Codec:
    if arguments:
        raise SpecError(f"codec {name!r} takes no parameters: write 'frame'")
    return Codec(name, partial(_encode, name), partial(_decode, name))


FACTORIES: Mapping[str, Factory] = {"frame": _frame}
