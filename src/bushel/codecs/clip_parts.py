"""Parts of clips: the packets of a clip, and the decoding of a few of its frames from their bytes alone.

A decoder is given the packets that some frames need, without container and demuxer. It needs the
codec, the size and format of the pixels, and the codec's own header (`extradata`), which
`clip_scan` found with the packets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, Array
from bushel.errors import CodecError

from .base import choose
from .frames import FrameTable
from .parts import Part

KEYFRAME, SHOWN = 1, 2
"""Flags of a packet: decoding can start at it; its frame is displayed."""

DECODERS = {"h264": "h264", "hevc": "hevc", "vp8": "vp8", "vp9": "vp9", "av1": "libdav1d"}
"""FFmpeg's decoders by FFmpeg's names of codecs. Clips of other codecs are read whole."""

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

    def part(self, elements: slice | I64) -> ClipPart | None:
        """Return the plan to decode some frames, without the bytes of packets; None if the packets do not list frames.

        Raises:
            IndexError: A frame is out of range.
        """
        table = FrameTable.of(self.times, (self.flags & SHOWN) != 0, (self.flags & KEYFRAME) != 0)
        if table is None:
            return None
        numbers = choose(elements, len(table))
        runs = table.runs(numbers) if len(numbers) else []
        packets = np.concatenate(
            [np.arange(run.start, run.stop) for run in runs] or [np.zeros(0, np.int64)]
        )
        extents = self.offsets[packets], self.lengths[packets]
        return ClipPart(self.config, table, numbers, tuple(runs), self.times[packets], *extents)


class ClipPart(Part, Struct, frozen=True, eq=False):
    """Frames of a clip that are to be decoded, and the packets that they need."""

    config: bytes  # the clip's `ClipConfig` as JSON
    table: FrameTable  # the frames of the clip
    numbers: I64  # int64[n], the frames that are requested
    # the packets to decode, by their numbers in the clip, in runs that each start at a keyframe
    runs: tuple[range, ...]
    times: I64  # int64[packets], their display times
    offsets: I64  # int64[packets], where they are, in bytes from the start of the clip
    lengths: I64  # int64[packets], bytes
    data: tuple[bytes, ...] = ()  # their bytes; empty before they are read

    def decode(self, codec: str) -> Array | None:
        """Decode the frames.

        Returns:
            The frames; None if the packets do not give them, so that the clip has to be read whole.

        Raises:
            SpecError: PyAV is not installed.
            CodecError: There are more decoded bytes than allowed.
        """
        from .video import decode_runs, new_frames, pyav

        av, config = pyav(codec), clip_config(self.config)
        if config is None or config.codec not in DECODERS:
            return None
        if not len(self.numbers):
            return new_frames(codec, 0, config.height, config.width)
        try:
            context = new_decoder(av, config)
            return decode_runs(codec, context, self._packets(av), self.table, self.numbers)
        except CodecError:
            raise
        # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid packets
        # and configurations.
        except Exception:
            return None

    def _packets(self, av: Any) -> list[tuple[range, list[Any]]]:
        first, packets_of_runs = 0, []
        for run in self.runs:
            packets = []
            for number in range(first, first + len(run)):
                packet = av.Packet(self.data[number])
                packet.pts = int(self.times[number])
                packets.append(packet)
            packets[0].is_keyframe = True
            packets_of_runs.append((run, packets))
            first += len(run)
        return packets_of_runs


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
